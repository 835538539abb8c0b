package events

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
	"nstance.dev/server/status"
)

var web = fleet.GroupID{Tenant: "default", Name: "web"}

// configured answers for the configuration in force, and knows no groups.
type configured struct {
	status.Groups
	now atomic.Pointer[effective.Config]
}

func (c *configured) Config() *effective.Config { return c.now.Load() }

func (c *configured) Find(fleet.GroupID) (*effective.Group, bool) { return nil, false }

func configOf(zone string) *effective.Config {
	return &effective.Config{Config: &document.Config{Server: document.Server{Provider: document.Provider{Zone: zone}}}}
}

// tower is a broadcaster with rows.
type tower struct {
	*Broadcaster
	t      *testing.T
	rows   *cache.Cache
	config *configured
}

// onTower runs a test in a bubble.
func onTower(t *testing.T, test func(*testing.T, *tower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rows, err := cache.Open(t.Context(), os.DevNull+"/none", cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &tower{t: t, rows: rows, config: &configured{}}
		w.config.now.Store(configOf("z1"))
		w.Broadcaster = New(Options{Shard: "s1", Cache: rows, Now: time.Now, Status: status.New(status.Options{
			Shard: "s1", Term: 1, Cache: rows, Groups: w.config, Now: time.Now,
		})})
		test(t, w)
		w.Close()
		_ = rows.Close()
	})
}

func (w *tower) insert(id identity.ID, state fleet.State) {
	w.t.Helper()
	if err := w.rows.Insert(cache.Instance{Instance: fleet.Instance{ID: id, Group: web, State: state}}); err != nil {
		w.t.Fatal(err)
	}
}

// watcher is one that reads at once.
type watcher[T any] struct {
	events []T
	ended  chan error
	cancel context.CancelFunc
}

func watch[T any](w *tower, follow func(ctx context.Context, tenant string, send func(T) error) error, tenant string) *watcher[T] {
	ctx, cancel := context.WithCancel(w.t.Context())
	out := &watcher[T]{ended: make(chan error, 1), cancel: cancel}
	go func() {
		out.ended <- follow(ctx, tenant, func(ev T) error {
			out.events = append(out.events, ev)
			return nil
		})
	}()
	synctest.Wait()
	return out
}

// stop ends the watch, and returns how it ended.
func (w *watcher[T]) stop() error {
	w.cancel()
	return <-w.ended
}

func (w *watcher[T]) said(of func(T) string) (said []string) {
	synctest.Wait()
	for _, ev := range w.events {
		said = append(said, of(ev))
	}
	return said
}

func ofInstance(ev *Instance) string { return string(ev.Instance.ID) + " " + ev.Status }

// TestS17_AWatchBeginsWithWhatIsLeaving: then come a mark and the events.
func TestS17_AWatchBeginsWithWhatIsLeaving(t *testing.T) {
	onTower(t, func(t *testing.T, w *tower) {
		w.insert("vmx1", fleet.Running)
		w.insert("vmx2", fleet.Draining)
		w.insert("vmx3", fleet.Deleting)
		ours, foreign := watch(w, w.WatchInstances, "default"), watch(w, w.WatchInstances, "b")
		changed, stop := w.Changed()
		defer stop()
		w.Instance("vmx1", "running")
		w.Instance("vmx9", "deleted") // nobody knows it
		select {
		case <-changed:
		default:
			t.Error("nobody is told that instances have changed")
		}
		want := []string{"vmx2 pending_deletion", "vmx3 deleting", " snapshot_end", "vmx1 running"}
		if got := ours.said(ofInstance); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		if got := foreign.said(ofInstance); !slices.Equal(got, []string{" snapshot_end"}) {
			t.Errorf("S12: tenant b is told %q", got)
		}
		if err := errors.Join(ours.stop(), foreign.stop()); err != nil {
			t.Error(err)
		}
	})
}

// TestS17_NothingOlderFollows: an event that waited while the watch began tells what the
// beginning told already.
func TestS17_NothingOlderFollows(t *testing.T) {
	onTower(t, func(t *testing.T, w *tower) {
		w.insert("vmx1", fleet.Draining)
		var said []string
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			ended <- w.WatchInstances(ctx, "default", func(ev *Instance) error {
				if said = append(said, ofInstance(ev)); ev.Status == "snapshot_end" {
					w.Instance("vmx1", "pending_deletion")
				}
				return nil
			})
		}()
		synctest.Wait()
		if want := []string{"vmx1 pending_deletion", " snapshot_end"}; !slices.Equal(said, want) {
			t.Errorf("told %q, want %q", said, want)
		}
		cancel()
		<-ended
	})
}

// TestO5_HeartbeatsTellOfAnotherConfiguration: a watcher knows by the next one that its
// tenant's part of the configuration is another one.
func TestO5_HeartbeatsTellOfAnotherConfiguration(t *testing.T) {
	onTower(t, func(t *testing.T, w *tower) {
		beats := watch(w, w.WatchInstances, "default")
		beat := func(what string) string {
			time.Sleep(Heartbeat)
			synctest.Wait()
			last := beats.events[len(beats.events)-1]
			if last.Status != "heartbeat" || last.ConfigDigest != w.config.Config().DigestFor("default") || last.ConfigDigest == "" {
				t.Errorf("%s: %+v, want a heartbeat with the digest in force", what, last)
			}
			return last.ConfigDigest
		}
		before := beat("at first")
		other := configOf("z2")
		other.Tenants = map[string]document.Tenant{"default": {}}
		w.config.now.Store(other)
		if after := beat("after a reload"); after == before {
			t.Error("the digest is the one of before")
		}
		if n := len(beats.events); n != 3 {
			t.Errorf("%d events, want the mark and two heartbeats", n)
		}
		_ = beats.stop()
	})
}

func TestL11_ASlowWatcherIsCutOff(t *testing.T) {
	onTower(t, func(t *testing.T, w *tower) {
		w.insert("vmx1", fleet.Running)
		stuck, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- w.WatchInstances(t.Context(), "default", func(*Instance) error {
				<-stuck
				return nil
			})
		}()
		synctest.Wait()
		for range watchQueue + 1 { // none of them waits
			w.Instance("vmx1", "running")
		}
		close(stuck)
		var refused *refusal.Error
		if err := <-ended; !errors.As(err, &refused) || refused.Code != refusal.ResourceExhausted {
			t.Errorf("ended with %v, want ResourceExhausted", err)
		}
	})
}

// meddler is a provider that somebody calls while it is asked.
type meddler struct {
	driver.Driver
	meddle func()
}

func (m *meddler) ProviderURI(driver.Ref) string {
	if do := m.meddle; do != nil {
		m.meddle = nil
		do()
	}
	return "uri"
}

// TestS17_WhatChangesWhileItIsDescribed: an instance is described under no lock, and no event
// tells less than one before it.
func TestS17_WhatChangesWhileItIsDescribed(t *testing.T) {
	onTower(t, func(t *testing.T, w *tower) {
		provider := &meddler{}
		w.opts.Status = status.New(status.Options{Shard: "s1", Term: 1, Cache: w.rows, Groups: w.config, Driver: provider, Now: time.Now})
		if err := w.rows.Insert(cache.Instance{ProviderID: "vm", Instance: fleet.Instance{ID: "vmx1", Group: web, State: fleet.Provisioning}}); err != nil {
			t.Fatal(err)
		}
		ours := watch(w, w.WatchInstances, "default")
		provider.meddle = func() {
			if _, err := w.rows.Update("vmx1", func(in *cache.Instance) error { in.State = fleet.Running; return nil }); err != nil {
				t.Error(err)
			}
			w.Instance("vmx1", "registered")
		}
		w.Instance("vmx1", "created")
		want := []string{" snapshot_end", "vmx1 registered", "vmx1 created"}
		if got := ours.said(ofInstance); !slices.Equal(got, want) {
			t.Fatalf("told %q, want %q", got, want)
		}
		if one, two := ours.events[1].Instance, ours.events[2].Instance; one.State != fleet.Running || two.State != fleet.Running || two.Revision < one.Revision {
			t.Errorf("%s with revision %d after %s with %d", two.State, two.Revision, one.State, one.Revision)
		}
		_ = ours.stop()
	})
}

func TestErrorsAreToldAndKept(t *testing.T) {
	onTower(t, func(t *testing.T, w *tower) {
		errs := watch(w, w.WatchErrors, "default")
		w.Error(web, "", "quota", "no more")
		w.Error(fleet.GroupID{Tenant: "b", Name: "web"}, "vmx1", "quota", "no more")
		w.Error(web, "vmx1", "auth", "twice")
		got := errs.said(func(ev *Error) string {
			return ev.Shard + " " + ev.Group + " " + string(ev.Instance) + " " + ev.Class + ": " + ev.Text
		})
		if want := []string{"s1 web  quota: no more", "s1 web vmx1 auth: twice"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		if kept := w.rows.Errors("default"); len(kept) != 2 {
			t.Errorf("kept are %+v, want two", kept)
		}
		_ = errs.stop()
	})
}

func TestAGroupThatIsGone(t *testing.T) {
	onTower(t, func(t *testing.T, w *tower) {
		ours, foreign := w.groups.subscribe("default"), w.groups.subscribe("b")
		if _, ok := w.Group(web); ok {
			t.Error("it is said to exist")
		}
		if len(ours.queue) != 1 || len(foreign.queue) != 0 {
			t.Fatalf("%d events, and %d for tenant b; want one and none", len(ours.queue), len(foreign.queue))
		}
		if ev := <-ours.queue; !ev.Gone || ev.Group.Key != "web" || ev.Group.Revision != 0 {
			t.Errorf("told %+v, want that it is gone", ev)
		}
	})
}

func TestWatchesEndWithTheTerm(t *testing.T) {
	onTower(t, func(t *testing.T, w *tower) {
		instances, errs := watch(w, w.WatchInstances, "default"), watch(w, w.WatchErrors, "default")
		w.Close()
		for _, err := range []error{<-instances.ended, <-errs.ended, w.WatchErrors(t.Context(), "default", nil)} {
			var refused *refusal.Error
			if !errors.As(err, &refused) || refused.Code != refusal.Unavailable {
				t.Errorf("ended with %v, want Unavailable", err)
			}
		}
		instances.cancel()
		errs.cancel()
	})
}

func TestHub(t *testing.T) {
	var h hub[int]
	a, b := h.subscribe("a"), h.subscribe("b")
	h.publish("a", 1)
	h.publish("b", 2)
	if len(a.queue) != 1 || len(b.queue) != 1 || <-a.queue != 1 || <-b.queue != 2 {
		t.Error("events went to the wrong tenants")
	}
	for i := range watchQueue {
		h.publish("a", i)
	}
	if len(a.queue) != watchQueue || a.why != nil {
		t.Errorf("%d events wait, %v", len(a.queue), a.why)
	}
	h.publish("a", 0)
	for range watchQueue {
		<-a.queue
	}
	if _, open := <-a.queue; open || !errors.Is(a.why, errWatcherSlow) {
		t.Errorf("after one event too many: open %v, %v", open, a.why)
	}
	h.unsubscribe(a) // may come late
	h.close()
	if _, open := <-b.queue; open || !errors.Is(b.why, refusal.ErrTermOver) {
		t.Errorf("after the end: open %v, %v", open, b.why)
	}
	if late := h.subscribe("a"); !errors.Is(late.why, refusal.ErrTermOver) {
		t.Errorf("subscribed after the end: %v", late.why)
	}
	h.publish("a", 1)
}
