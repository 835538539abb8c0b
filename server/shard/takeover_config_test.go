package shard

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
)

// TestS6_TakeOverServesWithTheNewestConfiguration: a static group grows while a take-over
// waits for the provider. Its first plan is made with the size of now.
func TestS6_TakeOverServesWithTheNewestConfiguration(t *testing.T) {
	static := fleet.GroupID{Tenant: "default", Name: "static"}
	sized := func(size string) worldOptions {
		return worldOptions{Groups: `{"default": {"static": {"template": "plain", "size": ` + size + `}}}`}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sized("4"))
		defer w.close()
		w.lead()
		w.settle(time.Minute)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.static = config.Version{Config: testConfig(t, sized("2")), ETag: "small"}
		w.cloud.SetFaults(drivertest.Always(drivertest.OpList, drivertest.Fail(driver.Transient)))
		w.start()
		w.settle(time.Minute)
		w.static = config.Version{Config: testConfig(t, sized("4")), ETag: "large"}
		if err := w.shard().Apply(w.ctx, w.static); err != nil {
			t.Fatal(err)
		}
		w.cloud.SetFaults(nil)
		w.serving()
		w.settle(time.Minute)
		w.converged(4)
		if n := w.count(drivertest.OpDelete); n != 0 {
			t.Errorf("%d machines of %d were deleted for a size that was replaced before anybody led", n, len(w.vms(static)))
		}
		if strings.Contains(w.logs.String(), "action=condemn") {
			t.Error("the first plan was made with the size of before")
		}
	})
}
