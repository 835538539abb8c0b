package liveness

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
)

// The times of the tests: a report is overdue after 11 s, and three are after 33 s.
var testSettings = Settings{
	ReportInterval: 10 * time.Second, RequestTimeout: 5 * time.Second, RegistrationTimeout: 2 * time.Minute, Lag: 3 * time.Second,
}

var web = fleet.GroupID{Tenant: "default", Name: "web"}

// ward is a monitor with rows, a provider that says what the test wants, and everything that
// it was told. Its monitor runs.
type ward struct {
	*Monitor
	t     *testing.T
	cache *cache.Cache
	ids   identity.Generator

	mu      sync.Mutex
	told    []Change
	sick    []cache.Instance // told while the row changed
	lists   int
	gets    []identity.ID
	answers map[identity.ID]driver.Machine // what a Get says; without one: there is no such machine
	fails   error                          // of each Get
	over    int
	judging func() // called once, when an instance is judged next
}

// inWard runs a test in a bubble, with a monitor whose term has begun.
func inWard(t *testing.T, test func(*testing.T, *ward)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rows, err := cache.Open(t.Context(), os.DevNull+"/none", cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &ward{t: t, cache: rows, answers: map[identity.ID]driver.Machine{}}
		var under sync.WaitGroup
		w.Monitor = New(Options{
			Instances: instances.New(instances.Options{Cache: rows}), Cache: rows, Provider: w,
			Settings: w.settings, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Go: under.Go, Changed: w.changed, FoundSick: w.foundSick, List: w.list, Over: w.isOver,
		})
		w.Begin()
		ctx, cancel := context.WithCancel(t.Context())
		under.Go(func() { w.Run(ctx) })
		test(t, w)
		cancel()
		under.Wait()
		_ = rows.Close()
	})
}

func (w *ward) settings() Settings {
	w.mu.Lock()
	meanwhile := w.judging
	w.judging = nil
	w.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
	}
	return testSettings
}

func (w *ward) changed(c Change) {
	w.Silence() // nobody is told under the monitor's lock
	w.cache.Len()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, c)
}

func (w *ward) foundSick(in cache.Instance, _ string, _ time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sick = append(w.sick, in)
}

func (w *ward) list() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
}

var errTermOver = errors.New("the term is over")

func (w *ward) isOver(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over++
	return errors.Is(err, errTermOver)
}

// Get implements [Provider].
func (w *ward) Get(_ context.Context, ref driver.Ref) (driver.Machine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gets = append(w.gets, ref.InstanceID)
	if w.fails != nil {
		return driver.Machine{}, w.fails
	}
	vm, ok := w.answers[ref.InstanceID]
	if !ok {
		return vm, driver.Fail(driver.NotFound, "get", errors.New("no such machine"))
	}
	return vm, nil
}

// in adds an instance in a state; registered ones registered long ago.
func (w *ward) in(state fleet.State) identity.ID {
	w.t.Helper()
	id, err := w.ids.NewID("vmx")
	if err != nil {
		w.t.Fatal(err)
	}
	row := cache.Instance{Instance: fleet.Instance{ID: id, Group: web, State: state, Created: time.Now()}, NonceExpires: time.Now().Add(time.Hour)}
	if state != fleet.Pending {
		row.ProviderID, row.Power = "vm-"+id.String(), fleet.Up
	}
	if state == fleet.Running || state == fleet.Draining {
		row.RegisteredAt = time.Now().Add(-time.Hour)
	}
	if err := w.cache.Insert(row); err != nil {
		w.t.Fatal(err)
	}
	w.answers[id] = driver.Machine{InstanceID: id, ProviderID: "vm-" + id.String(), Status: driver.Running}
	return id
}

// reporting adds an instance whose agent is connected and has reported.
func (w *ward) reporting() identity.ID {
	w.t.Helper()
	id := w.in(fleet.Running)
	w.Connected(id)
	w.Reported(id, false)
	return id
}

func (w *ward) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *ward) row(id identity.ID) cache.Instance {
	row, _ := w.cache.Instance(id)
	return row
}

// events are what was told of an instance since the last call; of no instance: of the brake.
func (w *ward) events(id identity.ID) (events []Event) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = slices.DeleteFunc(w.told, func(c Change) bool {
		if c.Instance.ID != id {
			return false
		}
		events = append(events, c.Event)
		return true
	})
	return events
}

func (w *ward) expect(id identity.ID, what string, state fleet.State, events ...Event) {
	w.t.Helper()
	if got := w.events(id); w.row(id).State != state || !slices.Equal(got, events) {
		w.t.Errorf("%s: %s, told %v; want %s and %v", what, w.row(id).State, got, state, events)
	}
}

// asked is how often the provider was asked about an instance since the last call.
func (w *ward) asked(id identity.ID) (n int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gets = slices.DeleteFunc(w.gets, func(got identity.ID) bool {
		if got == id {
			n++
		}
		return got == id
	})
	return n
}

func (w *ward) listed() int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists
}
