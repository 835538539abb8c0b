package operatorauth_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const cluster = "test"

// world is a cluster's storage and keys; each server in it is a registry.
type world struct {
	t      testing.TB
	store  *memory.Store
	keys   *pki.Keys
	signer *pki.NonceSigner
	now    time.Time
	log    *lockedText
}

func newWorld(t testing.TB) *world {
	t.Helper()
	store := memory.New(memory.Options{})
	sealed, err := secrets.NewSealed(store, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.EnsureCA(t.Context(), sealed, store, cluster, pki.CATemplate{}, pki.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	nonces, err := pki.EnsureNonceKeys(t.Context(), sealed, pki.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := pki.NewNonceSigner(nonces, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, store: store, signer: signer, now: time.Now(), log: &lockedText{},
		keys: &pki.Keys{Authority: pki.NewAuthority(ca, cluster, nil, nil), Verifier: pki.NewNonceVerifier(cluster, nonces)},
	}
}

// server is a registry that knows nobody and leads nothing.
func (w *world) server() *operatorauth.Registry {
	return operatorauth.New(operatorauth.Options{
		Cluster: cluster, Store: w.store,
		Keys:      func() *pki.Keys { return w.keys },
		HasTenant: func(name string) bool { return name == "default" || name == "b" },
		Log:       slog.New(slog.NewTextHandler(w.log, nil)),
	})
}

// leader is a registry that leads the cluster until the test ends.
func (w *world) leader() *operatorauth.Registry {
	r := w.server()
	r.Lead(lease.Always(w.t.Context(), 1))
	return r
}

// nonce returns a token of the tenant, with its claims changed as the test likes.
func (w *world) nonce(tenant string, change func(*identity.NonceClaims)) string {
	w.t.Helper()
	claims := identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: cluster, ClusterID: cluster, Tenant: tenant,
		IssuedAt: w.now.Unix(), ExpiresAt: w.now.Add(3 * time.Hour).Unix(),
	}
	if change != nil {
		change(&claims)
	}
	token, err := w.signer.Sign(claims)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func publicPEM(t testing.TB, key ed25519.PrivateKey) []byte {
	t.Helper()
	data, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func request(t testing.TB, token string, key ed25519.PrivateKey) *nstancev1.RegisterClientRequest {
	return &nstancev1.RegisterClientRequest{
		RegistrationNonceJwt: token, PublicKeyPem: publicPEM(t, key), Proof: identity.SignProof(key, token),
	}
}

// register registers and returns who the certificate says its owner is.
func (w *world) register(r *operatorauth.Registry, token string, key ed25519.PrivateKey) (identity.Peer, error) {
	resp, err := r.Register(w.t.Context(), request(w.t, token, key))
	if err != nil {
		return identity.Peer{}, err
	}
	return peerOf(w.t, resp.ClientCertificatePem), nil
}

// operator registers a new operator of the tenant, who must get in.
func (w *world) operator(r *operatorauth.Registry, tenant string) (identity.Peer, ed25519.PrivateKey) {
	w.t.Helper()
	key := newKey(w.t)
	peer, err := w.register(r, w.nonce(tenant, nil), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return peer, key
}

func peerOf(t testing.TB, data []byte) identity.Peer {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatal("no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := identity.PeerFromCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	return peer
}

// records are the operators' records that stand in storage.
func (w *world) records() []layout.OperatorRecord {
	w.t.Helper()
	var all []layout.OperatorRecord
	for info, err := range objectstore.ListAll(w.t.Context(), w.store, layout.OperatorPrefix) {
		if err != nil {
			w.t.Fatal(err)
		}
		obj, err := w.store.Get(w.t.Context(), info.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		rec, err := layout.DecodeOperatorRecord(info.Key, obj.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

// revoke deletes an operator's record, as an administrator would.
func (w *world) revoke(peer identity.Peer) {
	w.t.Helper()
	key := layout.OperatorKey(peer.Tenant, peer.ID)
	obj, err := w.store.Get(w.t.Context(), key)
	if err == nil {
		err = w.store.DeleteIfMatch(w.t.Context(), key, obj.ETag)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want one that matches %v", err, want)
	}
}

// lockedText is text that many may write to.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
