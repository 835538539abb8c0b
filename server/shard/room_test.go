package shard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
)

// places counts the machines of a group by type and subnet.
func (w *world) places(group fleet.GroupID) string {
	count := map[string]int{}
	for _, vm := range w.vms(group) {
		count[vm.Type+" in "+vm.SubnetID]++
	}
	return fmt.Sprint(count)
}

// said are the errors of a group that its tenant can see.
func (w *world) said(group fleet.GroupID) []string {
	var all []string
	for _, e := range w.term().planner.cache.Errors(group.Tenant) {
		if e.Group == group.Name {
			all = append(all, e.Error)
		}
	}
	return all
}

func TestL8_SubnetsAreFilledWithoutARefusal(t *testing.T) {
	inWorld(t, worldOptions{Able: true}, func(t *testing.T, w *world) {
		w.cloud.SetConditions(drivertest.Conditions{Latency: 200 * time.Millisecond})
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-1"}, 6)
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-2"}, 3)
		w.scale(web, 12)
		w.settle(time.Second)
		if got, want := w.places(web), "map[small in net-1:6 small in net-2:3 small in net-3:3]"; got != want {
			t.Errorf("machines after a second: %s, want %s", got, want)
		}
		if n := w.count(drivertest.OpCreate); n != 12 {
			t.Errorf("%d create calls for 12 machines: some went where there was no room", n)
		}
		w.settle(time.Minute)
		w.converged(12)
	})
}

func TestL8_RoomThatComesBackIsUsed(t *testing.T) {
	inWorld(t, worldOptions{Able: true}, func(t *testing.T, w *world) {
		for _, net := range []string{"net-1", "net-2", "net-3"} {
			w.cloud.SetRoom(drivertest.Place{Subnet: net}, 0)
		}
		w.scale(web, 2)
		w.settle(time.Minute)
		if n := w.count(drivertest.OpCreate); n != 0 {
			t.Errorf("%d creates where no subnet has room", n)
		}
		said := w.said(web)
		if len(said) == 0 || !strings.Contains(said[0], `capacity: no room in pool "p": net-1 is full (0 free, 0 on their way); net-2 is full`) {
			t.Errorf("said %q, want which subnets are full", said)
		}
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-3"}, 5)
		w.settle(6 * time.Minute) // the longest back-off of a group
		w.converged(2)
	})
}

// TestF2_L7_SlowAnswersAboutSubnetsHoldNobodyUp: one group waits for a provider
// that does not answer, and a hundred others do not wait for its worker.
func TestF2_L7_SlowAnswersAboutSubnetsHoldNobodyUp(t *testing.T) {
	inWorld(t, worldOptions{Able: true, Groups: `{"default": {}, "b": {"other": {"template": "plain", "size": 0}}}`}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpSubnet, drivertest.Fault{Latency: time.Hour}))
		for i := range 100 {
			w.scale(fleet.GroupID{Tenant: "default", Name: fmt.Sprintf("g%d", i)}, 1)
		}
		w.settle(4 * time.Second) // the request time-out is five
		if n := w.count(drivertest.OpCreate); n != 0 {
			t.Errorf("%d creates before it is known where", n)
		}
		if n := w.count(drivertest.OpSubnet); n != 3 {
			t.Errorf("%d questions about three subnets, want one each", n)
		}
		w.settle(time.Minute)
		w.converged(100)
	})
}

func TestF25_SubnetThatDoesNotExistIsPassedOver(t *testing.T) {
	inWorld(t, worldOptions{Able: true}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.OpSubnet && c.Subject == "net-1" {
				return drivertest.Fail(driver.MissingRef)
			}
			return drivertest.Fault{}
		})
		w.scale(web, 2)
		w.settle(time.Minute)
		if got, want := w.places(web), "map[small in net-2:2]"; got != want {
			t.Errorf("machines: %s, want %s", got, want)
		}
	})
}

func TestOnDemandInstanceWaitsForTheSubnets(t *testing.T) {
	inWorld(t, worldOptions{Able: true}, func(t *testing.T, w *world) {
		w.scale(web, 0)
		w.cloud.SetConditions(drivertest.Conditions{Latency: time.Second})
		req := InstanceRequest{Group: web.Name}
		resp, err := w.term().requests.CreateInstance(w.ctx, web.Tenant, req)
		if err != nil || resp.Status != "pending" {
			t.Fatalf("create: %v, %v", resp, err)
		}
		w.settle(time.Minute)
		w.converged(1)
	})
}

func TestL8_NextTypeOfTheList(t *testing.T) {
	inWorld(t, worldOptions{Type: `["small", "medium"]`}, func(t *testing.T, w *world) {
		w.cloud.SetRoom(drivertest.Place{Type: "small"}, 0)
		w.scale(web, 2)
		w.settle(time.Second)
		if got, want := w.places(web), "map[medium in net-1:2]"; got != want {
			t.Errorf("machines after a second: %s, want %s", got, want)
		}
		for _, rec := range w.records() {
			if rec.InstanceType != "medium" || rec.SubnetID != "net-1" {
				t.Errorf("record says %s in %s", rec.InstanceType, rec.SubnetID)
			}
		}
		w.settle(time.Minute)
		w.converged(2)
	})
}

// TestS21_QuotaExhaustedForAnHour: the group backs off, tries one machine at a time,
// and its tenant is told once.
func TestS21_QuotaExhaustedForAnHour(t *testing.T) {
	other := fleet.GroupID{Tenant: "b", Name: "other"}
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.OpCreate && c.Request.Tenant == web.Tenant {
				return drivertest.Fail(driver.Quota)
			}
			return drivertest.Fault{}
		})
		w.scale(web, 40)
		w.settle(time.Minute)
		burst := w.count(drivertest.OpCreate)
		w.settle(time.Hour)
		if n := w.count(drivertest.OpCreate) - burst; n > 17 {
			t.Errorf("%d creates in an hour without quota, want one in four minutes at most", n)
		}
		if burst > 45 {
			t.Errorf("%d creates in the first minute, want the size and a few more", burst)
		}
		if said := w.said(web); len(said) != 1 || !strings.HasPrefix(said[0], "quota: ") {
			t.Errorf("said %q, want the quota once", said)
		}
		if n := len(w.records()); n > 0 {
			t.Errorf("%d records of machines that were refused", n)
		}
		w.scale(other, 3)
		w.settle(time.Second)
		if n := len(w.vms(other)); n != 3 {
			t.Errorf("%d machines of the other tenant's group, want 3", n)
		}
		w.cloud.SetFaults(nil)
		w.settle(6*time.Minute + 10*time.Second)
		w.converged(43)
	})
}
