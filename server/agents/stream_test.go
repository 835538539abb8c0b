package agents

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// clerk is a handler that notes what it is handed.
type clerk struct {
	mu      sync.Mutex
	handled int
	busy    int
	most    int // messages at once
	deposed bool
	hold    chan struct{} // a message is dealt with when it is closed; nil: at once
	rooms   func()
	leaves  []error
}

func (c *clerk) handle(*stream, *nstancev1.AgentMessage) error {
	c.mu.Lock()
	c.busy++
	c.most = max(c.most, c.busy)
	hold := c.hold
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	c.handled++
	return nil
}

func (c *clerk) leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.deposed
}

func (c *clerk) room(identity.ID) {
	if c.rooms != nil {
		c.rooms()
	}
}

func (c *clerk) streamEnded(_ *stream, why error) { c.leaves = append(c.leaves, why) }

func (c *clerk) count() int {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handled
}

// as is a handler as streams know it.
func as(c *clerk) *handler {
	h := handler(c)
	return &h
}

// withStream runs a test in a bubble with a stream that the first of two clerks serves.
func withStream(t *testing.T, test func(t *testing.T, s *stream, conn *pipe, one, two *clerk, first, second *handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		one, two := &clerk{}, &clerk{}
		first, second := as(one), as(two)
		conn := newPipe(t.Context())
		s := newStream(&identity.Peer{ID: "vmx0"}, conn, newPace(0, true))
		s.serve(first)()
		go s.receive()
		test(t, s, conn, one, two, first, second)
		s.finish(errors.New("the test is over"))
		conn.cut()
		synctest.Wait()
	})
}

func commit() *nstancev1.ServerMessage {
	return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Commit{}}
}

// TestF1_AParkedStreamWaits: what the agent says meanwhile is dealt with once, by the next
// handler, and not before that is ready for it.
func TestF1_AParkedStreamWaits(t *testing.T) {
	withStream(t, func(t *testing.T, s *stream, conn *pipe, one, two *clerk, _, second *handler) {
		conn.say(report("vmx0", 1))
		if n := one.count(); n != 1 {
			t.Fatalf("the first handler got %d messages, want 1", n)
		}
		if !s.park() {
			t.Fatal("not parked")
		}
		conn.say(report("vmx0", 2))
		unpark := s.serve(second)
		if one.count() != 1 || two.count() != 0 {
			t.Errorf("handed over while it was parked: %d and %d", one.count(), two.count())
		}
		unpark()
		conn.say(report("vmx0", 3))
		if one.count() != 1 || two.count() != 2 {
			t.Errorf("the handlers got %d and %d messages, want 1 and 2", one.count(), two.count())
		}
	})
}

// TestF1_ParkedBeforeItsNextHandlerIsReady: two changes of leader after each other.
func TestF1_ParkedBeforeItsNextHandlerIsReady(t *testing.T) {
	withStream(t, func(t *testing.T, s *stream, conn *pipe, one, two *clerk, first, second *handler) {
		s.park()
		unpark := s.serve(second)
		conn.say(report("vmx0", 1))
		synctest.Wait()
		s.park()
		unpark()
		if n := two.count(); n != 0 {
			t.Errorf("a handler that has lost the stream got %d messages", n)
		}
		s.serve(first)()
		if n := one.count(); n != 1 {
			t.Errorf("the next handler got %d messages, want 1", n)
		}
	})
}

// TestAMessageIsFinishedByWhoBeganIt: the next one is dealt with after that, by the next
// handler.
func TestAMessageIsFinishedByWhoBeganIt(t *testing.T) {
	withStream(t, func(t *testing.T, s *stream, conn *pipe, one, two *clerk, _, second *handler) {
		one.hold = make(chan struct{})
		conn.say(report("vmx0", 1))
		synctest.Wait()
		s.park()
		s.serve(second)()
		go conn.say(report("vmx0", 2))
		if one.count() != 0 || two.count() != 0 {
			t.Errorf("%d and %d messages are dealt with, want none", one.count(), two.count())
		}
		close(one.hold)
		if one.count() != 1 || two.count() != 1 {
			t.Errorf("%d and %d messages are dealt with, want one each", one.count(), two.count())
		}
	})
}

// TestS2_OnlyWhoServesAStreamSpeaksOnIt: what waits when it is parked is dropped, and so is
// what the handler before says afterwards.
func TestS2_OnlyWhoServesAStreamSpeaksOnIt(t *testing.T) {
	withStream(t, func(t *testing.T, s *stream, conn *pipe, _, two *clerk, first, second *handler) {
		before, after := line{s, first}, line{s, second}
		if after.Offer(commit()) || after.Room() != 0 || before.Room() != queueMessages {
			t.Error("a handler without the stream may speak on it, or the one with it may not")
		}
		s.park()
		if before.Offer(commit()) || before.Room() != 0 {
			t.Error("somebody may speak on a parked stream")
		}
		s.serve(second)()
		if before.Offer(commit()) || before.Room() != 0 || !after.Offer(commit()) {
			t.Error("the handler before may still speak on it, or the new one may not")
		}
		if n := len(conn.heard()); n != 1 {
			t.Errorf("%d messages were sent, want 1", n)
		}
		two.mu.Lock()
		two.deposed = true
		two.mu.Unlock()
		if !after.Offer(commit()) {
			t.Error("not queued")
		}
		if n := len(conn.heard()); n != 0 {
			t.Errorf("%d messages were sent without the proof of the lease", n)
		}
	})
	withStream(t, func(t *testing.T, s *stream, conn *pipe, _, _ *clerk, first, second *handler) {
		s.mu.Lock() // nobody sends meanwhile
		s.queue.sending = true
		s.mu.Unlock()
		line{s, first}.Offer(commit())
		s.park()
		s.serve(second)()
		go s.send()
		if n := len(conn.heard()); n != 0 {
			t.Errorf("%d messages of the handler before were sent", n)
		}
	})
}

// TestRoomIsToldOutsideOfTheLock: once everything is sent, to who was told that nothing fits.
func TestRoomIsToldOutsideOfTheLock(t *testing.T) {
	withStream(t, func(t *testing.T, s *stream, conn *pipe, one, _ *clerk, first, _ *handler) {
		rooms := 0
		one.rooms = func() {
			if (line{s, first}).Room() == queueMessages {
				rooms++
			}
		}
		conn.out = make(chan *nstancev1.ServerMessage) // nobody reads yet
		for (line{s, first}).Offer(commit()) {
		}
		synctest.Wait()
		if rooms != 0 {
			t.Error("room was told before there was")
		}
		read := func() (n int) {
			for synctest.Wait(); ; synctest.Wait() {
				select {
				case <-conn.out:
					n++
				default:
					return n
				}
			}
		}
		if n := read(); rooms != 1 || n < queueMessages {
			t.Errorf("%d messages were sent, and room was told %d times, want once", n, rooms)
		}
		line{s, first}.Offer(commit())
		if n := read(); rooms != 1 || n != 1 {
			t.Errorf("%d messages were sent, and room was told %d times, once to nobody who lacked it", n, rooms)
		}
	})
}

// TestAStreamEndsOnce: parked or not, and whoever waits finds out.
func TestAStreamEndsOnce(t *testing.T) {
	why := errors.New("first")
	withStream(t, func(t *testing.T, s *stream, conn *pipe, one, two *clerk, _, second *handler) {
		s.owner = one
		s.park()
		conn.say(report("vmx0", 1))
		s.finish(why)
		s.finish(errors.New("second"))
		if s.park() {
			t.Error("a stream is parked that has ended")
		}
		s.serve(second)()
		if !errors.Is(s.end(), why) || len(one.leaves) != 1 || !errors.Is(one.leaves[0], why) {
			t.Errorf("ended with %v, told %v", s.end(), one.leaves)
		}
		if n := two.count(); n != 0 {
			t.Errorf("%d messages are dealt with after the end", n)
		}
	})
	withStream(t, func(t *testing.T, s *stream, _ *pipe, one, _ *clerk, _, _ *handler) {
		s.endAfter(time.Second, why)
		s.endAfter(3*time.Second, why)
		time.Sleep(2 * time.Second)
		if s.over() {
			t.Error("the first limit still holds")
		}
		time.Sleep(2 * time.Second)
		if !s.over() || !errors.Is(s.end(), why) || len(one.leaves) != 0 {
			t.Errorf("over: %v, and %d leaves are told of a stream that was never attached", s.over(), len(one.leaves))
		}
	})
	withStream(t, func(t *testing.T, s *stream, conn *pipe, _, _ *clerk, _, _ *handler) {
		s.park()
		go conn.say(report("vmx0", 1))
		synctest.Wait()
		conn.cut()
		synctest.Wait()
		if !errors.Is(s.end(), context.Canceled) || !s.over() {
			t.Errorf("a parked stream whose connection broke: %v", s.end())
		}
	})
}

// TestS22_AnAgentThatDoesNotReadIsBounded: it costs sixteen messages and eight megabytes, not
// a server.
func TestS22_AnAgentThatDoesNotReadIsBounded(t *testing.T) {
	o := outbox{sending: true} // and never gets on
	large := &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_File{File: &nstancev1.FileTransfer{Content: make([]byte, 3<<20)}}}
	put := func(msg *nstancev1.ServerMessage) bool { fits, _ := o.put(msg); return fits }
	for put(large) {
	}
	if len(o.messages) != 2 || !o.starved {
		t.Errorf("%d messages of 3 MiB wait, want 2", len(o.messages))
	}
	for put(commit()) {
	}
	if n := len(o.messages); n != queueMessages || o.room() != 0 {
		t.Errorf("%d messages wait, want %d", n, queueMessages)
	}
	for range queueMessages {
		if msg, starved := o.take(); msg == nil || starved {
			t.Fatalf("took %v, starved %v", msg, starved)
		}
	}
	if msg, starved := o.take(); msg != nil || !starved || o.sending || o.bytes != 0 {
		t.Errorf("took %v, starved %v, and %+v is left", msg, starved, o)
	}
	if _, begin := o.put(commit()); !begin {
		t.Error("nobody sends")
	}
	if _, begin := o.put(commit()); begin {
		t.Error("two send")
	}
}
