package hosts

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

func code(err error) refusal.Code {
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
		return refused.Code
	}
	if err == nil {
		return "OK"
	}
	return "none"
}

// M40, M41: an assignment is durable when the call returns, goes to the agent at once or at its
// next connect, and is ordered by its epoch whoever writes.
func TestM40_M41_AnAssignmentIsStoredAndSent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		l.mustPut(id, paving(1), credentialFor(1, 1, time.Hour))
		if rec := w.stored(id); rec == nil || rec.Epoch != 1 || rec.Hash != hash || rec.Term != 1 || rec.Confirmed != nil {
			t.Fatalf("stored %+v", rec)
		}
		l.expectSent("nobody is connected")
		l.expectView("nobody is connected", id, "epoch 1, credential 1")
		l.connect(id)
		l.expectSent("connect", "assignment 1 PAVE", "credential 1/1")
		l.mustPut(id, paving(1), nil)
		l.expectSent("a repeat")
		l.mustPut(id, paving(1), credentialFor(1, 1, time.Hour))
		l.expectSent("a repeat with the same credential")
		l.mustPut(id, paving(1), credentialFor(1, 2, time.Hour))
		l.expectSent("a newer credential", "credential 1/2")
		l.mustConfirm(id, 1, "node-1")
		l.expectSent("the node has joined", "confirmed 1 node-1")
		l.mustConfirm(id, 1, "node-1")
		l.expectSent("a repeat")
		l.expectView("joined", id, "connected, epoch 1, confirmed node-1")
		l.mustPut(id, paving(2), credentialFor(2, 1, time.Hour))
		l.expectSent("a repave", "assignment 2 REPAVE", "credential 2/1")
		l.expectView("a repave", id, "connected, epoch 2, credential 1")
		if got := l.agents.last.GetCredentialUpdate(); got.GetToken() != marked+"-token" || string(got.GetPullSecrets()["pull"]) == "" {
			t.Errorf("credential %v", got)
		}

		other := paving(2)
		other.Configuration.Hash = "sha256:" + strings.Repeat("0b", 32)
		foreign := paving(2)
		foreign.MachineUid = "another machine"
		zero, two := int64(0), int64(2)
		for name, c := range map[string]struct {
			put      *nstancev1.MachineAssignment
			expected *int64
			want     refusal.Code
		}{
			"a lower epoch":                  {paving(1), nil, refusal.FailedPrecondition},
			"the epoch with another hash":    {other, nil, refusal.AlreadyExists},
			"the epoch of another machine":   {foreign, nil, refusal.AlreadyExists},
			"a repeat with an expectation":   {paving(2), &zero, "OK"},
			"not what was expected":          {paving(3), &zero, refusal.Aborted},
			"what was expected, but too low": {paving(1), &two, refusal.FailedPrecondition},
		} {
			err := l.Put(t.Context(), l.row(id), &nstancev1.PutAssignmentRequest{Assignment: c.put, ExpectedEpoch: c.expected})
			if code(err) != c.want {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		}
		l.expectSent("what was refused")
		if err := l.Confirm(t.Context(), l.row(id), &nstancev1.ConfirmNodeRequest{Epoch: 1, NodeUid: "n", BootId: "b"}); code(err) != refusal.FailedPrecondition {
			t.Errorf("confirmation of another epoch: %v", err)
		}
		if err := l.Delete(t.Context(), l.row(id), &nstancev1.DeleteAssignmentRequest{ExpectedEpoch: &zero}); code(err) != refusal.Aborted {
			t.Errorf("deletion of another epoch: %v", err)
		}
		if err := l.Delete(t.Context(), l.row(id), &nstancev1.DeleteAssignmentRequest{ExpectedEpoch: &two}); err != nil || w.stored(id) != nil {
			t.Errorf("deletion: %v", err)
		}
		if err := l.Delete(t.Context(), l.row(id), &nstancev1.DeleteAssignmentRequest{}); err != nil {
			t.Errorf("deletion of nothing: %v", err)
		}
		l.expectView("deleted", id, "connected")
		l.disconnect(id)
		l.expectView("and not connected", id, "nothing")
		if err := l.Confirm(t.Context(), l.row(id), &nstancev1.ConfirmNodeRequest{Epoch: 1, NodeUid: "n", BootId: "b"}); code(err) != refusal.NotFound {
			t.Errorf("confirmation of nothing: %v", err)
		}
	})
}

// What is in force is said again on each stream; what does not fit into a queue is sent when
// there is room.
// TestM90_AVersionChangesNothingOfItsInstance: whatever is assigned, what the instance was made from stays.
func TestM90_AVersionChangesNothingOfItsInstance(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		before := l.row(id)
		l.mustPut(id, paving(1), credentialFor(1, 1, time.Hour))
		l.mustConfirm(id, 1, "node-1")
		next := paving(2)
		next.Configuration.Version, next.Configuration.Hash = 9, "sha256:"+strings.Repeat("0c", 32)
		l.mustPut(id, next, credentialFor(2, 1, time.Hour))
		if diff := cmp.Diff(before, l.row(id)); diff != "" {
			t.Errorf("the instance changed:\n%s", diff)
		}
	})
}

func TestM40_TheAssignmentIsReplayedAtEachConnect(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		l.connect(id)
		l.mustPut(id, paving(1), credentialFor(1, 1, time.Hour))
		l.mustConfirm(id, 1, "node-1")
		l.expectSent("at once", "assignment 1 PAVE", "credential 1/1", "confirmed 1 node-1")
		l.disconnect(id)
		l.connect(id)
		l.expectSent("again", "assignment 1 PAVE", "confirmed 1 node-1")
		if !proto.Equal(paving(1), mustMessage(t, l, id)) {
			t.Errorf("sent %v", mustMessage(t, l, id))
		}
		l.agents.room = 1
		l.connect(id)
		l.expectSent("a queue with room for one", "assignment 1 PAVE")
		l.Wake(id)
		l.expectSent("room again", "confirmed 1 node-1")
		l.Wake(id)
		l.expectSent("nothing is missing")
		l.Greeted(id, false, "v1")
		l.expectView("an agent that has lost its paver", id, "epoch 1, confirmed node-1")
	})
}

// TestM46_AMachineThatBootsAgainIsConfirmedAgain: a host that waits for its Node believes what it is told of
// the boot that runs alone.
func TestM46_AMachineThatBootsAgainIsConfirmedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		l.connect(id)
		l.mustPut(id, paving(1), credentialFor(1, 1, time.Hour))
		l.mustConfirmBoot(id, 1, "node-1", "boot-1")
		l.expectSent("the first boot", "assignment 1 PAVE", "credential 1/1", "confirmed 1 node-1")
		l.mustConfirmBoot(id, 1, "node-1", "boot-1")
		l.expectSent("the same again")
		l.mustConfirmBoot(id, 1, "node-1", "boot-2")
		l.expectSent("the second boot", "confirmed 1 node-1")
		if rec := w.stored(id); rec.Confirmed == nil || rec.Confirmed.BootID != "boot-2" {
			t.Errorf("stored %+v", rec.Confirmed)
		}
	})
}

func mustMessage(t *testing.T, l *leader, id identity.ID) *nstancev1.MachineAssignment {
	t.Helper()
	a, _ := l.find(id).stored()
	m, err := a.message()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// M43: a credential is in the leader's memory alone. The next leader says that it is missing,
// sends none that is over, and the marked bytes are in nothing that was stored or logged.
func TestM43_ACredentialIsInMemoryAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		first := w.lead(1, id)
		first.connect(id)
		first.mustPut(id, paving(1), credentialFor(1, 1, time.Hour))
		first.expectSent("the first leader", "assignment 1 PAVE", "credential 1/1")
		first.Status(id, &nstancev1.MachineStatus{Epoch: 1, CredentialNeeded: true})
		first.expectSent("lost on the host", "credential 1/1")
		first.end()

		second := w.lead(2, id)
		defer second.end()
		second.expectView("the next leader", id, "epoch 1, credential missing")
		second.connect(id)
		second.expectSent("the next leader", "assignment 1 PAVE")
		if err := second.put(id, paving(1), credentialFor(1, 2, -time.Second)); code(err) != refusal.InvalidArgument {
			t.Errorf("a credential that is over: %v", err)
		}
		second.mustPut(id, paving(1), credentialFor(1, 2, time.Hour))
		second.expectSent("a new one", "credential 1/2")
		second.expectView("a new one", id, "connected, epoch 1, credential 2")
		time.Sleep(time.Hour)
		second.connect(id)
		second.expectSent("after its end", "assignment 1 PAVE")
		second.expectView("after its end", id, "connected, epoch 1, credential missing")
		second.mustPut(id, paving(1), credentialFor(1, 3, time.Hour))
		second.expectSent("another", "credential 1/3")
		second.mustConfirm(id, 1, "node-1")
		second.expectView("joined", id, "connected, epoch 1, confirmed node-1")
		if second.find(id).credential != nil {
			t.Error("the credential of a machine that has joined is kept")
		}

		adopt := paving(2)
		adopt.Mode = nstancev1.MachineMode_MACHINE_MODE_ADOPT
		second.mustPut(id, adopt, nil)
		second.expectView("what has joined is taken over", id, "connected, epoch 2")

		page, err := w.storage.List(t.Context(), "", "", 0)
		if err != nil || len(page.Objects) == 0 {
			t.Fatalf("%d objects, %v", len(page.Objects), err)
		}
		for _, info := range page.Objects {
			if obj, err := w.storage.Get(t.Context(), info.Key); err != nil || bytes.Contains(obj.Data, []byte(marked)) {
				t.Errorf("object %s holds the secret, or %v", info.Key, err)
			}
		}
		if w.logs.Len() == 0 || strings.Contains(w.logs.String(), marked) {
			t.Error("the log holds the secret, or nothing")
		}
	})
}

// TestM3_HowFarAHostIs: demand mode is told whether a host was told what to build, and when it has given that up and
// left what failed; what it went back to, and what it failed of before, say nothing of that.
func TestM3_HowFarAHostIs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		l.connect(id)
		want := func(what string, assigned bool, failed string, told int) {
			t.Helper()
			synctest.Wait()
			a, f := l.Node(id)
			l.mu.Lock()
			defer l.mu.Unlock()
			if a != assigned || f != failed || len(l.heard) != told {
				t.Errorf("%s: assigned %t, failed %q, told %d times; want %t, %q, %d", what, a, f, len(l.heard), assigned, failed, told)
			}
			l.heard = nil
		}
		report := func(epoch int64, outcome nstancev1.MachineFailureOutcome) {
			l.Status(id, &nstancev1.MachineStatus{Epoch: epoch, Failure: &nstancev1.MachineFailure{Epoch: epoch, Reason: "JoinTimeout", Message: "no Node", Outcome: outcome}})
		}
		want("nothing is assigned", false, "", 0)
		l.mustPut(id, paving(1), credentialFor(1, 1, time.Hour))
		want("assigned", true, "", 1)
		report(1, nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_REVERTED)
		want("it went back", true, "", 0)
		report(1, nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_HELD)
		want("it left what failed", true, "JoinTimeout: no Node", 1)
		report(1, nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_HELD)
		want("and says so again", true, "JoinTimeout: no Node", 0)
		l.mustPut(id, paving(2), credentialFor(2, 1, time.Hour))
		want("it is told to try again", true, "", 1)
		l.end()

		l = w.lead(2, id)
		defer l.end()
		want("the next leader", true, "", 1)
		l.connect(id)
		report(2, nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_HELD)
		want("it failed again", true, "JoinTimeout: no Node", 1)
		reset := paving(3)
		reset.Mode, reset.Template = nstancev1.MachineMode_MACHINE_MODE_RESET, nil
		l.mustPut(id, reset, nil)
		want("it is reset", false, "", 1)
	})
}

// Where no instance has a node machine, nothing is asked of storage and nothing is kept.
func TestWhatIsNotUsedCostsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.prepare(1)
		l.insert(id, func(in *cache.Instance) { in.Machine = cache.Machine{} })
		l.begin()
		for _, able := range []bool{false, true} { // its image may have a paver all the same
			l.Greeted(id, able, "v1")
			l.Wake(id)
			l.Status(id, &nstancev1.MachineStatus{Epoch: 1})
			l.Look(id)
			l.expectSent("nothing is assigned")
			l.expectView("nothing is known", id, "nothing")
		}
		l.Disconnected(id)
		l.Forget(id)
		synctest.Wait()
		if calls := w.storage.Calls(); calls != 0 || len(l.machines) != 0 {
			t.Errorf("%d calls to storage, %d machines", calls, len(l.machines))
		}
		l.end()
	})
}

func TestWhoMayHaveAnAssignment(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		l := w.lead(1)
		defer l.end()
		for name, c := range map[string]struct {
			change      func(*cache.Instance)
			pave, reset refusal.Code
		}{
			"a running one":           {func(*cache.Instance) {}, "OK", "OK"},
			"without a node machine":  {func(in *cache.Instance) { in.Machine = cache.Machine{} }, refusal.FailedPrecondition, refusal.FailedPrecondition},
			"one that never was here": {func(in *cache.Instance) { in.RegisteredAt = time.Time{} }, refusal.FailedPrecondition, refusal.FailedPrecondition},
			"a condemned one":         {func(in *cache.Instance) { in.State = fleet.Draining }, refusal.FailedPrecondition, "OK"},
			"a deleted one":           {func(in *cache.Instance) { in.State = fleet.Deleted }, refusal.NotFound, refusal.NotFound},
		} {
			id := w.newID()
			l.insert(id, c.change)
			if err := l.put(id, paving(1), nil); code(err) != c.pave {
				t.Errorf("%s: %v, want %s", name, err, c.pave)
			}
			reset := &nstancev1.MachineAssignment{MachineName: "m1", MachineUid: "machine-uid", Epoch: 2, Mode: nstancev1.MachineMode_MACHINE_MODE_RESET}
			if err := l.put(id, reset, nil); code(err) != c.reset {
				t.Errorf("%s, reset: %v, want %s", name, err, c.reset)
			}
		}
	})
}

// The assignment goes with the record of its instance, and one that was left over, when it is
// found; what is there and cannot be read is left alone.
func TestAnAssignmentGoesWithItsInstance(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id, left, hidden, broken := w.newID(), w.newID(), w.newID(), w.newID()
		l := w.lead(1, id, left, hidden, broken)
		for _, each := range []identity.ID{id, left, hidden, broken} {
			l.mustPut(each, paving(1), nil)
		}
		if err := l.Drop(t.Context(), id, "prod"); err != nil || w.stored(id) != nil {
			t.Errorf("drop: %v", err)
		}
		if err := l.put(id, &nstancev1.MachineAssignment{
			MachineName: "m1", MachineUid: "u", Epoch: 2, Mode: nstancev1.MachineMode_MACHINE_MODE_RESET,
		}, nil); err == nil || w.stored(id) != nil {
			t.Errorf("put after drop: %v", err)
		}
		l.Forget(id)
		if err := l.Drop(t.Context(), id, "prod"); err != nil {
			t.Errorf("drop again: %v", err)
		}
		l.end()

		// The records of the first two are gone, that of the third cannot be read.
		if _, err := w.storage.PutIfAbsent(t.Context(), layout.InstanceKey("s1", "prod", hidden), []byte("{")); err != nil {
			t.Fatal(err)
		}
		key := layout.MachineKey("s1", "prod", broken)
		obj, err := w.storage.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.storage.PutIfMatch(t.Context(), key, obj.Data[:len(obj.Data)/2], obj.ETag); err != nil {
			t.Fatal(err)
		}
		l = w.lead(2, broken)
		defer l.end()
		if w.stored(left) != nil {
			t.Error("an assignment outlives its instance")
		}
		if w.stored(hidden) == nil {
			t.Error("an assignment was deleted whose instance may exist")
		}
		if err := l.put(broken, paving(2), nil); code(err) != refusal.FailedPrecondition {
			t.Errorf("put onto what cannot be read: %v", err)
		}
		if after, err := w.storage.Get(t.Context(), key); err != nil || len(after.Data) != len(obj.Data)/2 {
			t.Errorf("what cannot be read was written: %v", err)
		} else if err := w.storage.DeleteIfMatch(t.Context(), key, after.ETag); err != nil {
			t.Error(err)
		}
		l.mustPut(broken, paving(2), nil)
		l.expectView("an administrator has deleted it", broken, "epoch 2, credential missing")
	})
}

// S1: what a later leader has written is not overwritten, and ends the term.
func TestS1_AnEarlierLeaderOverwritesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		first, second := w.lead(1, id), w.lead(2, id)
		defer second.end()
		defer first.end()
		first.mustPut(id, paving(1), nil)
		if err := second.put(id, paving(2), nil); err != nil {
			t.Fatal(err)
		}
		if err := first.put(id, paving(3), nil); err == nil || first.over == nil {
			t.Errorf("put by the earlier leader: %v, its term ended by %v", err, first.over)
		}
		if rec := w.stored(id); rec.Epoch != 2 || rec.Term != 2 {
			t.Errorf("stored %+v", rec)
		}
	})
}

// A write whose answer is lost is found again: the repeat of the call is a repeat.
func TestALostAnswerIsNoConflict(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		w.storage.Down(true)
		if err := l.put(id, paving(1), credentialFor(1, 1, time.Hour)); code(err) != refusal.Unavailable {
			t.Errorf("storage is away: %v", err)
		}
		l.expectView("storage was away", id, "nothing")
		w.storage.Down(false)
		// It came through all the same, late.
		a, err := newAssignment(paving(1), layout.MachineRecord{InstanceID: id, Tenant: "prod", Term: 1, At: layout.At(time.Now())})
		if err != nil {
			t.Fatal(err)
		}
		rec, err := a.record()
		if err != nil {
			t.Fatal(err)
		}
		data, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := objectstore.Put(t.Context(), w.storage, layout.MachineKey("s1", "prod", id), data, "", objectstore.RetryPolicy{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		l.mustPut(id, paving(1), credentialFor(1, 1, time.Hour))
		l.expectView("the repeat", id, "epoch 1, credential 1")
	})
}

// follow watches a tenant and notes what it is told.
func (l *leader) follow(ctx context.Context, tenant string) (said func() []string, ended chan error) {
	events, ended := make(chan string, 1000), make(chan error, 1)
	go func() {
		ended <- l.Watch(ctx, tenant, func(ev *nstancev1.MachineEvent) error {
			text := ev.Type
			if ev.InstanceId != "" {
				text = ev.Type + " " + l.short(ev.InstanceId)
			}
			if a := ev.GetMachine().GetAssignment(); a != nil {
				text += " assigned"
			}
			if ev.GetMachine().GetConnected() {
				text += " connected"
			}
			events <- text
			return nil
		})
	}()
	return func() (all []string) {
		synctest.Wait()
		for {
			select {
			case ev := <-events:
				all = append(all, ev)
			default:
				return all
			}
		}
	}, ended
}

func (l *leader) short(id string) string { return id[len(id)-4:] }

// S12: a tenant is told of its own machines; what happens reaches the watcher, and a heartbeat
// when nothing does.
func TestS12_AWatchShowsTheMachinesOfTheTenant(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id, foreign := w.newID(), w.newID()
		l := w.prepare(1, id)
		l.insert(foreign, func(in *cache.Instance) { in.Group.Tenant = "dev" })
		ctx, cancel := context.WithCancel(t.Context())
		said, ended := l.follow(ctx, "prod")
		if got := said(); len(got) != 0 {
			t.Errorf("before anything is known: %q", got)
		}
		l.begin()
		want := func(what string, want ...string) {
			t.Helper()
			if got := said(); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		name := l.short(id.String())
		want("nothing is there", "snapshot_end")
		l.connect(id)
		l.connect(foreign)
		want("connect", "machine "+name+" connected")
		l.mustPut(id, paving(1), nil)
		l.mustPut(foreign, paving(1), nil)
		want("put", "machine "+name+" assigned connected")
		l.Status(id, &nstancev1.MachineStatus{Epoch: 1, Stage: nstancev1.MachineStage_MACHINE_STAGE_BUILD})
		want("status", "machine "+name+" assigned connected")
		l.expectView("status", id, "connected, stage BUILD, epoch 1, credential missing")
		l.Status(id, &nstancev1.MachineStatus{LastError: strings.Repeat("x", MaxStatus)})
		want("a status that is too large")
		l.disconnect(id)
		want("disconnect", "machine "+name+" assigned")
		time.Sleep(15 * time.Second)
		want("quiet", "heartbeat")
		later, endedLater := l.follow(t.Context(), "prod")
		if got := later(); !slices.Equal(got, []string{"machine " + name + " assigned", "snapshot_end"}) {
			t.Errorf("a second watcher: %q", got)
		}
		l.Forget(id)
		want("the instance is gone", "removed "+name)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the watch ended with %v", err)
		}
		l.end()
		if err := <-endedLater; code(err) != refusal.Unavailable {
			t.Errorf("the watch ended with the term with %v", err)
		}
	})
}

// A watcher that does not read misses no machine, and nothing piles up for it.
func TestS22_ASlowWatcherIsToldOnceOfEachMachine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		gate, events := make(chan struct{}), 0
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		var last *nstancev1.MachineEvent
		go func() {
			ended <- l.Watch(ctx, "prod", func(ev *nstancev1.MachineEvent) error {
				<-gate
				if ev.Type == "machine" {
					events++
					last = ev
				}
				return nil
			})
		}()
		synctest.Wait()
		l.connect(id)
		for n := range 1000 {
			l.Status(id, &nstancev1.MachineStatus{Attempts: int32(n)})
		}
		close(gate)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || events > 2 || last.GetMachine().GetStatus().GetAttempts() != 999 {
			t.Errorf("%d events, the last of attempt %d, %v", events, last.GetMachine().GetStatus().GetAttempts(), err)
		}
	})
}

func TestF52_WhatIsNoAssignment(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		for name, change := range map[string]func(*nstancev1.MachineAssignment, *nstancev1.MachineCredential){
			"machine_name":     func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) { a.MachineName = "../m" },
			"machine_uid":      func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) { a.MachineUid = "" },
			"assignment.epoch": func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) { a.Epoch = 0 },
			"mode":             func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) { a.Mode = 99 },
			"node_name":        func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) { a.NodeName = "A b" },
			"expected_node_uid": func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) {
				a.ExpectedNodeUid = strings.Repeat("x", 65)
			},
			"configuration.name":    func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) { a.Configuration.Name = "" },
			"configuration.version": func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) { a.Configuration.Version = 0 },
			"configuration.hash": func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) {
				a.Configuration.Hash = "sha256:0"
			},
			"template: it is missing": func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) { a.Template = nil },
			"endpoint":                func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) { a.ApiServer = nil },
			"with mode reset there is": func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) {
				a.Mode = nstancev1.MachineMode_MACHINE_MODE_RESET
			},
			"credential.epoch":      func(_ *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) { c.Epoch = 2 },
			"credential.sequence":   func(_ *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) { c.Sequence = 0 },
			"credential.expires_at": func(_ *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) { c.ExpiresAt = nil },
			"credential: it has": func(_ *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) {
				c.Token = strings.Repeat(marked, MaxCredential)
			},
			"assignment: it has 1050": func(a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) {
				a.ApiServer.CaBundle = strings.Repeat("x", 1050<<10)
			},
			"assignment: it is missing": nil,
		} {
			a, c := paving(1), credentialFor(1, 1, time.Hour)
			if change == nil {
				a, c = nil, nil
			} else {
				change(a, c)
			}
			if strings.HasPrefix(name, "assignment: it has") {
				name = "assignment: it has 1"
			}
			err := l.put(id, a, c)
			if code(err) != refusal.InvalidArgument || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), marked) {
				t.Errorf("%s: %.200v", name, err)
			}
		}
		if w.stored(id) != nil {
			t.Error("something was stored")
		}
		for _, req := range []*nstancev1.ConfirmNodeRequest{{Epoch: 1, BootId: "b"}, {Epoch: 1, NodeUid: "n"}, {Epoch: 1, NodeUid: strings.Repeat("n", 65), BootId: "b"}} {
			if err := l.Confirm(t.Context(), l.row(id), req); code(err) != refusal.InvalidArgument {
				t.Errorf("confirmation %v: %v", req, err)
			}
		}
	})
}
