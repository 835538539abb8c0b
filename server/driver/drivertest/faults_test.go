package drivertest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

var owner = driver.Owner{Cluster: "dev", Shard: "local"}

func request(t *testing.T) driver.CreateRequest {
	t.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		t.Fatal(err)
	}
	return driver.CreateRequest{
		InstanceID: id, Owner: owner, Tenant: "default", Group: "web",
		InstanceType: "small", SubnetID: "a", UserData: []byte("hello"), CreatedAt: id.CreatedAt(),
	}
}

func wantKind(t *testing.T, err error, want driver.ErrorClass) {
	t.Helper()
	if err == nil || driver.ClassOf(err) != want {
		t.Errorf("error %v, want kind %s", err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, c *drivertest.Cloud) []driver.Machine {
	t.Helper()
	all, err := c.List(t.Context(), owner)
	must(t, err)
	return all
}

func TestF19_LostCreateAnswer(t *testing.T) {
	c := drivertest.New(drivertest.Options{})
	c.SetFaults(drivertest.Times(1, drivertest.OpCreate, drivertest.LostAnswer()))
	req := request(t)
	_, err := c.Create(t.Context(), req)
	wantKind(t, err, driver.Ambiguous)
	_, err = c.Create(t.Context(), req)
	must(t, err)
	if n := len(c.Machines()); n != 1 {
		t.Errorf("%d machines after a lost answer and a repeat", n)
	}
	req.UserData = []byte("another nonce")
	_, err = c.Create(t.Context(), req)
	wantKind(t, err, driver.Invalid)
}

func TestF19_LateCreateAfterDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drivertest.New(drivertest.Options{})
		c.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Late: time.Minute}))
		kept, dropped := request(t), request(t)
		for _, req := range []driver.CreateRequest{kept, dropped} {
			_, err := c.Create(t.Context(), req)
			wantKind(t, err, driver.Ambiguous)
		}
		must(t, c.Delete(t.Context(), driver.Ref{InstanceID: dropped.InstanceID}))
		time.Sleep(2 * time.Minute)
		if all := c.Machines(); len(all) != 1 || all[0].InstanceID != kept.InstanceID {
			t.Errorf("late creates made %+v, want %s alone", all, kept.InstanceID)
		}
	})
}

func TestF20_LaggingList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drivertest.New(drivertest.Options{Conditions: drivertest.Conditions{ListLag: time.Minute}})
		req := request(t)
		_, err := c.Create(t.Context(), req)
		must(t, err)
		if c.Lag() != time.Minute || len(list(t, c)) != 0 || len(c.Machines()) != 1 {
			t.Errorf("lag %v; listed %v at once; in truth %v", c.Lag(), list(t, c), c.Machines())
		}
		time.Sleep(time.Minute)
		if len(list(t, c)) != 1 {
			t.Error("not listed after the lag")
		}
		must(t, c.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
		if len(list(t, c)) != 1 || len(c.Machines()) != 0 {
			t.Error("a lagging list shows an end at once")
		}
		time.Sleep(time.Minute)
		if len(list(t, c)) != 0 {
			t.Error("the end does not show after the lag")
		}
	})
}

func TestF21F22_EmptyAndBrokenLists(t *testing.T) {
	c := drivertest.New(drivertest.Options{PageSize: 2})
	for range 5 {
		_, err := c.Create(t.Context(), request(t))
		must(t, err)
	}
	c.SetFaults(drivertest.Times(1, drivertest.OpList, drivertest.Fault{Empty: true}))
	if n := len(list(t, c)); n != 0 {
		t.Errorf("%d machines in a list that was to be empty", n)
	}
	c.SetFaults(drivertest.Times(1, drivertest.OpList, drivertest.Fault{FailPage: 3}))
	all, err := c.List(t.Context(), owner)
	wantKind(t, err, driver.Transient)
	if all != nil {
		t.Errorf("a failed list returned %v", all)
	}
	c.SetFaults(drivertest.Times(1, drivertest.OpList, drivertest.Fault{FailPage: 4}))
	if n := len(list(t, c)); n != 5 {
		t.Errorf("%d machines listed on three pages, want 5", n)
	}
}

func TestF24_Throttling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := driver.Limits{Calls: driver.Bucket{Rate: 1, Burst: 2}}
		c := drivertest.New(drivertest.Options{Limits: limits, Enforce: true})
		for range 3 { // one beyond the burst is tolerated
			_, err := c.Create(t.Context(), request(t))
			must(t, err)
		}
		_, err := c.Create(t.Context(), request(t))
		wantKind(t, err, driver.Throttled)
		list(t, c) // another bucket
		time.Sleep(time.Second)
		_, err = c.Create(t.Context(), request(t))
		must(t, err)
		if n := len(c.Machines()); n != 4 || c.Count(drivertest.OpCreate) != 5 {
			t.Errorf("%d machines, %d creates", n, c.Count(drivertest.OpCreate))
		}
	})
}

func TestF25_Capacity(t *testing.T) {
	c := newFull(drivertest.Options{})
	c.SetRoom(drivertest.Place{Subnet: "a"}, 1)
	c.SetRoom(drivertest.Place{Type: "large"}, 0)
	first := request(t)
	_, err := c.Create(t.Context(), first)
	must(t, err)
	_, err = c.Create(t.Context(), request(t))
	wantKind(t, err, driver.Capacity)
	elsewhere := request(t)
	elsewhere.SubnetID, elsewhere.InstanceType = "b", "large"
	_, err = c.Create(t.Context(), elsewhere)
	wantKind(t, err, driver.Capacity)
	for subnet, want := range map[string]int{"a": 0, "b": -1} {
		if free, err := c.CheckSubnet(t.Context(), subnet); err != nil || free != want {
			t.Errorf("subnet %s: %d free, %v; want %d", subnet, free, err, want)
		}
	}
	must(t, c.Delete(t.Context(), driver.Ref{InstanceID: first.InstanceID}))
	_, err = c.Create(t.Context(), request(t))
	must(t, err)
}

func TestF26_DeathAtBirth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		c := drivertest.New(drivertest.Options{
			OnCreate: func(r driver.CreateRequest) { told = append(told, "up "+string(r.InstanceID)) },
			OnDown:   func(id identity.ID) { told = append(told, "down "+string(id)) },
		})
		atOnce, later := request(t), request(t)
		c.SetFaults(drivertest.Times(1, drivertest.OpCreate, drivertest.Fault{Dies: true}))
		_, err := c.Create(t.Context(), atOnce)
		must(t, err)
		c.SetFaults(drivertest.Times(1, drivertest.OpCreate, drivertest.Fault{Dies: true, DieAfter: time.Second}))
		_, err = c.Create(t.Context(), later)
		must(t, err)
		time.Sleep(2 * time.Second)
		for _, vm := range c.Machines() {
			if vm.Status != driver.Failed {
				t.Errorf("%s is %s", vm.InstanceID, vm.Status)
			}
		}
		want := []string{"up " + string(later.InstanceID), "down " + string(later.InstanceID)}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("hooks (-want +got):\n%s", diff)
		}
	})
}

func TestF27_SlowDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drivertest.New(drivertest.Options{Conditions: drivertest.Conditions{DeleteTime: 20 * time.Minute}})
		req := request(t)
		_, err := c.Create(t.Context(), req)
		must(t, err)
		must(t, c.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
		time.Sleep(19 * time.Minute)
		must(t, c.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
		if all := list(t, c); len(all) != 1 || all[0].Status != driver.Deleting {
			t.Errorf("after 19 of 20 minutes: %+v", all)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := c.WaitFor(ctx, func(vms []drivertest.VM) bool { return len(vms) == 0 }); err != nil {
			t.Errorf("still there: %v", err)
		}
	})
}

func TestF28F29_PeopleAtTheConsole(t *testing.T) {
	c := drivertest.New(drivertest.Options{})
	stopped, removed := request(t), request(t)
	for _, req := range []driver.CreateRequest{stopped, removed} {
		_, err := c.Create(t.Context(), req)
		must(t, err)
	}
	if !c.SetStatus(stopped.InstanceID, driver.Stopped) || !c.Remove(removed.InstanceID) || c.Remove(removed.InstanceID) {
		t.Error("what was done by hand does not say whether the machine exists")
	}
	_, err := c.Create(t.Context(), removed)
	wantKind(t, err, driver.Invalid)
	stranger := request(t).InstanceID
	c.Plant(owner, string(stranger))
	malformed := c.Plant(owner, "web-1")

	type row struct {
		ID     identity.ID
		RawID  string
		Status driver.Status
	}
	var got []row
	for _, m := range list(t, c) {
		got = append(got, row{m.InstanceID, m.RawID, m.Status})
	}
	want := []row{
		{stopped.InstanceID, string(stopped.InstanceID), driver.Stopped},
		{stranger, string(stranger), driver.Running},
		{"", "web-1", driver.Running},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	must(t, c.Delete(t.Context(), driver.Ref{ProviderID: malformed}))
	if n := len(c.Machines()); n != 2 {
		t.Errorf("%d machines are left, want 2", n)
	}
}

func TestOnCallSeesTheTruthBeforeTheEffect(t *testing.T) {
	var c *drivertest.Cloud
	var before []int
	c = drivertest.New(drivertest.Options{OnCall: func(call drivertest.Call) {
		if call.Op == drivertest.OpCreate {
			before = append(before, len(c.Machines()))
		}
	}})
	for range 3 {
		_, err := c.Create(t.Context(), request(t))
		must(t, err)
	}
	if !slices.Equal(before, []int{0, 1, 2}) {
		t.Errorf("machines before each create: %v", before)
	}
	calls := c.Calls()
	if len(calls) != 3 || calls[2].N != 3 || calls[2].Request.InstanceID != calls[2].ID || calls[2].At.IsZero() {
		t.Errorf("call log: %+v", calls)
	}
}

func TestLatencyEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drivertest.New(drivertest.Options{Conditions: drivertest.Conditions{Latency: time.Minute}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Create(ctx, request(t))
		wantKind(t, err, driver.Ambiguous)
		if !errors.Is(err, context.DeadlineExceeded) || len(c.Machines()) != 0 {
			t.Errorf("error %v, machines %v", err, c.Machines())
		}
	})
}

func TestFaultsCompose(t *testing.T) {
	c := drivertest.New(drivertest.Options{})
	c.SetFaults(drivertest.Any(
		drivertest.Times(1, drivertest.OpCreate, drivertest.Fail(driver.Quota)),
		drivertest.Always(drivertest.OpDelete, drivertest.Fail(driver.Auth)),
	))
	req := request(t)
	_, err := c.Create(t.Context(), req)
	wantKind(t, err, driver.Quota)
	_, err = c.Create(t.Context(), req)
	must(t, err)
	err = c.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID})
	wantKind(t, err, driver.Auth)
	if err.Error() != "delete: auth: refused on demand" {
		t.Errorf("error %q does not name its call", err)
	}
}
