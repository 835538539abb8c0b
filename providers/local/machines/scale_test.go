package machines

import (
	"os"
	"sync"
	"testing"

	"nstance.dev/providers/local/process"
	"nstance.dev/server/driver"
)

// TestTwoHundredAndBackToNone leaves neither a process nor a directory.
func TestTwoHundredAndBackToNone(t *testing.T) {
	d := empty(t)
	reqs := make([]driver.CreateRequest, 200)
	var wg sync.WaitGroup
	for i := range reqs {
		reqs[i] = request(t)
		wg.Go(func() {
			if _, err := d.Create(t.Context(), reqs[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var all []process.ID
	for _, req := range reqs {
		all = append(all, awaitStatus(t, d, req.InstanceID, driver.Running))
		must(t, d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
	}
	for i, req := range reqs {
		awaitGone(t, d, req.InstanceID)
		if alive, err := d.host.Alive(all[i]); alive || err != nil {
			t.Errorf("process %d of %s still runs: %v", all[i].PID, req.InstanceID, err)
		}
		if _, err := os.Stat(d.store.Dir(req.InstanceID)); !os.IsNotExist(err) {
			t.Errorf("the directory of %s is left: %v", req.InstanceID, err)
		}
	}
}
