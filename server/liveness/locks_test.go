package liveness

import (
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
)

// TestNobodyIsCalledUnderALock: who is told that an instance was found sick may ask the
// monitor and change rows. A plan that is made meanwhile does not know it yet.
func TestNobodyIsCalledUnderALock(t *testing.T) {
	rows, err := cache.Open(t.Context(), os.DevNull+"/none", cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const id = identity.ID("vmx-a")
	err = rows.Insert(cache.Instance{ProviderID: "vm-a", Instance: fleet.Instance{
		RegisteredAt: time.Now().Add(-time.Hour), ID: id, Group: web, State: fleet.Running, Power: fleet.Up, Created: time.Now().Add(-time.Hour),
	}})
	if err != nil {
		t.Fatal(err)
	}
	store := instances.New(instances.Options{Cache: rows})
	var m *Monitor
	planned := func() fleet.State { return m.Heard(store.Of(web))[0].State }
	var tasks sync.WaitGroup
	found, changed := 0, 0
	m = New(Options{
		Instances: store, Cache: rows, Provider: nil, Settings: func() Settings { m.Silence(); return testSettings },
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Go: tasks.Go, List: func() {}, Over: func(error) bool { return false },
		FoundSick: func(in cache.Instance, why string, _ time.Time) {
			found++
			m.Silence()
			if row, _ := rows.Instance(id); row.State != fleet.Unhealthy || in.State != fleet.Unhealthy || why == "" {
				t.Errorf("told of %s because of %q, and its row says %s", in.State, why, row.State)
			}
			if state := planned(); state != fleet.Running {
				t.Errorf("plans are made from %s before anybody knows why", state)
			}
			if _, err := store.Note(id, func(in *cache.Instance) error { in.Hostname = "a"; return nil }); err != nil {
				t.Error(err)
			}
		},
		Changed: func(Change) {
			changed++
			if state := planned(); state != fleet.Unhealthy {
				t.Errorf("plans are made from %s when all has been told", state)
			}
		},
	})
	m.Begin()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Observe(driver.Machine{InstanceID: id, ProviderID: "vm-a", Status: driver.Stopped}, time.Now())
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("dead-lock: a function was called under a lock that it takes")
	}
	tasks.Wait()
	_ = rows.Close()
	if found != 1 || changed != 1 || len(m.unannounced.byID) != 0 {
		t.Errorf("found sick %d times, %d changes told, %d finds left", found, changed, len(m.unannounced.byID))
	}
}

// TestOneFindsAnInstanceSick: of those who find it at once the first tells, and the others
// leave nothing behind.
func TestOneFindsAnInstanceSick(t *testing.T) {
	inWard(t, func(t *testing.T, w *ward) {
		id := w.reporting()
		row, sick := w.row(id), fleet.Verdict{Event: fleet.EventFoundSick, Reason: fleet.ReasonUnhealthy, Power: fleet.Up, Why: "x"}
		for range 2 {
			if !w.unannounced.begin(row) {
				t.Fatal("the row is as it was judged")
			}
		}
		w.unannounced.end(id, false)
		if len(w.unannounced.byID) != 1 {
			t.Error("the other one is still at it")
		}
		if _, err := w.note(row, sick, time.Now()); err != nil {
			t.Fatal(err)
		}
		w.unannounced.end(id, false) // the other one finds that the row has moved
		if _, err := w.note(row, sick, time.Now()); err == nil || len(w.sick) != 1 || len(w.unannounced.byID) != 0 {
			t.Errorf("%v: told %d times, %d finds left", err, len(w.sick), len(w.unannounced.byID))
		}
		if got := w.Heard([]fleet.Instance{w.row(id).Instance})[0].State; got != fleet.Unhealthy {
			t.Errorf("plans are made from %s", got)
		}
	})
}
