package box_test

import (
	"context"
	"errors"
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

	"nstance.dev/e2e/box"
)

const (
	lease      = 5 * time.Second  // of the development configuration
	agentsBack = 30 * time.Second // L6
)

// pair is two servers on one store, and the machines that they look after.
type pair struct {
	*box.Box
	leader, standby     *box.Process
	leaderID, standbyID string
}

// newPair takes over what `dev` made and left.
func newPair(t *testing.T, size int) *pair {
	t.Helper()
	b, dev := up(t, size, "--keep")
	dev.Stop(t)
	p := &pair{Box: b, leaderID: "one", standbyID: "two"}
	p.leader = b.Serve("one")
	b.Within(lease+time.Second, "the first server leads", func() error { return p.leads("one") })
	p.standby = b.Serve("two")
	b.Within(agentsBack, "the agents are back", func() error { return b.Settled("web", size, p.leader.Started) })
	if err := p.leads("one"); err != nil {
		t.Fatal(err)
	}
	return p
}

// leads returns nil if that server holds the lock and answers operators.
func (p *pair) leads(id string) error {
	lock, err := p.Lock()
	if err != nil {
		return err
	}
	if lock.LeaderID != id || lock.Released {
		return fmt.Errorf("%s leads, or has just stopped to", lock.LeaderID)
	}
	addrs, err := p.Leader()
	if err != nil {
		return err
	}
	if addrs.Operator != lock.Addrs.Operator {
		return errors.New("the leader has not published its addresses")
	}
	_, err = p.Groups()
	return err
}

func TestL2_StandbyServesWhenTheLeaderIsKilled(t *testing.T) {
	p := newPair(t, 3)
	before := p.Machines()
	changes := p.Changes()

	p.leader.Kill()
	killed := time.Now()
	p.Within(lease+time.Second, "the standby serves after a crash", func() error { return p.leads(p.standbyID) })
	p.Within(agentsBack, "all agents are back (L6)", func() error { return p.Settled("web", 3, killed.Add(lease)) })
	time.Sleep(5 * time.Second) // two rounds of garbage collection
	p.check(t, before, changes())
}

func TestL2_StandbyServesWithinASecondOfAPlannedStop(t *testing.T) {
	p := newPair(t, 3)
	before := p.Machines()
	changes := p.Changes()

	p.leader.Signal(syscall.SIGTERM)
	stopped := time.Now()
	p.Within(time.Second, "the standby serves after a planned stop", func() error { return p.leads(p.standbyID) })
	p.Within(agentsBack, "all agents are back (L6)", func() error { return p.Settled("web", 3, stopped.Add(time.Second)) })
	if code := p.leader.Exit(t, 10*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.check(t, before, changes())
}

// A leader that was stopped does not know how long. When it goes on, it finds a
// newer term and does nothing more.
func TestF6_LeaderStoppedForThreeLeases(t *testing.T) {
	p := newPair(t, 3)
	before := p.Machines()
	changes := p.Changes()
	old, err := p.Lock()
	if err != nil {
		t.Fatal(err)
	}

	p.leader.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	p.Within(lease+time.Second, "the standby serves while the leader is stopped", func() error { return p.leads(p.standbyID) })
	p.Within(agentsBack, "all agents are back (L6)", func() error { return p.Settled("web", 3, stopped.Add(lease)) })
	time.Sleep(time.Until(stopped.Add(3 * lease)))
	p.leader.Signal(syscall.SIGCONT)
	p.Within(time.Second, "the old leader has stepped down", func() error {
		return p.pointsTo(old.Addrs.Operator, p.standbyID)
	})
	time.Sleep(2 * lease)

	if err := p.leads(p.standbyID); err != nil {
		t.Errorf("the old leader took the lock back: %v", err)
	}
	if now, err := p.Lock(); err != nil || now.Term <= old.Term {
		t.Errorf("term %d (%v), and must be above %d", now.Term, err, old.Term)
	}
	if p.leader.Ended() {
		t.Errorf("the old leader has ended instead of standing by")
	}
	p.check(t, before, changes())
}

// check tells whether machines came or went.
func (p *pair) check(t *testing.T, before []box.Machine, seen []string) {
	t.Helper()
	if len(seen) > 0 {
		t.Errorf("machines came or went:\n%s", strings.Join(seen, "\n"))
	}
	if now := p.Machines(); !slices.Equal(now, before) {
		t.Errorf("machines are %v, were %v", now, before)
	}
	if err := p.Settled("web", len(before), time.Time{}); err != nil {
		t.Error(err)
	}
}

// pointsTo returns nil if the server at addr refuses a call and names the operator
// address of the leader instead.
func (p *pair) pointsTo(addr, leader string) error {
	client, err := p.Operator(addr, p.Identity())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), box.CallTimeout)
	defer cancel()
	var trailer metadata.MD
	_, err = client.ListGroups(ctx, &emptypb.Empty{}, grpc.Trailer(&trailer))
	if status.Code(err) != codes.Unavailable {
		return fmt.Errorf("it answers: %w", err)
	}
	lock, lockErr := p.Lock()
	if lockErr != nil {
		return lockErr
	}
	if got := trailer.Get("nstance-leader"); lock.LeaderID != leader || !slices.Equal(got, []string{lock.Addrs.Operator}) {
		return fmt.Errorf("it names %v, and %s leads at %s: %w", got, lock.LeaderID, lock.Addrs.Operator, err)
	}
	return nil
}
