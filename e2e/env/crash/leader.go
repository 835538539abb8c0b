package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
)

// few is a size at which each machine counts.
const few = 3

// LeaderKilled kills the leader and has the storage away meanwhile: the standby
// leads, all agents are back, nothing was made or deleted, and it can scale (L2, L6).
func LeaderKilled(t *testing.T, storage Storage) {
	w := begin(t, storage, few)
	before, seen := w.Machines(), w.Watch()
	old := w.LeaderID()

	w.KillServer(old)
	killed := time.Now()
	w.Interrupt(storage.lease() / 2)
	w.Await("the standby leads", func() error { return w.Leads(other(old)) })
	w.Settle(few, killed)
	w.StartServer(old)
	w.Audited(2)
	w.unharmed(before, seen())

	w.Resize(few + 2)
	w.Settle(few+2, time.Time{})
}

// LeaseGivenBack kills the leader, and runs the command that systemd runs then: the standby
// leads at once and not a lease later. A live leader's lease is never given back, neither by
// its own folder nor by that of the one before it (L2, S1).
func LeaseGivenBack(t *testing.T, storage Storage) {
	w := begin(t, storage, few)
	before, seen := w.Machines(), w.Watch()
	old := w.LeaderID()
	release := func(code int, says string) {
		t.Helper()
		p := w.Release(old)
		if got := p.Exit(t); got != code || !strings.Contains(p.Output(), says) {
			t.Fatalf("release ends with %d, not %d, and does not say %q:\n%s", got, code, says, p.Output())
		}
	}
	release(1, "in use by another process")
	if err := w.Leads(old); err != nil {
		t.Fatalf("after a release while it runs: %v", err)
	}

	w.KillServer(old)
	killed := time.Now()
	release(0, "given back")
	given := time.Now()
	w.Await("the standby leads", func() error { return w.Leads(other(old)) })
	t.Logf("given back %v after the kill, and served %v later", given.Sub(killed).Round(time.Millisecond), time.Since(given).Round(time.Millisecond))
	if out := w.Server(other(old)).Output(); !strings.Contains(out, `"reason":"released"`) {
		t.Error("the standby has waited for the end of the lease")
	}
	held, err := w.Lock()
	if err != nil {
		t.Fatal(err)
	}
	release(0, "left alone: it is not in a version that the process wrote")
	if now, err := w.Lock(); err != nil || now.Term != held.Term || now.Released {
		t.Errorf("the lease of %s, term %d, is %+v after the release (%v)", held.LeaderID, held.Term, now, err)
	}
	w.Settle(few, killed)
	w.StartServer(old)
	w.Audited(2)
	w.unharmed(before, seen())
}

// LeaderStopped asks the leader to end: the standby leads, and nothing was made or
// deleted (L2).
func LeaderStopped(t *testing.T, storage Storage) {
	w := begin(t, storage, few)
	before, seen := w.Machines(), w.Watch()
	old := w.LeaderID()

	w.Server(old).Signal(syscall.SIGTERM)
	stopped := time.Now()
	w.Await("the standby leads", func() error { return w.Leads(other(old)) })
	if code := w.Server(old).Exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	w.Settle(few, stopped)
	w.Audited(2)
	w.unharmed(before, seen())
}

// LeaderFrozen stops the leader in the middle of a scale-up for three leases. The
// standby leads; the old leader, which does not know how long it was away, finds a
// newer term and does nothing more; what it had begun ends well (F6, S1, S2).
func LeaderFrozen(t *testing.T, storage Storage) {
	w := begin(t, storage, few)
	seen := w.Watch()
	old, err := w.Lock()
	if err != nil {
		t.Fatal(err)
	}

	w.Resize(crowd)
	w.recorded(few + 1)
	thaw := w.FreezeServer(old.LeaderID)
	frozen := time.Now()
	w.Await("the standby leads", func() error { return w.Leads(other(old.LeaderID)) })
	time.Sleep(time.Until(frozen.Add(3 * storage.lease())))
	caught := crowd - w.running()
	w.t.Logf("%d machines wait for what the frozen server has begun", caught)
	thaw()
	thawed := time.Now()
	w.Await("the old leader has stepped down", func() error {
		return w.pointsTo(old.Addrs.Operator, other(old.LeaderID))
	})
	w.Settle(crowd, thawed)
	w.Audited(2)

	if err := w.Leads(other(old.LeaderID)); err != nil {
		t.Errorf("the old leader took the lock back: %v", err)
	}
	if now, err := w.Lock(); err != nil || now.Term <= old.Term {
		t.Errorf("term %d (%v), and must be above %d", now.Term, err, old.Term)
	}
	if w.Server(old.LeaderID).Ended() {
		t.Error("the old leader has ended instead of standing by")
	}
	// A machine of this box that is being made is locked by who makes it. Another one
	// may have been made for each that the frozen server kept from running.
	w.sound(crowd+caught, seen())
	if err := w.Settled(Group, crowd, time.Time{}); err != nil {
		t.Error(err)
	}
}

// running is how many machines the leader calls so.
func (w *World) running() int {
	w.t.Helper()
	instances, err := w.Instances()
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, i := range instances {
		if i.Status == "running" {
			n++
		}
	}
	return n
}

// pointsTo returns nil if the server at addr refuses a call and names the operator
// address of the leader instead.
func (w *World) pointsTo(addr, leader string) error {
	client, err := w.Operator(addr, w.Identity())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), box.CallTimeout)
	defer cancel()
	var trailer metadata.MD
	_, err = client.ListGroups(ctx, &emptypb.Empty{}, grpc.Trailer(&trailer))
	if status.Code(err) != codes.Unavailable {
		return fmt.Errorf("it answers with %s", status.Convert(err))
	}
	lock, lockErr := w.Lock()
	if lockErr != nil {
		return lockErr
	}
	if got := trailer.Get(identity.LeaderTrailer); lock.LeaderID != leader || !slices.Equal(got, []string{lock.Addrs.Operator}) {
		return fmt.Errorf("it names %v, and %s leads at %s: %w", got, lock.LeaderID, lock.Addrs.Operator, err)
	}
	return nil
}

// ServerKilledAndStartedAgain kills the only server and starts it again, with its
// cache or without it, the storage away in between: the same machines go on (S15,
// S16).
func ServerKilledAndStartedAgain(t *testing.T, storage Storage, loseCache bool) {
	w := New(t, storage, few)
	w.StartServer(one)
	w.Settle(few, time.Time{})
	before, seen := w.Machines(), w.Watch()

	w.KillServer(one)
	if loseCache {
		w.LoseCache(one)
	}
	w.Interrupt(time.Second)
	again := w.StartServer(one)
	w.Settle(few, again.Started)
	w.Audited(2)
	w.unharmed(before, seen())
}
