package machines

import (
	"sync"
	"testing"

	"nstance.dev/server/driver"
)

// TestF25_RoomIsKeptByCreatesAtOnce lets more creates race for a subnet than it
// has room for.
func TestF25_RoomIsKeptByCreatesAtOnce(t *testing.T) {
	d := empty(t)
	d.opts.Room = map[string]int{"narrow": 3}
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		req := request(t)
		req.SubnetID = "narrow"
		wg.Go(func() { _, errs[i] = d.Create(t.Context(), req) })
	}
	wg.Wait()
	refused := 0
	for _, err := range errs {
		if err != nil {
			wantKind(t, err, driver.Capacity)
			refused++
		}
	}
	if refused != 5 {
		t.Errorf("%d of 8 creates were refused in a subnet with room for 3", refused)
	}
	wide := request(t)
	wide.SubnetID = "wide"
	_, err := d.Create(t.Context(), wide)
	must(t, err)
}
