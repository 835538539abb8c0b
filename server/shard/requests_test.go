package shard

import (
	"maps"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/objectstore/memory"
)

// request is a kind of request and what it is for: the first folder of its key.
type request struct {
	op     memory.Op
	folder string
}

// countRequests counts what the servers ask of storage from now on, by kind and
// by instance, until the returned function is called.
func (w *world) countRequests() func() (byKind map[request]int, byInstance map[identity.ID]map[memory.Op]int) {
	kinds := map[request]int{}
	instances := map[identity.ID]map[memory.Op]int{}
	w.life.observe(func(op memory.Op, key string) {
		folder, rest, _ := strings.Cut(key, "/")
		kinds[request{op, folder}]++
		if folder != "instance" || op == memory.OpList {
			return
		}
		_, name, _ := strings.Cut(rest, ".")
		id := identity.ID(strings.TrimSuffix(name, ".json"))
		if instances[id] == nil {
			instances[id] = map[memory.Op]int{}
		}
		instances[id][op]++
	})
	return func() (map[request]int, map[identity.ID]map[memory.Op]int) {
		w.life.observe(nil)
		return kinds, instances
	}
}

// A leader alone with machines that report asks nothing of storage, but for the
// listing in which it looks every hour for records that somebody touched.
func TestP10_NoRequestsWhileNothingHappens(t *testing.T) {
	const n = 40
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, n)
		w.settle(10 * time.Minute)
		w.converged(n)
		count := w.countRequests()
		w.settle(time.Hour)
		want := map[request]int{{memory.OpList, "instance"}: 1}
		if kinds, _ := count(); !maps.Equal(kinds, want) {
			t.Errorf("P10: %d machines that run for an hour cost %v", n, kinds)
		}
		w.converged(n)
	})
}

// The whole life of an instance is four writes and a deletion at most.
func TestP10_ALifeIsFourWritesAndADeletion(t *testing.T) {
	const n = 40
	inWorld(t, worldOptions{Drain: "1m"}, func(t *testing.T, w *world) {
		count := w.countRequests()
		w.scale(web, n)
		w.settle(10 * time.Minute)
		w.converged(n)
		w.scale(web, 0)
		w.settle(30 * time.Minute)
		w.converged(0)
		kinds, instances := count()
		if len(instances) != n {
			t.Errorf("%d instances lived, want %d", len(instances), n)
		}
		want := map[memory.Op]int{memory.OpPut: 4, memory.OpDelete: 1}
		for id, ops := range instances {
			if !maps.Equal(ops, want) {
				t.Errorf("P10: the life of %s cost %v, want %v", id, ops, want)
			}
		}
		t.Logf("requests of %d lives: %v", n, kinds)
		delete(kinds, request{memory.OpPut, "instance"})
		delete(kinds, request{memory.OpDelete, "instance"})
		delete(kinds, request{memory.OpPut, "groups"})
		if once := (request{memory.OpGet, "groups"}); kinds[once] == 1 { // of the copy, by each leader
			delete(kinds, once)
		}
		delete(kinds, request{memory.OpList, "instance"}) // for late writes of an earlier leader
		for _, op := range []memory.Op{memory.OpPut, memory.OpList, memory.OpDelete} {
			delete(kinds, request{op, "snapshot"})
		}
		if puts := kinds[request{memory.OpPut, "decision"}]; puts <= 41 { // one a minute at most, none by a pass
			delete(kinds, request{memory.OpPut, "decision"})
		}
		if len(kinds) > 0 {
			t.Errorf("beside that: %v", kinds)
		}
	})
}

// TestP10_ADriftIsOneWrite: what changes on machines costs the write of the group file, and
// no record. A leader that has not issued a machine's certificate itself does not know for
// which names it is, issues it again with the files, and logs that.
func TestP10_ADriftIsOneWrite(t *testing.T) {
	supplied(t, func(t *testing.T, w *world, peer identity.Peer) {
		key := publicPEM(t, newKey(t))
		answer := func(k *keeper) { // with the keys that it is asked for
			k.report()
			k.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_PublicKeys{PublicKeys: &nstancev1.PublicKeys{
				RequestId: "1", Keys: []*nstancev1.AgentPublicKey{{Filename: "node", PublicKeyPem: key}},
			}}})
			w.settle(time.Second)
			k.report()
		}
		drift := func(k *keeper, role string, want map[request]int) {
			t.Helper()
			count := w.countRequests()
			_, err := w.term().requests.UpsertGroup(w.ctx, "default", "web", requests.GroupChange{Vars: map[string]string{"role": role}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.settle(time.Second)
			k.report()
			w.settle(time.Second)
			if got := string(k.files["app.env"].GetContent()); !strings.Contains(got, "ROLE="+role) {
				t.Fatalf("app.env is %q", got)
			}
			kinds, _ := count()
			delete(kinds, request{memory.OpGet, "groups"}) // of the last copy
			delete(kinds, request{memory.OpPut, "snapshot"})
			if !maps.Equal(kinds, want) {
				t.Errorf("P10: a drift of one machine to %s cost %v, want %v", role, kinds, want)
			}
		}
		k := w.keep(peer)
		defer k.cut()
		answer(k)
		if _, ok := k.files["node.crt"]; !ok {
			t.Fatal("it has no certificate")
		}
		groups := request{memory.OpPut, "groups"}
		drift(k, "db", map[request]int{groups: 2}) // and the last copy
		k.cut()
		files := k.files
		w.stop()
		w.lead()
		k = w.keep(peer)
		defer func() { k.cut() }()
		k.files = files
		answer(k)
		logged := request{memory.OpPut, "certlog"}
		drift(k, "api", map[request]int{groups: 1, logged: 1})
		drift(k, "worker", map[request]int{groups: 1})
	})
}
