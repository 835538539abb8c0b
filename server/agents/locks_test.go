package agents

import (
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
)

// TestWhoHearsOfConnectionsMayCallTheService: no lock that a call takes is held meanwhile.
func TestWhoHearsOfConnectionsMayCallTheService(t *testing.T) {
	p := newPost(t, os.DevNull+"/none")
	a := p.lead()
	m := a.machine()
	first, second := newStream(&identity.Peer{ID: m.id}, newPipe(t.Context()), newPace(0, true)), newStream(&identity.Peer{ID: m.id}, newPipe(t.Context()), newPace(0, true))
	a.onCall = func(string) {
		a.Welcome()
		a.End("vmx0")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, s := range []*stream{first, second} {
			if _, err := a.attachCounting(s); err != nil {
				t.Error(err)
			}
		}
		_ = first.end()
		second.finish(nil)
		_ = second.end()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("dead-lock: Files or Liveness was called under a lock that the call takes")
	}
	if want := []string{"connect", "up", "connect", "up", "disconnect", "goodbye"}; !slices.Equal(a.said, want) {
		t.Errorf("told %q, want %q", a.said, want)
	}
	a.end(nil)
	_ = p.cache.Close()
}

// TestStreamsOfAnInstanceAreToldInOrder: one is told whole before the next one is attached.
func TestStreamsOfAnInstanceAreToldInOrder(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.machine()
		first, second := newStream(&identity.Peer{ID: m.id}, newPipe(t.Context()), newPace(0, true)), newStream(&identity.Peer{ID: m.id}, newPipe(t.Context()), newPace(0, true))
		taken := make(chan error, 1)
		a.onCall = func(string) {
			a.onCall = nil
			go func() {
				_, err := a.attachCounting(second)
				taken <- err
			}()
			synctest.Wait()
		}
		if _, err := a.attachCounting(first); err != nil {
			t.Fatal(err)
		}
		if err := <-taken; err != nil {
			t.Fatal(err)
		}
		a.expect("the second waits for its turn", "connect", "up", "connect", "up")
		_ = first.end()
		a.expect("the first has ended, and is replaced")
		second.finish(nil)
		_ = second.end()
		a.expect("the second has ended", "disconnect", "goodbye")
	})
}
