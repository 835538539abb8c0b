package hosts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/power"
	"nstance.dev/server/refusal"
)

// silently carries writes out, and answers nothing.
func silently(memory.Call) memory.Fault { return memory.Fault{After: objectstore.ErrUnavailable} }

// unhold ends the hold of an instance.
func (o *operatorTerm) unhold(id identity.ID) {
	o.w.t.Helper()
	if _, err := o.rows.Update(id, func(in *cache.Instance) error { in.Hold.Until = time.Now(); return nil }); err != nil {
		o.w.t.Fatal(err)
	}
}

func wantUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	var refused *refusal.Error
	if !errors.As(err, &refused) || refused.Code != refusal.Unavailable {
		t.Errorf("%s: %v, want that it may be tried again", what, err)
	}
}

// TestM84M85_AnOperationThatMayBeStored: storage does not say whether the first write of an operation
// has taken effect. Nobody is told that it runs (S15), no second one begins, and what its operator
// gives up switches no machine, under whichever leader.
func TestM84M85_AnOperationThatMayBeStored(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(o *operatorTerm, id identity.ID)
		later bool // another leader comes before storage answers again
		want  string
	}{
		"it is wanted": {func(*operatorTerm, identity.ID) {}, false, "Complete  [off] stopped"},
		"it is cancelled": {func(o *operatorTerm, _ identity.ID) {
			_, err := o.Cancel(o.w.t.Context(), "prod", "op-1")
			wantUnavailable(o.w.t, "cancel", err)
		}, false, "Failed Cancelled [] running"},
		"its hold is cleared":                    {(*operatorTerm).unhold, false, "Failed NoHold [] running"},
		"its hold is cleared, and a leader dies": {(*operatorTerm).unhold, true, "Failed NoHold [] running"},
		"it is wanted, and a leader dies":        {func(*operatorTerm, identity.ID) {}, true, "Complete  [off] stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				id := w.newID()
				s := &switchboard{status: driver.Running, offers: driver.PowerActions(), takes: 10 * time.Second}
				o := w.operate(1, s, id, nil)
				w.storage.SetFaults(silently)
				_, err := o.start(id, power.Off, nil)
				wantUnavailable(t, "start", err)
				_, err = o.start(id, power.Off, nil)
				wantUnavailable(t, "a repeat", err)
				_, err = o.Get(t.Context(), "prod", "op-1")
				wantUnavailable(t, "get", err)
				row, _ := o.rows.Instance(id)
				_, err = o.Start(t.Context(), row, OperationRequest{ID: "op-2", Name: power.On})
				wantReason(t, "another one", err, "OPERATION_RUNNING")
				c.then(o, id)
				time.Sleep(time.Minute)
				s.mu.Lock()
				calls := len(s.calls)
				s.mu.Unlock()
				if calls != 0 {
					t.Errorf("%d calls before it stands in storage", calls)
				}
				if c.later {
					hold, _ := o.rows.Instance(id)
					o.end()
					w.storage.SetFaults(nil)
					o = w.operateUnder(hold.Hold, 2, s, id, nil)
				}
				defer o.end()
				w.storage.SetFaults(nil)
				time.Sleep(5 * time.Minute)
				if got := w.result(o, s); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestS15_ARepeatWaitsForTheFirstCall: an operation that is being written is not told of, and a repeat
// ends as the call that writes it.
func TestS15_ARepeatWaitsForTheFirstCall(t *testing.T) {
	for name, c := range map[string]struct {
		fault memory.Fault
		want  string
	}{
		"it is written":   {memory.Fault{Latency: time.Second}, "InProgress <nil>, InProgress <nil>, InProgress <nil>"},
		"it is refused":   {memory.Fault{Latency: time.Second, Before: errors.New("no")}, "STORAGE_UNAVAILABLE, STORAGE_UNAVAILABLE, STORAGE_UNAVAILABLE"},
		"nobody answers":  {memory.Fault{Latency: time.Second, After: objectstore.ErrUnavailable}, "STORAGE_UNAVAILABLE, STORAGE_UNAVAILABLE, STORAGE_UNAVAILABLE"},
		"it is throttled": {memory.Fault{Latency: time.Second, Before: objectstore.ErrThrottled}, "STORAGE_UNAVAILABLE, STORAGE_UNAVAILABLE, STORAGE_UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				id := w.newID()
				s := &switchboard{status: driver.Running, offers: driver.PowerActions(), takes: 10 * time.Second}
				o := w.operate(1, s, id, nil)
				defer o.end()
				w.storage.SetFaults(func(memory.Call) memory.Fault { return c.fault })
				var mu sync.Mutex
				answers := make([]string, 3)
				say := func(i int, rec layout.OperationRecord, err error) {
					mu.Lock()
					defer mu.Unlock()
					var refused *refusal.Error
					if answers[i] = fmt.Sprint(rec.State, " ", err); errors.As(err, &refused) {
						answers[i] = refused.Reason
					}
				}
				began := time.Now()
				first := func() { rec, err := o.start(id, power.Off, nil); say(0, rec, err) }
				o.all.Go(first)
				synctest.Wait()
				o.all.Go(func() { rec, err := o.start(id, power.Off, nil); say(1, rec, err) })
				o.all.Go(func() { rec, err := o.Get(t.Context(), "prod", "op-1"); say(2, rec, err) })
				synctest.Wait()
				mu.Lock()
				early := slices.Clone(answers)
				mu.Unlock()
				if early[1] != "" || early[2] != "" {
					t.Errorf("answered %q after %v", early, time.Since(began))
				}
				time.Sleep(30 * time.Second)
				mu.Lock()
				got := strings.Join(answers, ", ")
				mu.Unlock()
				if got != c.want {
					t.Errorf("answered %q, want %q", got, c.want)
				}
				w.storage.SetFaults(nil)
			})
		})
	}
}

// TestM85_OneOperationOfAnInstanceGoesOn: a write whose outcome nobody knew shows up when another
// operation is under way.
func TestM85_OneOperationOfAnInstanceGoesOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		write := func(name string, age time.Duration, marks ...power.Entry) {
			rec := layout.OperationRecord{
				ID: name, Tenant: "prod", InstanceID: id, Name: string(power.Off), State: string(power.InProgress), Term: 1,
				Marks: marksOf(marks), At: layout.At(time.Now().Add(-age)), Deadline: layout.At(time.Now().Add(time.Hour)),
			}
			data, err := rec.Encode()
			if err == nil {
				_, err = w.storage.PutIfAbsent(t.Context(), rec.Key("s1"), data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		intent := power.Entry{Mark: power.Intent, At: time.Now(), Times: 1}
		write("op-0", 2*time.Minute, intent)
		write("op-1", time.Minute, intent, power.Entry{Mark: power.OffSent, Action: driver.PowerOff, At: time.Now(), Times: 1})
		write("op-2", time.Hour, intent)
		s := &switchboard{status: driver.Running, offers: driver.PowerActions(), takes: 10 * time.Second}
		o := w.operate(2, s, id, nil)
		defer o.end()
		if running, _, err := o.Running(t.Context(), id); running != "op-1" || err != nil {
			t.Errorf("%q is under way, %v; want the one that has begun", running, err)
		}
		time.Sleep(5 * time.Minute)
		if got := w.result(o, s); got != "Complete  [off] stopped" {
			t.Errorf("the one that had begun: %q", got)
		}
		for _, name := range []string{"op-0", "op-2"} {
			if rec, err := o.Get(t.Context(), "prod", name); err != nil || rec.Reason != power.Cancelled || !strings.Contains(rec.Message, "op-1") {
				t.Errorf("%s: %+v, %v", name, rec, err)
			}
		}
	})
}

// TestM85_ASystemIsAskedBeforeItIsSwitchedOff: what the provider did not take was not asked, and a system
// has its minute from when it was.
func TestM85_ASystemIsAskedBeforeItIsSwitchedOff(t *testing.T) {
	throttled := driver.Fail(driver.Throttled, "power", errors.New("slow down"))
	for name, c := range map[string]struct {
		takes, waits time.Duration
		fails        error
		want         string
	}{
		"the provider is busy":                       {10 * time.Second, 0, throttled, "Complete  [off] stopped"},
		"the call waits for its turn":                {50 * time.Second, 70 * time.Second, nil, "Complete  [off] stopped"},
		"the system does not stop, after its minute": {80 * time.Second, 70 * time.Second, nil, "Complete  [off off-hard] stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				id := w.newID()
				s := &switchboard{status: driver.Running, offers: driver.PowerActions(), takes: c.takes, fails: c.fails, waits: c.waits}
				o := w.operate(1, s, id, nil)
				defer o.end()
				if _, err := o.start(id, power.Off, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second)
				s.mu.Lock()
				s.fails = nil
				s.mu.Unlock()
				time.Sleep(8 * time.Minute)
				if got := w.result(o, s); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestM85_NoMachineIsLeftOff: a cycle whose deadline passes at any moment switches its machine on again.
func TestM85_NoMachineIsLeftOff(t *testing.T) {
	for seconds := 1; seconds <= 40; seconds += 3 {
		inWorld(t, func(t *testing.T, w *world) {
			id := w.newID()
			s := &switchboard{status: driver.Running, offers: driver.PowerActions(), takes: 12 * time.Second}
			o := w.operate(1, s, id, nil)
			defer o.end()
			row, _ := o.rows.Instance(id)
			req := OperationRequest{ID: "op-1", Name: power.Cycle, Deadline: time.Now().Add(time.Duration(seconds) * time.Second)}
			if _, err := o.Start(t.Context(), row, req); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			if got := w.result(o, s); !strings.HasSuffix(got, "running") {
				t.Errorf("a deadline %ds ahead: %q", seconds, got)
			}
		})
	}
}

// TestM84_AnOperationEndsWithinItsHold: its deadline is the end of the hold at the latest, and who would
// end the hold before is refused.
func TestM84_AnOperationEndsWithinItsHold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		s := &switchboard{status: driver.Running, offers: driver.PowerActions(), takes: 20 * time.Second}
		until := layout.At(time.Now().Add(8 * time.Minute)).Time
		o := w.operateUnder(fleet.Hold{Reason: fleet.HoldPower, Since: time.Now(), Until: until}, 1, s, id, nil)
		defer o.end()
		h := NewHolds(t.Context(), HoldOptions{
			Instances: rowChanger{o.rows}, LongestOff: func(cache.Instance) time.Duration { return 24 * time.Hour }, Running: o.Running,
			Members: func(fleet.GroupID) []fleet.Instance { return nil }, Unavailable: func(err error) error { return err }, Metrics: NewMetrics(nil), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		row := func() cache.Instance { in, _ := o.rows.Instance(id); return in }
		short := row()
		short.Hold.Until = time.Now().Add(59 * time.Second)
		_, err := o.Start(t.Context(), short, OperationRequest{ID: "op-1", Name: power.Cycle})
		wantReason(t, "a hold that is about to end", err, "NO_HOLD")
		rec, err := o.start(id, power.Cycle, nil)
		if err != nil || !rec.Deadline.Equal(until) {
			t.Fatalf("deadline %v, want %v; %v", rec.Deadline, until, err)
		}
		time.Sleep(10 * time.Second)
		wantReason(t, "cleared while it runs", h.Clear(t.Context(), row(), ""), "OPERATION_RUNNING")
		_, err = h.Set(t.Context(), row(), fleet.HoldPower, time.Now().Add(5*time.Minute))
		wantReason(t, "shortened while it runs", err, "OPERATION_RUNNING")
		if err := h.Clear(t.Context(), row(), fleet.HoldReboot); err != nil {
			t.Errorf("a hold that there is not: %v", err)
		}
		if hold, err := h.Set(t.Context(), row(), fleet.HoldPower, time.Now().Add(time.Hour)); err != nil || !hold.Until.After(until) {
			t.Errorf("made longer: %+v, %v", hold, err)
		}
		time.Sleep(3 * time.Minute)
		if err := h.Clear(t.Context(), row(), fleet.HoldPower); err != nil || row().Hold.InForce(time.Now()) {
			t.Errorf("cleared when it is over: %v", err)
		}
		if got := w.result(o, s); got != "Complete  [off-hard on] running" {
			t.Errorf("got %q", got)
		}
	})
}

// rowChanger changes the rows of a cache as their records.
type rowChanger struct{ rows *cache.Cache }

func (r rowChanger) Change(_ context.Context, id identity.ID, change func(*layout.InstanceRecord) error) (cache.Instance, error) {
	return r.rows.Update(id, func(in *cache.Instance) error {
		rec := layout.InstanceRecord{ID: id, RegisteredAt: layout.At(in.RegisteredAt)}
		noteHold(&rec, in.Hold)
		if err := change(&rec); err != nil {
			return err
		}
		in.Hold = holdOf(&rec)
		return nil
	})
}

// TestS22_OperationsOfAnInstanceAreBounded: who starts and cancels them in a loop leaves no more than some.
func TestS22_OperationsOfAnInstanceAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		s := &switchboard{status: driver.Stopped, offers: driver.PowerActions()}
		o := w.operate(1, s, id, nil)
		row, _ := o.rows.Instance(id)
		for i := range 3 * keepOfInstance {
			if _, err := o.Start(t.Context(), row, OperationRequest{ID: fmt.Sprintf("op-%03d", i), Name: power.Off}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
		}
		check := func(o *operatorTerm) {
			t.Helper()
			page, err := w.storage.List(t.Context(), layout.OperationPrefix("s1"), "", 0)
			o.mu.Lock()
			defer o.mu.Unlock()
			if err != nil || len(page.Objects) != keepOfInstance || len(o.Operations.all) != keepOfInstance || len(o.ended[id]) != keepOfInstance {
				t.Errorf("%d objects, %d known, %d of the instance, %v; want %d", len(page.Objects), len(o.Operations.all), len(o.ended[id]), err, keepOfInstance)
			}
		}
		check(o)
		_, err := o.Get(t.Context(), "prod", "op-000")
		wantReason(t, "the oldest", err, "NOT_FOUND")
		if rec, err := o.Get(t.Context(), "prod", fmt.Sprintf("op-%03d", 3*keepOfInstance-1)); err != nil || rec.State != string(power.Complete) {
			t.Errorf("the last: %+v, %v", rec, err)
		}
		o.end()
		next := w.operate(2, s, id, nil)
		defer next.end()
		if _, err := next.start(id, power.Off, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		check(next)
		if _, err := next.Get(t.Context(), "prod", fmt.Sprintf("op-%03d", 2*keepOfInstance)); err == nil {
			t.Error("the oldest that the leader of before has kept is there yet")
		}
	})
}
