package provider

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/lease"
)

func newClient(cloud driver.Driver, limits document.Limits, called func(string, time.Duration, error)) *Client {
	return New(cloud, Options{Limits: limits, Timeout: 10 * time.Second, Now: time.Now, Called: called})
}

func request(t *testing.T) driver.CreateRequest {
	t.Helper()
	id, err := identity.NewID("vmx")
	if err != nil {
		t.Fatal(err)
	}
	return driver.CreateRequest{Owner: driver.Owner{Cluster: "c", Shard: "s"}, InstanceID: id, Tenant: web.Tenant, Group: web.Name}
}

// everyCall is each method that calls the driver about machines.
func everyCall(t *testing.T, c *Client) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"create":        func(ctx context.Context) error { _, err := c.Create(ctx, request(t)); return err },
		"delete":        func(ctx context.Context) error { return c.Delete(ctx, web, driver.Ref{}) },
		"get":           func(ctx context.Context) error { _, err := c.Get(ctx, driver.Ref{}); return err },
		"list":          func(ctx context.Context) error { _, err := c.List(ctx, driver.Owner{}); return err },
		"probe":         c.Probe,
		"check-subnet":  func(ctx context.Context) error { _, err := c.CheckSubnet(ctx, "net-1"); return err },
		"resolve-image": func(ctx context.Context) error { _, err := c.ResolveImage(ctx, driver.ImageQuery{}); return err },
		"list-types":    func(ctx context.Context) error { _, err := c.ListTypes(ctx); return err },
		"lb-register":   func(ctx context.Context) error { return c.Register(ctx, driver.LoadBalancer{}, driver.Ref{}) },
		"lb-deregister": func(ctx context.Context) error { return c.Deregister(ctx, driver.LoadBalancer{}, driver.Ref{}) },
		"lb-list":       func(ctx context.Context) error { _, err := c.Members(ctx, driver.LoadBalancer{}); return err },
	}
}

// TestS2_NoCallWithoutTheLease: whatever is asked for, nothing is sent under a context
// that carries no lease, and the error says so.
func TestS2_NoCallWithoutTheLease(t *testing.T) {
	cloud := drivertest.New(drivertest.Options{})
	called := 0
	c := newClient(cloud, document.Limits{}, func(string, time.Duration, error) { called++ })
	for name, call := range everyCall(t, c) {
		if err := call(t.Context()); !errors.Is(err, lease.ErrNotLeader) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if calls := cloud.Calls(); len(calls) != 0 || called != 0 || c.Trouble() != (Trouble{}) {
		t.Errorf("%d calls were sent, %d told, trouble %+v", len(calls), called, c.Trouble())
	}
}

// TestACallHasATimeout: a provider that does not answer is given up after the time-out,
// which is trouble; the end of the caller's own patience is not.
func TestACallHasATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := drivertest.New(drivertest.Options{})
		cloud.SetFaults(drivertest.Always(drivertest.OpGet, drivertest.Fault{Latency: time.Hour}))
		var told []time.Duration
		c := newClient(cloud, document.Limits{}, func(_ string, took time.Duration, _ error) { told = append(told, took) })
		leading := lease.Always(t.Context(), 1)
		began := time.Now()
		if _, err := c.Get(leading, driver.Ref{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		want := Trouble{Since: began, Last: began.Add(10 * time.Second), Tried: 1}
		if got := c.Trouble(); got != want {
			t.Errorf("trouble %+v, want %+v", got, want)
		}
		impatient, cancel := context.WithCancel(leading)
		time.AfterFunc(time.Second, cancel)
		if _, err := c.Get(impatient, driver.Ref{}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if got := c.Trouble(); got != want {
			t.Errorf("after a call that its caller gave up: trouble %+v, want %+v", got, want)
		}
		if want := []time.Duration{10 * time.Second, time.Second}; !slices.Equal(told, want) {
			t.Errorf("calls took %v, want %v", told, want)
		}
	})
}

// TestS21_EachKindOfCallHasItsBucket: the configuration's limits win over the driver's,
// and no kind of call waits for the tokens of another.
func TestS21_EachKindOfCallHasItsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := drivertest.New(drivertest.Options{Limits: driver.Limits{
			Calls: driver.Bucket{Rate: 100, Burst: 1}, Instances: driver.Bucket{Rate: 1, Burst: 1},
			Deletes: driver.Bucket{Rate: 2, Burst: 1}, Reads: driver.Bucket{Rate: 4, Burst: 1},
		}})
		c := newClient(cloud, document.Limits{Deletes: &document.Bucket{Rate: 0.5, Burst: 1}}, nil)
		ctx := lease.Always(t.Context(), 1)
		span := func(n int, call func() error) time.Duration {
			began := time.Now()
			for range n {
				if err := call(); err != nil && !driver.IsNotFound(err) {
					t.Fatal(err)
				}
			}
			return time.Since(began).Round(time.Millisecond)
		}
		for name, tt := range map[string]struct {
			call func() error
			want time.Duration // of 5 calls: four waits
		}{
			"creates, by the slower of two buckets": {func() error { return c.WaitCreate(ctx) }, 4 * time.Second},
			"deletes, as configured":                {func() error { return c.WaitDelete(ctx, web) }, 8 * time.Second},
			"reads":                                 {func() error { _, err := c.Get(ctx, driver.Ref{}); return err }, time.Second},
		} {
			time.Sleep(time.Minute) // the buckets fill
			if got := span(5, tt.call); got != tt.want {
				t.Errorf("%s: five took %v, want %v", name, got, tt.want)
			}
		}
		if n := c.CreatesWithin(web, 10*time.Second); n != 10 {
			t.Errorf("%d creates within 10s, want 10", n)
		}
		if r := c.ReadsPerSecond(); r != 4 {
			t.Errorf("%v reads a second, want 4", r)
		}
	})
}

// TestL7_ThrottledGroupIsDelayed: who is throttled is slowed down, and nobody else.
func TestL7_ThrottledGroupIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := drivertest.New(drivertest.Options{Limits: driver.Limits{Calls: driver.Bucket{Rate: 10, Burst: 10}}})
		cloud.SetFaults(drivertest.Times(1, drivertest.OpCreate, drivertest.Fail(driver.Throttled)))
		c := newClient(cloud, document.Limits{}, nil)
		if _, err := c.Create(lease.Always(t.Context(), 1), request(t)); driver.ClassOf(err) != driver.Throttled {
			t.Fatal(err)
		}
		c.TakeDelayed(web)
		c.TakeDelayed(small)
		if mine, other := c.CreateDelay(web), c.CreateDelay(small); mine <= 0 || other != 0 {
			t.Errorf("delays of %v and %v, want one for the throttled group alone", mine, other)
		}
		if mine, other := c.CreatesWithin(web, 10*time.Second), c.CreatesWithin(small, 10*time.Second); mine != 50 || other != 100 {
			t.Errorf("%d and %d creates within 10s, want 50 and 100", mine, other)
		}
		time.Sleep(ThrottlePause)
		if d := c.CreateDelay(web); d != 0 {
			t.Errorf("a minute later it is delayed by %v", d)
		}
	})
}

// TestAbilities: what a driver lacks is said before it is called.
func TestAbilities(t *testing.T) {
	bare := newClient(drivertest.New(drivertest.Options{}), document.Limits{}, nil)
	if bare.ChecksSubnets() || bare.ResolvesImages() || bare.ListsTypes() || bare.HasBalancers() {
		t.Error("a driver without abilities is said to have some")
	}
}

// TestCallsTellHowLongTheyWaited for their turn, under the name of what they wait for.
func TestCallsTellHowLongTheyWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &document.Bucket{Rate: 0.5, Burst: 1}
		waits := map[string][]time.Duration{}
		c := New(drivertest.New(drivertest.Options{}), Options{
			Limits: document.Limits{Instances: slow, Deletes: slow, Reads: slow}, Timeout: 10 * time.Second, Now: time.Now,
			Waited: func(op string, took time.Duration) { waits[op] = append(waits[op], took) },
		})
		ctx := lease.Always(t.Context(), 1)
		for op, call := range map[string]func() error{
			"create": func() error { return c.WaitCreate(ctx) },
			"delete": func() error { return c.WaitDelete(ctx, web) },
			"list":   func() error { _, err := c.List(ctx, driver.Owner{}); return err },
		} {
			if err := errors.Join(call(), call()); err != nil {
				t.Errorf("%s: %v", op, err)
			}
			if got := waits[op]; len(got) != 2 || got[0] != 0 || got[1] != 2*time.Second {
				t.Errorf("%s waited %v", op, got)
			}
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err := c.WaitCreate(over); err == nil || len(waits["create"]) != 2 {
			t.Errorf("a wait that ended without a token was told: %v (%v)", waits["create"], err)
		}
	})
}
