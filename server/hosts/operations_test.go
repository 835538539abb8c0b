package hosts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/power"
	"nstance.dev/server/refusal"
)

// switchboard is a provider with one machine, which obeys after a while.
type switchboard struct {
	takes  time.Duration
	offers []driver.PowerAction
	waits  time.Duration // before a call is made

	fails error // of each call

	mu      sync.Mutex
	called  func(string) // at each call, before and after it
	status  driver.Status
	booted  time.Time
	calls   []string
	becomes driver.Status // what a call has begun
}

func (s *switchboard) SwitchesPower() bool { return true }

func (s *switchboard) Get(ctx context.Context, ref driver.Ref) (driver.Machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return driver.Machine{InstanceID: ref.InstanceID, ProviderID: "vm-1", Status: s.status}, ctx.Err()
}

func (s *switchboard) PowerActions(ctx context.Context, _ driver.Ref) ([]driver.PowerAction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offers == nil {
		return nil, errors.New("the provider cannot be asked")
	}
	return s.offers, ctx.Err()
}

func (s *switchboard) Power(ctx context.Context, _ fleet.GroupID, _ driver.Ref, action driver.PowerAction) error {
	s.notify("before the call")
	if err := ctx.Err(); err != nil {
		return err
	}
	time.Sleep(s.waits)
	s.mu.Lock()
	if err := s.fails; err != nil {
		s.mu.Unlock()
		return err
	}
	s.calls = append(s.calls, string(action))
	become := driver.Running
	switch action {
	case driver.PowerOff, driver.PowerOffHard:
		become = driver.Stopped
	case driver.PowerCycle:
		s.booted = time.Now().Add(time.Second)
	}
	if s.becomes != become {
		s.becomes = become
		time.AfterFunc(s.takes, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.status == driver.Stopped && become == driver.Running {
				s.booted = time.Now()
			}
			s.status = become
		})
	}
	s.mu.Unlock()
	s.notify("after the call")
	return ctx.Err()
}

func (s *switchboard) notify(when string) {
	s.mu.Lock()
	called := s.called
	s.mu.Unlock()
	if called != nil {
		called(when)
	}
}

// doomedStore tells of each write, before and after it.
type doomedStore struct {
	objectstore.Store
	wrote func(when string)
}

func (d doomedStore) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	return d.put(ctx, func() (string, error) { return d.Store.PutIfAbsent(ctx, key, data) })
}

func (d doomedStore) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	return d.put(ctx, func() (string, error) { return d.Store.PutIfMatch(ctx, key, data, etag) })
}

func (d doomedStore) put(ctx context.Context, write func() (string, error)) (string, error) {
	d.wrote("before the write")
	if err := ctx.Err(); err != nil {
		return "", err
	}
	etag, err := write()
	d.wrote("after the write")
	return etag, errors.Join(err, ctx.Err())
}

// operator is who carries operations out for one term.
type operatorTerm struct {
	*Operations
	w    *world
	rows *cache.Cache
	stop context.CancelFunc
	all  sync.WaitGroup
}

// operate begins a term in which the instance has a node machine and is on hold. moments, if not
// nil, hears of each write and call, and ends the term where it says so.
func (w *world) operate(term uint64, s *switchboard, id identity.ID, dies func(moment string) bool) *operatorTerm {
	w.t.Helper()
	return w.operateUnder(fleet.Hold{Reason: fleet.HoldPower, Since: time.Now(), Until: time.Now().Add(24 * time.Hour)}, term, s, id, dies)
}

// operateUnder is operate where the instance has this hold.
func (w *world) operateUnder(hold fleet.Hold, term uint64, s *switchboard, id identity.ID, dies func(moment string) bool) *operatorTerm {
	w.t.Helper()
	rows, err := cache.Open(w.t.Context(), os.DevNull+"/none", cache.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	o := &operatorTerm{w: w, rows: rows, stop: stop}
	moment := func(when string) {
		if dies != nil && dies(when) {
			stop()
		}
	}
	s.mu.Lock()
	s.called = moment
	s.mu.Unlock()
	o.Operations = NewOperations(ctx, OperationOptions{
		Shard: "s1", Term: term, Store: doomedStore{w.storage, moment}, Cache: rows, Provider: s, Observed: func(driver.Machine, time.Time) {},
		Writes: objectstore.RetryPolicy{Permit: func(ctx context.Context) error { return ctx.Err() }},
		Go:     o.all.Go, Over: func(err error) bool { return errors.Is(err, context.Canceled) },
		Metrics: NewMetrics(nil), Now: time.Now, Log: slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	row := cache.Instance{
		Instance: fleet.Instance{
			ID: id, Group: workers, State: fleet.Running, Power: fleet.Up, RegisteredAt: time.Now(),
			Hold: hold,
		},
		Machine: cache.Machine{On: true}, ProviderID: "vm-1",
	}
	if err := rows.Insert(row); err != nil {
		w.t.Fatal(err)
	}
	o.all.Go(func() { _ = o.Run(ctx) })
	o.all.Go(func() { // the agent reports while its machine runs
		for ctx.Err() == nil {
			s.mu.Lock()
			if s.status == driver.Running {
				h := cache.Health{ReceivedAt: time.Now(), Uptime: time.Since(s.booted).String()}
				rows.Report(id, h)
			}
			s.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
		}
	})
	synctest.Wait()
	return o
}

func (o *operatorTerm) end() {
	o.stop()
	o.all.Wait()
	_ = o.rows.Close()
}

func (o *operatorTerm) start(id identity.ID, name power.Name, params map[string]string) (layout.OperationRecord, error) {
	row, _ := o.rows.Instance(id)
	return o.Start(o.w.t.Context(), row, OperationRequest{ID: "op-1", Name: name, Params: params})
}

// result is how an operation stands, with what was sent.
func (w *world) result(o *operatorTerm, s *switchboard) string {
	w.t.Helper()
	rec, err := o.Get(w.t.Context(), "prod", "op-1")
	if err != nil {
		w.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(fmt.Sprintf("%s %s [%s] %s", rec.State, rec.Reason, strings.Join(s.calls, " "), s.status))
}

var google = []driver.PowerAction{driver.PowerOn, driver.PowerOff, driver.PowerCycle}

func TestM85_Operations(t *testing.T) {
	for name, c := range map[string]struct {
		begins driver.Status
		name   power.Name
		params map[string]string
		offers []driver.PowerAction
		takes  time.Duration
		fails  error
		want   string
	}{
		"off":                                 {driver.Running, power.Off, nil, driver.PowerActions(), 10 * time.Second, nil, "Complete  [off] stopped"},
		"off of what does not listen":         {driver.Running, power.Off, nil, driver.PowerActions(), 80 * time.Second, nil, "Complete  [off off-hard] stopped"},
		"off, hard":                           {driver.Running, power.Off, map[string]string{"mode": "hard"}, driver.PowerActions(), 10 * time.Second, nil, "Complete  [off-hard] stopped"},
		"off, hard, where there is none":      {driver.Running, power.Off, map[string]string{"mode": "hard"}, google, 0, nil, "Failed Unsupported [] running"},
		"on":                                  {driver.Stopped, power.On, nil, driver.PowerActions(), 30 * time.Second, nil, "Complete  [on] running"},
		"on of what runs":                     {driver.Running, power.On, nil, driver.PowerActions(), 0, nil, "Complete  [] running"},
		"a cycle":                             {driver.Running, power.Cycle, nil, driver.PowerActions(), 30 * time.Second, nil, "Complete  [off-hard on] running"},
		"a cycle of what is off":              {driver.Stopped, power.Cycle, nil, driver.PowerActions(), 5 * time.Second, nil, "Complete  [on] running"},
		"a cycle by the cloud":                {driver.Running, power.Cycle, nil, google, 5 * time.Second, nil, "Complete  [cycle] running"},
		"what the provider does not support":  {driver.Running, power.Off, nil, driver.PowerActions(), 0, driver.Fail(driver.Unsupported, "power", errors.New("no")), "Failed Unsupported [] running"},
		"what the provider refuses":           {driver.Running, power.Off, nil, driver.PowerActions(), 0, driver.Fail(driver.Invalid, "power", errors.New("no")), "Failed Refused [] running"},
		"what the provider does not hear now": {driver.Running, power.Off, nil, driver.PowerActions(), 0, driver.Fail(driver.Transient, "power", errors.New("no")), "Failed Timeout [] running"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				id := w.newID()
				s := &switchboard{status: c.begins, offers: c.offers, takes: c.takes, fails: c.fails, booted: time.Now().Add(-time.Hour)}
				o := w.operate(1, s, id, nil)
				defer o.end()
				if _, err := o.start(id, c.name, c.params); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Minute)
				if got := w.result(o, s); got != strings.TrimSpace(c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestM85_APowerCycleHappensOnce: whichever leader dies, at whatever write or call, there is one off
// and one on, or one cycle.
func TestM85_APowerCycleHappensOnce(t *testing.T) {
	for name, c := range map[string]struct {
		offers []driver.PowerAction
		want   string
	}{
		"two steps": {driver.PowerActions(), "Complete  [off-hard on] running"},
		"one step":  {google, "Complete  [cycle] running"},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				died := false
				inWorld(t, func(t *testing.T, w *world) {
					id := w.newID()
					s := &switchboard{status: driver.Running, offers: c.offers, takes: 20 * time.Second, booted: time.Now().Add(-time.Hour)}
					seen, at := 0, ""
					first := w.operate(1, s, id, func(moment string) bool {
						seen++
						if died = died || seen == n; seen == n {
							at = moment
						}
						return seen == n
					})
					_, err := first.start(id, power.Cycle, nil)
					time.Sleep(3 * time.Minute)
					first.end()
					second := w.operate(2, s, id, nil)
					defer second.end()
					if err != nil { // who asked asks again
						if _, err := second.start(id, power.Cycle, nil); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(20 * time.Minute)
					got := w.result(second, s)
					if never := len(c.offers) == len(google) && at != "after the call" && got == "Failed Interrupted [] running"; got != c.want && !never {
						t.Errorf("the leader died at moment %d (%s): %q, want %q", n, at, got, c.want)
					}
				})
				if !died {
					if n < 5 {
						t.Errorf("there were %d moments: the test shows nothing", n-1)
					}
					return
				}
			}
		})
	}
}

func TestOperationsAreRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		s := &switchboard{status: driver.Running, offers: driver.PowerActions(), takes: 10 * time.Second}
		o := w.operate(1, s, id, nil)
		defer o.end()
		row, _ := o.rows.Instance(id)
		good := OperationRequest{ID: "op-1", Name: power.Off}
		for _, c := range []struct {
			what, reason string
			row          func(*cache.Instance)
			request      func(*OperationRequest)
		}{
			{"no such name", "INVALID_OPERATION", nil, func(r *OperationRequest) { r.Name = "explode" }},
			{"an id that stands in no key", "INVALID_OPERATION", nil, func(r *OperationRequest) { r.ID = "../x" }},
			{"too late", "INVALID_OPERATION", nil, func(r *OperationRequest) { r.Deadline = time.Now() }},
			{"too far ahead", "INVALID_OPERATION", nil, func(r *OperationRequest) { r.Deadline = time.Now().Add(25 * time.Hour) }},
			{"no such parameter", "INVALID_PARAMETERS", nil, func(r *OperationRequest) { r.Params = map[string]string{"speed": "high"} }},
			{"no such mode", "INVALID_PARAMETERS", nil, func(r *OperationRequest) { r.Params = map[string]string{"mode": "soft"} }},
			{"leaving", "INSTANCE_LEAVING", func(in *cache.Instance) { in.State = fleet.Draining }, nil},
			{"no node machine", "NO_NODE_MACHINE", func(in *cache.Instance) { in.Machine.On = false }, nil},
			{"not on hold", "NO_HOLD", func(in *cache.Instance) { in.Hold = fleet.Hold{} }, nil},
			{"on hold for something else", "NO_HOLD", func(in *cache.Instance) { in.Hold.Reason = fleet.HoldReboot }, nil},
			{"no longer on hold", "NO_HOLD", func(in *cache.Instance) { in.Hold.Until = time.Now() }, nil},
		} {
			in, req := row, good
			if c.row != nil {
				c.row(&in)
			}
			if c.request != nil {
				c.request(&req)
			}
			_, err := o.Start(t.Context(), in, req)
			wantReason(t, c.what, err, c.reason)
		}
		if _, err := o.Start(t.Context(), row, good); err != nil {
			t.Fatal(err)
		}
		if again, err := o.Start(t.Context(), row, good); err != nil || again.State != string(power.InProgress) {
			t.Errorf("a repeat: %+v, %v", again, err)
		}
		other := good
		other.Name = power.On
		_, err := o.Start(t.Context(), row, other)
		wantReason(t, "another one of the id", err, "OPERATION_EXISTS")
		other.ID = "op-2"
		_, err = o.Start(t.Context(), row, other)
		wantReason(t, "a second one", err, "OPERATION_RUNNING")
		_, err = o.Get(t.Context(), "other", "op-1")
		wantReason(t, "S12: of another tenant", err, "NOT_FOUND")
		_, err = o.Cancel(t.Context(), "other", "op-1")
		wantReason(t, "S12: cancelled by another tenant", err, "NOT_FOUND")
		time.Sleep(time.Minute)
		if got := w.result(o, s); got != "Complete  [off] stopped" {
			t.Errorf("the first one: %q", got)
		}
		if _, err := o.Start(t.Context(), row, other); err != nil {
			t.Errorf("the next one, when that is over: %v", err)
		}
	})
}

func wantReason(t *testing.T, what string, err error, reason string) {
	t.Helper()
	var refused *refusal.Error
	if !errors.As(err, &refused) || refused.Reason != reason {
		t.Errorf("%s: %v, want %s", what, err, reason)
	}
}

// TestOperationsAreKeptForADay: so long whoever asks again hears how they ended, also of the next
// leader.
func TestOperationsAreKeptForADay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		s := &switchboard{status: driver.Running, offers: driver.PowerActions()}
		first := w.operate(1, s, id, nil)
		if _, err := first.start(id, power.Off, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
		first.end()
		second := w.operate(2, s, id, nil)
		defer second.end()
		if got := w.result(second, s); got != "Complete  [off] stopped" {
			t.Errorf("after 23 hours: %q", got)
		}
		time.Sleep(3 * time.Hour)
		_, err := second.Get(t.Context(), "prod", "op-1")
		wantReason(t, "after 26 hours", err, "NOT_FOUND")
		if _, err := w.storage.Get(t.Context(), layout.OperationKey("s1", "prod", "op-1")); !errors.Is(err, objectstore.ErrNotFound) {
			t.Errorf("its object: %v", err)
		}
	})
}

// TestOperationsAreCancelled: before anything was sent, and not afterwards.
func TestOperationsAreCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		want  string
	}{
		"at once":            {0, "Failed Cancelled [] running"},
		"when off was sent":  {2 * time.Second, "Complete  [off-hard on] running"},
		"when it was seen":   {40 * time.Second, "Complete  [off-hard on] running"},
		"when it was over":   {5 * time.Minute, "Complete  [off-hard on] running"},
		"and its machine is": {time.Minute, "Complete  [off-hard on] running"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				id := w.newID()
				s := &switchboard{status: driver.Running, offers: driver.PowerActions(), takes: 20 * time.Second}
				o := w.operate(1, s, id, nil)
				defer o.end()
				if c.after == 0 { // the provider can't be asked for a moment
					s.mu.Lock()
					s.offers = nil
					s.mu.Unlock()
				}
				if _, err := o.start(id, power.Cycle, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.after)
				if _, err := o.Cancel(t.Context(), "prod", "op-1"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Minute)
				if got := w.result(o, s); got != strings.TrimSpace(c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestAnOperationEndsWithItsInstance: a machine that is to be deleted is not switched on again.
func TestAnOperationEndsWithItsInstance(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		s := &switchboard{status: driver.Running, offers: driver.PowerActions(), takes: 20 * time.Second}
		o := w.operate(1, s, id, nil)
		defer o.end()
		if _, err := o.start(id, power.Cycle, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if _, err := o.rows.Update(id, func(in *cache.Instance) error { in.State = fleet.Draining; return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		if got := w.result(o, s); got != "Failed InstanceLeaving [off-hard] stopped" {
			t.Errorf("got %q", got)
		}
	})
}

// TestOperationsCostNothingWithoutNodeMachines: nothing is listed.
func TestOperationsCostNothingWithoutNodeMachines(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		rows, err := cache.Open(t.Context(), os.DevNull+"/none", cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		if err := rows.Insert(cache.Instance{Instance: fleet.Instance{ID: w.newID(), Group: workers, State: fleet.Running}}); err != nil {
			t.Fatal(err)
		}
		o := NewOperations(t.Context(), OperationOptions{Shard: "s1", Cache: rows}) // without a store
		if err := o.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal([]int{len(o.all), len(o.busy)}, []int{0, 0}) {
			t.Error("there are operations")
		}
	})
}
