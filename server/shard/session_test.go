package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// opened is a stream that a test holds the other end of.
type opened struct {
	*pipe
	ended chan error
}

// open opens a stream without saying anything.
func (w *world) open(peer identity.Peer) *opened {
	o := &opened{pipe: newPipe(w.ctx), ended: make(chan error, 1)}
	r := w.term()
	w.agents.Go(func() { o.ended <- r.Agents().Connect(&peer, o.pipe) })
	synctest.Wait()
	return o
}

// end is how the stream ended; it must have.
func (o *opened) end(t *testing.T) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-o.ended:
		return err
	default:
		t.Error("the stream is still open")
		return nil
	}
}

// withAgent runs a test with one registered machine, whose agent is the test.
func withAgent(t *testing.T, test func(t *testing.T, w *world, peer identity.Peer)) {
	t.Helper()
	withMachine(t, func(t *testing.T, w *world, _ identity.ID, nonce string) {
		peer, err := register(w.term(), nonce, newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		test(t, w, peer)
	})
}

func TestGoodbyeIsNoAlarm(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		s.say(hello(peer.ID))
		w.settle(time.Second)
		before := w.count(drivertest.OpGet)
		s.halfClose()
		if err := s.end(t); err != nil {
			t.Errorf("ended with %v, want nil", err)
		}
		if n := w.count(drivertest.OpGet) - before; n != 0 {
			t.Errorf("the provider was asked %d times after a goodbye", n)
		}
		row, _ := w.term().planner.cache.Instance(peer.ID)
		if row.State != fleet.Running {
			t.Errorf("state %s after a goodbye, want running", row.State)
		}
	})
}

func TestBrokenStreamAsksTheProviderAtOnce(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		s.say(hello(peer.ID))
		w.settle(time.Second)
		before := w.count(drivertest.OpGet)
		s.cut()
		synctest.Wait()
		if n := w.count(drivertest.OpGet) - before; n != 1 {
			t.Errorf("the provider was asked %d times after a broken stream, want once", n)
		}
	})
}

func TestS13_StreamEndsWithItsInstance(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		s.say(hello(peer.ID))
		w.scale(web, 0)
		w.settle(5 * time.Second)
		if err := s.end(t); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("ended with %v, want PermissionDenied", err)
		}
		if err := w.term().Agents().Admit(peer); !refusedWith(err, refusal.PermissionDenied) {
			t.Errorf("the certificate of a deleted instance: %v, want PermissionDenied", err)
		}
	})
}

// TestSingleReport: an agent that reports once is judged by its stream.
func TestSingleReport(t *testing.T) {
	withAgent(t, func(t *testing.T, w *world, peer identity.Peer) {
		s := w.open(peer)
		s.say(hello(peer.ID))
		s.say(report(peer.ID, 0))
		state := func() fleet.State {
			row, _ := w.term().planner.cache.Instance(peer.ID)
			return row.State
		}
		w.settle(10 * time.Minute)
		if got := state(); got != fleet.Running {
			t.Errorf("state %s with its stream up, want running", got)
		}
		s.cut()
		w.settle(20 * time.Second)
		if got := state(); got != fleet.Suspect {
			t.Errorf("state %s with its stream lost, want suspect", got)
		}
		w.settle(20 * time.Second)
		if got := state(); got.Live() {
			t.Errorf("state %s with its stream lost for 40s", got)
		}
	})
}
