package creation

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/providers/proxmox/locks"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// A create that nobody asks for any more is forgotten while somebody ends its machine:
// the storage is given back once, whoever comes first, and nobody waits for ever.
func TestForsakenCreateGivesItsStorageBackOnce(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			reg, clones := NewRegistry(time.Now), new(locks.ByName)
			leave, err := clones.Take(t.Context(), "local-lvm")
			if err != nil {
				t.Fatal(err)
			}
			j := reg.begin(driver.CreateRequest{InstanceID: "knc06bgm7733st2576nx5jht4ecjw"}, rules.Settings{})
			j.leave.Store(&leave)
			time.Sleep(abandonedAfter + time.Second)
			var enders sync.WaitGroup
			for range 4 {
				enders.Go(j.release)
				enders.Go(func() { reg.job("another") }) // forgets what is old
			}
			enders.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := clones.Take(ctx, "local-lvm"); err != nil {
				t.Errorf("the next clone: %v", err)
			}
		})
	}
}
