package operatorauth_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/operatorauth"
)

func TestAdmit(t *testing.T) {
	w := newWorld(t)
	peer, _ := w.operator(w.leader(), "b")
	change := func(f func(*identity.Peer)) identity.Peer {
		p := peer
		f(&p)
		return p
	}
	cases := []struct {
		name string
		peer identity.Peer
		want error
	}{
		{"the operator", peer, nil},
		{"another tenant", change(func(p *identity.Peer) { p.Tenant = "default" }), operatorauth.ErrUnknown},
		{"another cluster", change(func(p *identity.Peer) { p.Cluster = "other" }), operatorauth.ErrUnknown},
		{"another certificate", change(func(p *identity.Peer) { p.Serial = "00" }), operatorauth.ErrUnknown},
		{"no certificate", change(func(p *identity.Peer) { p.Serial = "" }), operatorauth.ErrUnknown},
		{"a viewer", change(func(p *identity.Peer) { p.Role = identity.RoleViewer }), operatorauth.ErrUnknown},
		{"an agent", change(func(p *identity.Peer) { p.Role = identity.RoleAgent }), operatorauth.ErrUnknown},
		{"nobody", change(func(p *identity.Peer) { p.ID = "opr068a3cp3thz5z2mv1gejwftabc" }), operatorauth.ErrUnknown},
	}
	for _, c := range cases {
		// One server has to read the record, the other knows it.
		knowing := w.server()
		if err := knowing.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*operatorauth.Registry{w.server(), knowing} {
			if err := r.Admit(t.Context(), c.peer); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
	}
}

// Whoever holds a useless certificate can't make the server read storage for
// every call, and a known operator costs no read at all.
func TestS22_AdmitSparesStorage(t *testing.T) {
	w := newWorld(t)
	leader := w.leader()
	peer, _ := w.operator(leader, "default")
	nobody := peer
	nobody.ID = "opr068a3cp3thz5z2mv1gejwftabc"
	wantErr(t, leader.Admit(t.Context(), nobody), operatorauth.ErrUnknown)
	before := w.store.Calls()
	for range 1000 {
		wantErr(t, leader.Admit(t.Context(), nobody), operatorauth.ErrUnknown)
		if err := leader.Admit(t.Context(), peer); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.store.Calls() - before; n != 0 {
		t.Errorf("%d calls of storage for 2000 admissions", n)
	}
}

func TestAdmitWithoutStorage(t *testing.T) {
	w := newWorld(t)
	leader := w.leader()
	peer, _ := w.operator(leader, "default")
	w.store.Down(true)
	if err := leader.Admit(t.Context(), peer); err != nil {
		t.Errorf("a known operator: %v", err)
	}
	wantErr(t, w.server().Admit(t.Context(), peer), operatorauth.ErrUnavailable)
}

// A viewer stays one, whatever it renews.
func TestAViewerRenews(t *testing.T) {
	w := newWorld(t)
	leader := w.leader()
	key := newKey(t)
	_, cert, err := operatorauth.Enrol(t.Context(), w.store, w.keys.Authority, operatorauth.EnrolRequest{
		Tenant: "b", Role: identity.RoleViewer, Key: key.Public().(ed25519.PublicKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	peer := peerOf(t, cert.PEM)
	for range 3 {
		if err := leader.Admit(t.Context(), peer); err != nil || peer.Role != identity.RoleViewer {
			t.Fatalf("a viewer of role %q: %v", peer.Role, err)
		}
		resp, err := leader.Renew(t.Context(), peer, publicPEM(t, newKey(t)))
		if err != nil {
			t.Fatal(err)
		}
		peer = peerOf(t, resp.ClientCertificatePem)
	}
}

func TestRenew(t *testing.T) {
	w := newWorld(t)
	leader, other := w.leader(), w.server()
	first, _ := w.operator(leader, "b")
	if err := other.Admit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	renew := func(p identity.Peer, key ed25519.PrivateKey) (identity.Peer, error) {
		resp, err := leader.Renew(t.Context(), p, publicPEM(t, key))
		if err != nil {
			return identity.Peer{}, err
		}
		return peerOf(t, resp.ClientCertificatePem), nil
	}
	second, err := renew(first, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	third, err := renew(second, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	if third.ID != first.ID || third.Tenant != first.Tenant || third.CommonName != first.CommonName {
		t.Errorf("renewal changed %+v to %+v", first, third)
	}
	for name, r := range map[string]*operatorauth.Registry{"leader": leader, "a server that has not heard of it": other} {
		for _, p := range []identity.Peer{second, third} {
			if err := r.Admit(t.Context(), p); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		wantErr(t, r.Admit(t.Context(), first), operatorauth.ErrUnknown)
	}
	_, err = renew(first, newKey(t))
	wantErr(t, err, operatorauth.ErrUnknown)
	_, err = w.server().Renew(t.Context(), third, publicPEM(t, newKey(t)))
	wantErr(t, err, operatorauth.ErrNotLeader)
}

// TestS13_WhoeverMeetsAMissingRecordEndsItsOperator: open streams end when a renewal, or the note that drains are
// coordinated, finds the record deleted, and not only with the next listing.
func TestS13_WhoeverMeetsAMissingRecordEndsItsOperator(t *testing.T) {
	w := newWorld(t)
	leader := w.leader()
	for name, meet := range map[string]func(identity.Peer) error{
		"renew": func(p identity.Peer) error {
			_, err := leader.Renew(t.Context(), p, publicPEM(t, newKey(t)))
			return err
		},
		"coordinate": func(p identity.Peer) error { return leader.Coordinate(lease.Always(t.Context(), 1), p) },
	} {
		peer, _ := w.operator(leader, "b")
		stays, _ := w.operator(leader, "default")
		gone := leader.Gone(peer.ID)
		w.revoke(peer)
		if ended(gone) {
			t.Fatalf("%s: the operator has ended before anybody could know", name)
		}
		wantErr(t, meet(peer), operatorauth.ErrUnknown)
		if !ended(gone) || ended(leader.Gone(stays.ID)) {
			t.Errorf("%s: the removed operator has ended: %t; another one: %t", name, ended(gone), ended(leader.Gone(stays.ID)))
		}
	}
}

func TestRenewalIsDurableFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		leader := w.leader()
		peer, key := w.operator(leader, "default")
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut {
				return memory.Fault{Before: objectstore.ErrUnavailable}
			}
			return memory.Fault{}
		})
		_, err := leader.Renew(t.Context(), peer, publicPEM(t, key))
		wantErr(t, err, operatorauth.ErrUnavailable)
		w.store.SetFaults(nil)
		if got := w.records()[0].Certificate.Serial; got != peer.Serial {
			t.Errorf("the record has serial %s, the operator %s", got, peer.Serial)
		}
	})
}

func TestS13_RevokedOperatorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		leader := w.leader()
		stays, _ := w.operator(leader, "default")
		token, key := w.nonce("b", nil), newKey(t)
		goes, err := w.register(leader, token, key)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = leader.Run(ctx) })
		defer running.Wait()
		defer cancel()
		synctest.Wait()

		w.revoke(goes)
		w.store.SetFaults(func(c memory.Call) memory.Fault { return memory.Fault{Before: objectstore.ErrUnavailable} })
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		if ended(leader.Gone(goes.ID)) || ended(leader.Gone(stays.ID)) {
			t.Error("a listing that failed has ended an operator")
		}
		w.store.SetFaults(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if !ended(leader.Gone(goes.ID)) || ended(leader.Gone(stays.ID)) {
			t.Error("the deleted operator must end, and nobody else")
		}
		wantErr(t, leader.Admit(t.Context(), goes), operatorauth.ErrUnknown)
		_, err = w.register(leader, token, key)
		wantErr(t, err, operatorauth.ErrRefused)
	})
}

// TestS13_WhoIsAttendedToEndsWithoutACall: the record of an operator that is served for long is read between two
// listings, for as long as that lasts; one that cannot be read ends nobody, and who is not attended to costs nothing.
func TestS13_WhoIsAttendedToEndsWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		leader := w.leader()
		goes, _ := w.operator(leader, "b")
		left, _ := w.operator(leader, "default")
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = leader.Run(ctx) })
		defer running.Wait()
		defer cancel()
		serving, over := context.WithCancel(ctx)
		gone := leader.Attend(serving, goes.ID)
		leader.Attend(serving, goes.ID) // as a session that replaces another one does
		before, end := context.WithCancel(ctx)
		leader.Attend(before, left.ID)
		end()
		synctest.Wait()

		calls := w.store.Calls()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := w.store.Calls() - calls; n != 1 || ended(gone) {
			t.Errorf("%d calls of storage for one operator, ended: %t", n, ended(gone))
		}
		w.revoke(goes)
		w.revoke(left)
		w.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Before: objectstore.ErrUnavailable} })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if ended(gone) {
			t.Error("a record that could not be read has ended an operator")
		}
		w.store.SetFaults(nil)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if !ended(gone) || ended(leader.Gone(left.ID)) {
			t.Errorf("30 s later the operator that is served has ended: %t, the other one: %t", ended(gone), ended(leader.Gone(left.ID)))
		}
		over()
		synctest.Wait()
		calls = w.store.Calls()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := w.store.Calls() - calls; n != 0 {
			t.Errorf("%d calls of storage for nobody", n)
		}
	})
}

// TestS13_RemovedOperatorStaysOut: neither a leader that never heard of the
// operator, nor the nonce that once let it in, bring it back.
func TestS13_RemovedOperatorStaysOut(t *testing.T) {
	w := newWorld(t)
	before, elsewhere := w.leader(), w.server()
	token, key := w.nonce("b", nil), newKey(t)
	peer, err := w.register(before, token, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := elsewhere.Admit(t.Context(), peer); err != nil {
		t.Fatalf("at another shard, while it is registered: %v", err)
	}
	w.revoke(peer)
	for name, leader := range map[string]*operatorauth.Registry{"the leader that knew it": before, "a new leader": w.leader()} {
		_, err := w.register(leader, token, key)
		if !errors.Is(err, operatorauth.ErrRefused) || len(w.records()) != 0 {
			t.Errorf("%s, asked with the nonce again: %v, %d records", name, err, len(w.records()))
		}
		_, err = leader.Renew(t.Context(), peer, publicPEM(t, key))
		wantErr(t, err, operatorauth.ErrUnknown)
	}
	for name, r := range map[string]*operatorauth.Registry{"a new leader": w.leader(), "a shard that knew it": elsewhere} {
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Admit(t.Context(), peer); !errors.Is(err, operatorauth.ErrUnknown) || !ended(r.Gone(peer.ID)) {
			t.Errorf("%s admits it: %v", name, err)
		}
	}
}

func ended(gone <-chan struct{}) bool {
	select {
	case <-gone:
		return true
	default:
		return false
	}
}

func TestF10_UnreadableRecordEndsNobody(t *testing.T) {
	w := newWorld(t)
	leader := w.leader()
	peer, _ := w.operator(leader, "default")
	key := w.records()[0].Key()
	obj, err := w.store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.PutIfMatch(t.Context(), key, []byte("{"), obj.ETag); err != nil {
		t.Fatal(err)
	}
	if err := leader.Refresh(t.Context()); err == nil {
		t.Error("an unreadable record goes unreported")
	}
	if err := leader.Admit(t.Context(), peer); err != nil {
		t.Errorf("a known operator whose record became unreadable: %v", err)
	}
	wantErr(t, w.server().Admit(t.Context(), peer), operatorauth.ErrUnavailable)
}

func TestEnrol(t *testing.T) {
	w := newWorld(t)
	key := newKey(t).Public().(ed25519.PublicKey)
	rec, cert, err := operatorauth.Enrol(t.Context(), w.store, w.keys.Authority, operatorauth.EnrolRequest{Tenant: "b", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	peer := peerOf(t, cert.PEM)
	if peer.ID != rec.ID || peer.Tenant != "b" {
		t.Errorf("enrolled %+v, the certificate is of %+v", rec, peer)
	}
	if err := w.server().Admit(t.Context(), peer); err != nil {
		t.Errorf("an enrolled operator is not admitted: %v", err)
	}
	_, _, err = operatorauth.Enrol(t.Context(), w.store, w.keys.Authority, operatorauth.EnrolRequest{Tenant: "b", Key: key, ID: rec.ID})
	wantErr(t, err, objectstore.ErrPrecondition)
	if _, _, err := operatorauth.Enrol(t.Context(), w.store, w.keys.Authority, operatorauth.EnrolRequest{Tenant: "B!", Key: key}); err == nil {
		t.Error("an operator of an impossible tenant was enrolled")
	}
}
