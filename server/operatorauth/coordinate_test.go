package operatorauth_test

import (
	"testing"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/operatorauth"
)

// TestS20_CoordinatorIsRemembered: by servers that have never heard of it, after its
// certificate was renewed, and until it is removed.
func TestS20_CoordinatorIsRemembered(t *testing.T) {
	w := newWorld(t)
	leader := w.leader()
	peer, _ := w.operator(leader, "b")
	_, _ = w.operator(leader, "default")
	ctx := lease.Always(t.Context(), 1)
	if leader.Coordinated("b") {
		t.Error("an operator coordinates drains without having said so")
	}
	for range 2 { // a repeat changes nothing
		if err := leader.Coordinate(ctx, peer); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := leader.Renew(t.Context(), peer, publicPEM(t, newKey(t))); err != nil {
		t.Fatal(err)
	}
	next := w.server()
	if err := next.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*operatorauth.Registry{"the leader": leader, "the next": next} {
		if !r.Coordinated("b") || r.Coordinated("default") {
			t.Errorf("%s: coordinated are b %v and default %v, want b alone", name, r.Coordinated("b"), r.Coordinated("default"))
		}
	}
	w.revoke(peer)
	if err := next.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next.Coordinated("b") {
		t.Error("an operator that was removed is still waited for")
	}
	wantErr(t, next.Coordinate(ctx, peer), operatorauth.ErrUnknown)
}

// TestF10_UnreadableOperatorMayCoordinate: nobody is deleted without a drain because
// a record makes no sense, and a listing that fails is no answer.
func TestF10_UnreadableOperatorMayCoordinate(t *testing.T) {
	w := newWorld(t)
	_, _ = w.operator(w.leader(), "b")
	key := w.records()[0].Key()
	obj, err := w.store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.PutIfMatch(t.Context(), key, []byte("{"), obj.ETag); err != nil {
		t.Fatal(err)
	}
	r := w.server()
	if err := r.Load(t.Context()); err != nil {
		t.Errorf("one unreadable record stops everything: %v", err)
	}
	if !r.Coordinated("b") || r.Coordinated("default") {
		t.Errorf("coordinated are b %v and default %v, want b alone", r.Coordinated("b"), r.Coordinated("default"))
	}
	w.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Before: objectstore.ErrUnavailable} })
	if err := w.server().Load(t.Context()); err == nil {
		t.Error("a listing that failed counts as read")
	}
}

func TestS2_CoordinateNeedsTheLease(t *testing.T) {
	w := newWorld(t)
	peer, _ := w.operator(w.leader(), "b")
	r := w.server()
	wantErr(t, r.Coordinate(t.Context(), peer), lease.ErrNotLeader)
	if r.Coordinated("b") {
		t.Error("what was not written is known all the same")
	}
}
