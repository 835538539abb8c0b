package operatorauth_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/pki"
)

func TestRegister(t *testing.T) {
	w := newWorld(t)
	peer, key := w.operator(w.leader(), "b")
	if peer.Role != identity.RoleOperator || peer.Tenant != "b" || peer.Cluster != cluster {
		t.Errorf("the certificate is of %+v", peer)
	}
	recs := w.records()
	if len(recs) != 1 {
		t.Fatalf("there are %d records, want 1", len(recs))
	}
	rec := recs[0]
	if rec.ID != peer.ID || rec.Tenant != "b" || rec.Certificate.Serial != peer.Serial || rec.PublicKeyPEM != string(publicPEM(t, key)) {
		t.Errorf("the record is %+v, the certificate of %+v", rec, peer)
	}
}

func TestS9_NonceRegistersOneKey(t *testing.T) {
	w := newWorld(t)
	first := w.leader()
	token, key := w.nonce("default", nil), newKey(t)
	peer, err := w.register(first, token, key)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*operatorauth.Registry{"the same server": first, "one that knows nothing": w.leader()} {
		again, err := w.register(r, token, key)
		if err != nil || again.ID != peer.ID || again.Tenant != peer.Tenant {
			t.Errorf("%s answered the same key with %+v, %v", name, again, err)
		}
		_, err = w.register(r, token, newKey(t))
		wantErr(t, err, operatorauth.ErrUsed)
	}
	if n := len(w.records()); n != 1 {
		t.Errorf("there are %d records, want 1", n)
	}
	if log := w.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, peer.ID.String()) || strings.Contains(log, token) {
		t.Errorf("the log must name the operator in an alarm, and not the nonce:\n%s", log)
	}
}

// Two servers that both believe they lead, many callers, one nonce.
func TestF39_AtOnce(t *testing.T) {
	w := newWorld(t)
	servers := []*operatorauth.Registry{w.leader(), w.leader()}
	token := w.nonce("default", nil)
	var calls sync.WaitGroup
	var mu sync.Mutex
	won := map[identity.ID]int{}
	for i := range 16 {
		key := newKey(t)
		calls.Go(func() {
			peer, err := w.register(servers[i%2], token, key)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won[peer.ID]++
			} else if !errors.Is(err, operatorauth.ErrUsed) {
				t.Errorf("a loser got %v", err)
			}
		})
	}
	calls.Wait()
	if len(won) != 1 || len(w.records()) != 1 {
		t.Errorf("winners: %v, records: %d", won, len(w.records()))
	}
}

// A nonce is used from its mark on, before the registration that it is for has settled: a
// second key is refused, and said aloud, also while the first one has no record yet.
func TestS9_F39_AnUnsettledNonceIsUsed(t *testing.T) {
	synctest.Test(t, unsettledNonce) // the write of the record is tried again for a while
}

func unsettledNonce(t *testing.T) {
	w := newWorld(t)
	r := w.leader()
	token, first := w.nonce("default", nil), newKey(t)
	w.store.SetFaults(func(c memory.Call) memory.Fault {
		if c.Op == memory.OpPut && strings.HasPrefix(c.Key, layout.OperatorPrefix) {
			return memory.Fault{Before: objectstore.ErrUnavailable} // the mark is stored, the record is not
		}
		return memory.Fault{}
	})
	try := func(key ed25519.PrivateKey) error { _, err := w.register(r, token, key); return err }
	if err := try(first); !errors.Is(err, operatorauth.ErrUnavailable) || len(w.records()) != 0 {
		t.Fatalf("without its record: %v, %d records", err, len(w.records()))
	}
	w.store.SetFaults(nil)
	if err := try(newKey(t)); !errors.Is(err, operatorauth.ErrUsed) {
		t.Errorf("another key: %v, want %v", err, operatorauth.ErrUsed)
	}
	if !strings.Contains(w.log.String(), "a used nonce came with another key") {
		t.Error("nobody was told")
	}
	if err := try(first); err != nil {
		t.Errorf("the first key again: %v", err)
	}
}

// Whatever storage call fails, and in whatever way, nothing is issued without a
// record, and the same key gets in afterwards with one identity.
func TestF15_StorageFails(t *testing.T) {
	faults := map[string]memory.Fault{
		"before":      {Before: objectstore.ErrUnavailable},
		"answer lost": {After: objectstore.ErrUnavailable},
	}
	for name, fault := range faults {
		for n := range 6 {
			t.Run(fmt.Sprintf("%s, call %d", name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { storageFails(t, n, fault) })
			})
		}
	}
}

// storageFails registers while every call after the first n goes wrong, and
// again when all is well.
func storageFails(t *testing.T, n int, fault memory.Fault) {
	w := newWorld(t)
	r := w.leader()
	token, key := w.nonce("default", nil), newKey(t)
	from := w.store.Calls()
	w.store.SetFaults(func(c memory.Call) memory.Fault {
		if c.N > from+n {
			return fault
		}
		return memory.Fault{}
	})
	first, err := w.register(r, token, key)
	w.store.SetFaults(nil)
	if err == nil && len(w.records()) != 1 {
		t.Error("a certificate left without its record")
	}
	second, again := w.register(r, token, key)
	if again != nil || err == nil && first.ID != second.ID || len(w.records()) != 1 {
		t.Errorf("the repeat gave %v, %v and %d records", second.ID, again, len(w.records()))
	}
}

// lastWords is a store whose nth write is the last thing that happens while the
// leadership lasts: it ends right after the answer.
type lastWords struct {
	objectstore.Store
	n   int
	end context.CancelFunc
}

func (s *lastWords) count() {
	if s.n--; s.n == 0 {
		s.end()
	}
}

func (s *lastWords) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	defer s.count()
	return s.Store.PutIfAbsent(ctx, key, data)
}

func (s *lastWords) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	defer s.count()
	return s.Store.PutIfMatch(ctx, key, data, etag)
}

// TestS2_NoCertificateAfterTheLease: the lease runs out while a registration or a
// renewal is being made durable. Nothing leaves, and the next leader answers.
func TestS2_NoCertificateAfterTheLease(t *testing.T) {
	for n := range 4 { // mark, record, mark again; the last is the renewal
		t.Run(fmt.Sprintf("after write %d", n+1), func(t *testing.T) {
			w := newWorld(t)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			dying := operatorauth.New(operatorauth.Options{
				Cluster: cluster, Store: &lastWords{w.store, n + 1, end}, Keys: func() *pki.Keys { return w.keys },
				HasTenant: func(string) bool { return true }, Log: slog.New(slog.DiscardHandler),
			})
			dying.Lead(lease.Always(ctx, 1))
			token, key := w.nonce("b", nil), newKey(t)
			peer, err := w.register(dying, token, key)
			if n == 3 && err == nil {
				_, err = dying.Renew(t.Context(), peer, publicPEM(t, key))
			}
			wantErr(t, err, operatorauth.ErrNotLeader)
			if _, err := w.register(w.leader(), token, key); err != nil {
				t.Errorf("the next leader: %v", err)
			}
		})
	}
}

func TestRegisterNeedsLeadership(t *testing.T) {
	w := newWorld(t)
	r := w.server()
	_, err := w.register(r, w.nonce("default", nil), newKey(t))
	wantErr(t, err, operatorauth.ErrNotLeader)

	ctx, cancel := context.WithCancel(t.Context())
	r.Lead(lease.Always(ctx, 1))
	if !r.Leading() {
		t.Error("a server with the leadership does not lead")
	}
	cancel()
	_, err = w.register(r, w.nonce("default", nil), newKey(t))
	wantErr(t, err, operatorauth.ErrNotLeader)
	if len(w.records()) != 0 {
		t.Error("a server that does not lead wrote a record")
	}
}

func TestS10_F42_EachClaimCounts(t *testing.T) {
	w := newWorld(t)
	r := w.leader()
	cases := map[string]func(*identity.NonceClaims){
		"of an agent": func(c *identity.NonceClaims) {
			c.Kind, c.Subject, c.Shard, c.Group, c.ConfigHash = identity.NonceAgent, "knc068a3cp3thz5z2mv1gejwftabc", "s", "g", "sha256:0"
		},
		"of another cluster":   func(c *identity.NonceClaims) { c.Subject, c.ClusterID = "other", "other" },
		"of an unknown tenant": func(c *identity.NonceClaims) { c.Tenant = "nobody" },
		"expired":              func(c *identity.NonceClaims) { c.IssuedAt -= 9e3; c.ExpiresAt = c.IssuedAt + 60 },
		"not valid yet":        func(c *identity.NonceClaims) { c.NotBefore = c.IssuedAt + 600 },
	}
	for name, change := range cases {
		_, err := w.register(r, w.nonce("default", change), newKey(t))
		if !errors.Is(err, operatorauth.ErrRefused) {
			t.Errorf("a nonce %s: %v", name, err)
		}
	}
	if _, err := w.register(r, "x.y.z", newKey(t)); !errors.Is(err, operatorauth.ErrRefused) {
		t.Errorf("garbage: %v", err)
	}

	key, token := newKey(t), w.nonce("default", nil)
	badProof, badKey := request(t, token, key), request(t, token, key)
	badProof.Proof = identity.SignProof(newKey(t), token)
	badKey.PublicKeyPem = []byte("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n")
	for field, req := range map[string]*nstancev1.RegisterClientRequest{"proof": badProof, "public_key_pem": badKey} {
		var invalid *operatorauth.InvalidError
		if _, err := r.Register(t.Context(), req); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := w.register(r, token, key); err != nil {
		t.Errorf("refused attempts must not spend the nonce: %v", err)
	}
}
