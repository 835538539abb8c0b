package aws_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// wantKind checks the kind of an error; "" stands for none.
func wantKind(t *testing.T, what string, err error, want driver.ErrorClass) {
	t.Helper()
	var e *driver.Error
	if want == "" && err == nil || want != "" && errors.As(err, &e) && e.Class == want {
		return
	}
	t.Errorf("%s: %v, want %q", what, err, want)
}

// F19: a create whose answer is lost, and one that comes to nothing, end in one
// machine, whoever repeats it.
func TestF19_LostAnswersMakeOneMachine(t *testing.T) {
	for name, c := range map[string]struct {
		fault wire.Fault
		first driver.ErrorClass // of the first create; "": it succeeds
		left  int               // machines that exist after it
	}{
		"the connection breaks once":  {wire.Fault{Lost: true}, "", 1},
		"the cloud is ill afterwards": {wire.Fault{Kind: driver.Ambiguous, After: true}, driver.Ambiguous, 1},
		"the cloud is ill":            {wire.Fault{Kind: driver.Ambiguous}, driver.Ambiguous, 0},
		"the answer takes too long":   {wire.Fault{Linger: time.Hour}, driver.Ambiguous, 1},
		"the call takes too long":     {wire.Fault{Delay: time.Hour}, driver.Ambiguous, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, slow(), func(t *testing.T, w *world) {
				w.Gate().SetFaults(wire.Times(1, "RunInstances", c.fault))
				req := request(t)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := w.driver(t, "").Create(ctx, req)
				wantKind(t, "the first create", err, c.first)
				if n := len(w.alive()); n != c.left {
					t.Errorf("%d machines after the first create, want %d", n, c.left)
				}
				m, err := w.driver(t, "").Create(t.Context(), req) // by another server
				if err != nil || len(w.alive()) != 1 || w.alive()[0].ID != m.ProviderID {
					t.Errorf("the second create: %+v, %v; there are %+v", m, err, w.alive())
				}
			})
		})
	}
}

// F19: where the first try may have made a machine, that the second is refused does not
// say that there is none.
func TestF19_RefusalAfterABrokenConnectionIsOpen(t *testing.T) {
	for _, kind := range []driver.ErrorClass{driver.Throttled, driver.Capacity, driver.Auth, driver.Invalid} {
		inWorld(t, slow(), func(t *testing.T, w *world) {
			w.Gate().SetFaults(wire.Any(
				wire.Times(1, "RunInstances", wire.Fault{Lost: true}),
				wire.Times(1, "RunInstances", wire.Fault{Kind: kind}),
			))
			req, d := request(t), w.driver(t, "")
			_, err := d.Create(t.Context(), req)
			wantKind(t, "the first create, then "+string(kind), err, driver.Ambiguous)
			if m, err := d.Create(t.Context(), req); err != nil || len(w.alive()) != 1 || w.alive()[0].ID != m.ProviderID {
				t.Errorf("the second create: %+v, %v; there are %+v", m, err, w.alive())
			}
		})
	}
}

// S21: no call is repeated but after a broken connection, and then once.
func TestS21_OnlyBrokenConnectionsAreTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		fault wire.Fault
		calls int
		want  driver.ErrorClass
	}{
		"throttled":      {wire.Fault{Kind: driver.Throttled}, 1, driver.Throttled},
		"no room":        {wire.Fault{Kind: driver.Capacity}, 1, driver.Capacity},
		"the quota":      {wire.Fault{Kind: driver.Quota}, 1, driver.Quota},
		"no permission":  {wire.Fault{Kind: driver.Auth}, 1, driver.Auth},
		"wrong":          {wire.Fault{Kind: driver.Invalid}, 1, driver.Invalid},
		"a missing part": {wire.Fault{Kind: driver.MissingRef}, 1, driver.MissingRef},
		"ill":            {wire.Fault{Kind: driver.Ambiguous}, 1, driver.Ambiguous},
		"broken":         {wire.Fault{Lost: true}, 2, driver.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
				w.Gate().SetFaults(wire.Always("RunInstances", c.fault))
				_, err := w.driver(t, "").Create(t.Context(), request(t))
				wantKind(t, "create", err, c.want)
				if n := w.Gate().Count("RunInstances"); n != c.calls {
					t.Errorf("%d calls, want %d", n, c.calls)
				}
			})
		})
	}
}

// F20: a machine that the API does not show yet is made once, and can be ended.
func TestF20_LagMakesNoSecondMachine(t *testing.T) {
	opts := slow()
	opts.Lag = time.Minute
	inWorld(t, opts, func(t *testing.T, w *world) {
		d := w.driver(t, "")
		req := request(t)
		made, err := d.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
		wantKind(t, "get while the API lags", err, driver.NotFound)
		again, err := d.Create(t.Context(), req)
		if err != nil || again.ProviderID != made.ProviderID {
			t.Errorf("a repeated create made %q of %q: %v", again.ProviderID, made.ProviderID, err)
		}
		if err := d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}); err != nil {
			t.Errorf("delete while the API lags: %v", err)
		}
		if alive := w.alive(); len(alive) > 0 {
			t.Errorf("there are %+v", alive)
		}
	})
}

// F22: a listing that fails on its third page is no listing.
func TestF22_PartialListingsAreErrors(t *testing.T) {
	inWorld(t, awsfake.Options{PageSize: 5}, func(t *testing.T, w *world) {
		d := w.driver(t, "")
		for range 12 {
			if _, err := d.Create(t.Context(), request(t)); err != nil {
				t.Fatal(err)
			}
		}
		list, err := d.List(t.Context(), owner)
		if err != nil || len(list) != 12 || w.Gate().Count("DescribeInstances") != 3 {
			t.Fatalf("%d machines in %d pages, %v", len(list), w.Gate().Count("DescribeInstances"), err)
		}
		third := w.Gate().Count("") + 3
		w.Gate().SetFaults(wire.Only(func(c wire.Call) bool { return c.N == third }, wire.Always("", wire.Fault{Kind: driver.Transient})))
		list, err = d.List(t.Context(), owner)
		wantKind(t, "a listing without its third page", err, driver.Transient)
		if list != nil {
			t.Errorf("the listing has %d machines", len(list))
		}
	})
}

// F25: what is full says so in a way that lets the next place be tried.
func TestF25_FullPlaces(t *testing.T) {
	inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
		d := w.driver(t, "")
		w.SetRoom(awsfake.Place{Subnet: machines, Type: "t4g.small"}, 0)
		_, err := d.Create(t.Context(), request(t))
		wantKind(t, "a type without room", err, driver.Capacity)
		other := request(t)
		other.InstanceType = "m7g.large"
		_, err = d.Create(t.Context(), other)
		wantKind(t, "another type", err, "")
		w.SetQuota(1)
		other = request(t)
		other.InstanceType = "m7g.large"
		_, err = d.Create(t.Context(), other)
		wantKind(t, "beyond the account's quota", err, driver.Quota)
		nowhere := request(t)
		nowhere.SubnetID = "subnet-0ffffffffffffffff"
		_, err = d.Create(t.Context(), nowhere)
		wantKind(t, "a subnet that does not exist", err, driver.MissingRef)
		_, err = d.CheckSubnet(t.Context(), nowhere.SubnetID)
		wantKind(t, "the room of a subnet that does not exist", err, driver.MissingRef)
	})
}

// F29: what somebody else launched with our tags is listed, and a copy of one of
// our machines is not taken for it.
func TestF29_ForeignMachinesAreListed(t *testing.T) {
	inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
		d := w.driver(t, "")
		ours, err := d.Create(t.Context(), request(t))
		if err != nil {
			t.Fatal(err)
		}
		tags := func(id string) map[string]string {
			return map[string]string{
				identity.TagManaged: "true", identity.TagClusterID: owner.Cluster, identity.TagShard: owner.Shard, identity.TagInstanceID: id,
			}
		}
		malformed, copied := w.Plant(tags("by-hand")), w.Plant(tags(string(ours.InstanceID)))
		list, err := d.List(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]identity.ID{}
		for _, m := range list {
			got[m.ProviderID] = m.InstanceID
		}
		if want := map[string]identity.ID{ours.ProviderID: ours.InstanceID, malformed: "", copied: ""}; len(got) != 3 ||
			got[ours.ProviderID] != want[ours.ProviderID] || got[malformed] != "" || got[copied] != "" {
			t.Errorf("listed: %v, want %v", got, want)
		}
		if err := d.Delete(t.Context(), driver.Ref{InstanceID: ours.InstanceID}); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, m := range w.alive() {
			left = append(left, m.ID)
		}
		if slices.Contains(left, ours.ProviderID) || len(left) != 2 {
			t.Errorf("after the delete of %s there are %v", ours.ProviderID, left)
		}
		w.pass(2 * time.Hour) // EC2 has forgotten the original
		_, err = d.Get(t.Context(), driver.Ref{InstanceID: ours.InstanceID})
		wantKind(t, "get while there is a copy", err, driver.NotFound)
	})
}

// A token whose machine has ended makes no other.
func TestCreateAfterTheEndByAnotherServer(t *testing.T) {
	inWorld(t, awsfake.Options{End: time.Minute}, func(t *testing.T, w *world) {
		req := request(t)
		m, err := w.driver(t, "").Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.driver(t, "").Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID, ProviderID: m.ProviderID}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err = w.driver(t, "").Create(t.Context(), req)
			wantKind(t, "a create after the end", err, driver.Invalid)
			w.pass(2 * time.Minute)
		}
	})
}

// Spot machines are asked for by the arguments, and cannot be stopped.
func TestSpotMachines(t *testing.T) {
	inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
		d := w.driver(t, "")
		req := request(t)
		req.Args["InstanceMarketOptions"] = map[string]any{"MarketType": "spot", "SpotOptions": map[string]any{"MaxPrice": "0.02"}}
		m, err := d.Create(t.Context(), req)
		if err != nil || !w.alive()[0].Spot {
			t.Fatalf("create: %v, %+v", err, w.alive())
		}
		ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
		wantKind(t, "off", d.Power(t.Context(), ref, driver.PowerOff), driver.Unsupported)
		wantKind(t, "cycle", d.Power(t.Context(), ref, driver.PowerCycle), driver.Unsupported)
		wantKind(t, "reboot", d.Power(t.Context(), ref, driver.PowerReboot), "")
	})
}

// A cycle that was cut off goes on when it is asked for again.
func TestPowerCycleGoesOn(t *testing.T) {
	inWorld(t, awsfake.Options{Stop: time.Minute}, func(t *testing.T, w *world) {
		d := w.driver(t, "")
		m, err := d.Create(t.Context(), request(t))
		if err != nil {
			t.Fatal(err)
		}
		ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		err = d.Power(ctx, ref, driver.PowerCycle)
		wantKind(t, "a cycle without enough time", err, driver.Ambiguous)
		if err := d.Power(t.Context(), ref, driver.PowerCycle); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Get(t.Context(), ref); err != nil || got.Status.Down() {
			t.Errorf("after the cycle: %+v, %v", got, err)
		}
	})
}

// Many creates at once do not wait for one another.
func TestL7_CreatesGoOutTogether(t *testing.T) {
	inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
		d := w.driver(t, "")
		w.Gate().SetFaults(wire.Always("RunInstances", wire.Fault{Linger: 10 * time.Second}))
		begun := time.Now()
		var wg sync.WaitGroup
		for range 16 {
			req := request(t)
			wg.Go(func() {
				if _, err := d.Create(t.Context(), req); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begun); took != 10*time.Second || len(w.alive()) != 16 {
			t.Errorf("%d machines after %v", len(w.alive()), took)
		}
	})
}
