package agents

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/filesync"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
	"nstance.dev/server/secrets"
)

const testShard = "s1"

// post is a shard without a loop: storage, rows and keys, and one service after another for
// its agents.
type post struct {
	t       *testing.T
	store   *memory.Store
	cache   *cache.Cache
	config  *document.Config
	keys    Keys
	nonces  *pki.NonceSigner
	ids     identity.Generator
	parking Parking
	number  uint64 // of the term
	calls   sync.WaitGroup
}

// term is one leader's service, and what it has told.
type term struct {
	*Service
	p         *post
	ctx       context.Context
	end       context.CancelCauseFunc
	instances *instances.Store
	tasks     sync.WaitGroup

	mu       sync.Mutex
	said     []string // by files and signs of life, in their order
	failures []string // what tenants were told
	clusters []string // what was told of bindings
	hosts    []string // what was told of node machines
	keyNames []string // of files
	onCall   func(call string)
}

// atPost runs a test in a bubble, with a service in its first term.
func atPost(t *testing.T, test func(*testing.T, *post, *term)) {
	t.Helper()
	atPostWith(t, os.DevNull+"/none", test)
}

// atPostWith is atPost, with a cache that is kept in a file.
func atPostWith(t *testing.T, cachePath string, test func(*testing.T, *post, *term)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, cachePath)
		a := p.lead()
		test(t, p, a)
		a.stop(context.Canceled)
		p.parking.EndAll()
		p.calls.Wait()
		_ = p.cache.Close()
	})
}

func newPost(t *testing.T, cachePath string) *post {
	t.Helper()
	p := &post{t: t, store: memory.New(memory.Options{})}
	var err error
	if p.cache, err = cache.Open(t.Context(), cachePath, cache.Options{}); err != nil {
		t.Fatal(err)
	}
	p.config = &document.Config{Tenants: map[string]document.Tenant{"b": {}}, Server: document.Server{
		HealthCheckInterval: document.Duration(10 * time.Second), ClientCertTTL: document.ClientCertTTL{Agent: 24},
	}}
	sealed, err := secrets.NewSealed(p.store, "secret/", nil)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.EnsureCA(t.Context(), sealed, p.store, "test", pki.CATemplate{}, pki.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	nonces, err := pki.EnsureNonceKeys(t.Context(), sealed, pki.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if p.nonces, err = pki.NewNonceSigner(nonces, nil); err != nil {
		t.Fatal(err)
	}
	p.keys = Keys{Authority: pki.NewAuthority(ca, "test", nil, nil), Verifier: pki.NewNonceVerifier("test", nonces)}
	return p
}

// lead begins the next term, of a leader that has read all records.
func (p *post) lead() *term {
	p.t.Helper()
	p.number++
	a := &term{p: p}
	ctx, end := context.WithCancelCause(p.t.Context())
	a.ctx, a.end = lease.Always(ctx, p.number), end
	p.cache.Reset()
	a.instances = instances.New(instances.Options{
		Objects: p.store, Cache: p.cache, Shard: testShard, Term: p.number, Writes: objectstore.RetryPolicy{Permit: lease.Check},
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Changed: func(c instances.Change) {
			if c.Event == instances.Registered {
				a.note("registered")
			}
		},
		Unreadable: func(context.Context, string, error) {}, Over: a.over,
	})
	if err := a.instances.Load(a.ctx); err != nil {
		p.t.Fatal(err)
	}
	a.Service = New(a.ctx, Options{
		Cluster: "test", Shard: testShard, Term: p.number, Instances: a.instances, Cache: p.cache, Liveness: signs{a}, Files: files{a},
		Clusters: bound{a}, Machines: built{a}, Parking: &p.parking, Config: func() *document.Config { return p.config }, Keys: func() Keys { return p.keys },
		Failed: func(_ cache.Instance, class, text string) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.failures = append(a.failures, class+": "+text)
		},
		Trace:       func(context.Context, cache.Instance) func(error) { return func(error) {} },
		Unavailable: func(err error) error { return refusal.New(refusal.Unavailable, "STORAGE", "%v", err) },
		Go:          a.tasks.Go, Over: a.over, Metrics: NewMetrics(nil), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	return a
}

func (a *term) over(err error) bool {
	return errors.Is(err, lease.ErrSuperseded) || errors.Is(err, lease.ErrNotLeader)
}

// stop ends the term for a reason.
func (a *term) stop(why error) {
	a.end(why)
	a.Close()
	a.tasks.Wait()
	synctest.Wait()
}

func (a *term) note(call string) {
	a.mu.Lock()
	a.said = append(a.said, call)
	hook := a.onCall
	a.mu.Unlock()
	if hook != nil {
		hook(call)
	}
}

// told is what was told since the last call.
func (a *term) told() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	told := a.said
	a.said = nil
	return told
}

func (a *term) expect(what string, want ...string) {
	a.p.t.Helper()
	if got := a.told(); !slices.Equal(got, want) {
		a.p.t.Errorf("%s: told %q, want %q", what, got, want)
	}
}

func (a *term) failed() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.failures)
}

// signs notes what [Liveness] is told.
type signs struct{ *term }

func (s signs) Connected(identity.ID) { s.note("up") }
func (s signs) Disconnected(_ identity.ID, graceful bool) {
	s.note(map[bool]string{true: "goodbye", false: "down"}[graceful])
}
func (s signs) Reported(_ identity.ID, single bool) {
	s.note(map[bool]string{true: "single report", false: "report"}[single])
}
func (s signs) Notice(_ identity.ID, n fleet.Notice) { s.note("notice " + n.Action) }

// files notes what [Files] is told.
type files struct{ *term }

func (f files) Connect(identity.ID, filesync.Line)         { f.note("connect") }
func (f files) Greet(identity.ID, filesync.Line)           { f.note("greet") }
func (f files) Disconnect(identity.ID, filesync.Line)      { f.note("disconnect") }
func (f files) Wake(identity.ID)                           { f.note("wake") }
func (f files) Heard(identity.ID, *nstancev1.HealthReport) { f.note("heard") }
func (f files) KeyNames(identity.ID) []string              { return f.keyNames }
func (f files) KeysStored(identity.ID)                     { f.note("keys") }

// machine is one whose agent is the test.
type machine struct {
	id    identity.ID
	nonce string
	key   ed25519.PrivateKey
	peer  identity.Peer // zero until it is registered
}

// machine records an instance whose nonce is good for two minutes.
func (a *term) machine() *machine {
	t := a.p.t
	t.Helper()
	id, err := a.p.ids.NewID("vmx")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	m := &machine{id: id, key: newKey(t)}
	m.nonce = a.p.sign(claims(id))
	err = a.instances.Create(a.ctx, layout.InstanceRecord{
		ID: id, Tenant: "default", ClusterID: "test", Shard: testShard, Group: "web", Template: "plain", Kind: "vmx",
		InstanceType: "small", Arch: "amd64", SubnetPool: "p", SubnetID: "n", Provider: "local", Status: layout.StatusPending,
		CreatedAt: layout.At(now), NonceSHA256: pki.HashNonce(m.nonce), NonceExpires: layout.At(now.Add(2 * time.Minute)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// claims are those of the nonce of an instance of now.
func claims(id identity.ID) identity.NonceClaims {
	return identity.NonceClaims{
		Kind: identity.NonceAgent, Subject: id.String(), ClusterID: "test", Tenant: "default", Shard: testShard, Group: "web",
		ConfigHash: "sha256:" + strings.Repeat("0", 64), IssuedAt: time.Now().Unix(), ExpiresAt: time.Now().Add(2 * time.Minute).Unix(),
	}
}

func (p *post) sign(claims identity.NonceClaims) string {
	p.t.Helper()
	token, err := p.nonces.Sign(claims)
	if err != nil {
		p.t.Fatal(err)
	}
	return token
}

// registered records an instance whose agent has registered.
func (a *term) registered() *machine {
	a.p.t.Helper()
	m := a.machine()
	if err := a.enrols(m); err != nil {
		a.p.t.Fatal(err)
	}
	a.told()
	return m
}

// enrols registers the agent of a machine.
func (a *term) enrols(m *machine) error {
	return a.claims(m, "10.0.0.1", &nstancev1.RegisterClientRequest{})
}

// claims registers the agent of a machine from an address, with what it says of itself.
func (a *term) claims(m *machine, source string, req *nstancev1.RegisterClientRequest) error {
	req.RegistrationNonceJwt, req.PublicKeyPem, req.Proof = m.nonce, publicPEM(a.p.t, m.key), identity.SignProof(m.key, m.nonce)
	res, err := a.Register(a.p.t.Context(), netip.MustParseAddr(source), req)
	if err != nil {
		return err
	}
	m.peer = certified(a.p.t, res.ClientCertificatePem)
	return nil
}

// ends has an instance condemned, or deleted too.
func (a *term) ends(id identity.ID, deleted bool) {
	a.p.t.Helper()
	for _, gone := range []bool{false, true} {
		if gone && !deleted {
			return
		}
		_, err := a.instances.Change(a.ctx, id, func(rec *layout.InstanceRecord) error {
			rec.Deletion = &layout.Deletion{Reason: string(fleet.ReasonUnhealthy), RequestedAt: layout.At(time.Now())}
			if gone {
				rec.Deletion.GoneAt = layout.At(time.Now())
			}
			return nil
		})
		if err != nil {
			a.p.t.Fatal(err)
		}
	}
}

// record is the record of an instance as storage has it.
func (a *term) record(id identity.ID) layout.InstanceRecord {
	a.p.t.Helper()
	for info, err := range objectstore.ListAll(a.p.t.Context(), a.p.store, layout.InstancePrefix(testShard)) {
		if err != nil {
			a.p.t.Fatal(err)
		}
		obj, err := a.p.store.Get(a.p.t.Context(), info.Key)
		if err != nil {
			a.p.t.Fatal(err)
		}
		if rec, err := layout.DecodeInstanceRecord(info.Key, obj.Data); err == nil && rec.ID == id {
			return rec
		}
	}
	a.p.t.Fatalf("no record of %s", id)
	return layout.InstanceRecord{}
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func publicPEM(t *testing.T, key ed25519.PrivateKey) []byte {
	t.Helper()
	text, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// certified is who a certificate names.
func certified(t *testing.T, text []byte) identity.Peer {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no certificate: %q", text)
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

// pipe is an agent's connection without a network.
type pipe struct {
	ctx  context.Context
	cut  context.CancelFunc
	in   chan *nstancev1.AgentMessage
	out  chan *nstancev1.ServerMessage
	bye  chan struct{}
	ends chan error // how Connect has ended
}

func newPipe(ctx context.Context) *pipe {
	ctx, cut := context.WithCancel(ctx)
	return &pipe{ctx: ctx, cut: cut, in: make(chan *nstancev1.AgentMessage), out: make(chan *nstancev1.ServerMessage, 64),
		bye: make(chan struct{}), ends: make(chan error, 1)}
}

// open connects the agent of a machine, which says nothing yet.
func (a *term) open(m *machine) *pipe {
	o := newPipe(a.p.t.Context())
	peer := m.peer
	a.p.calls.Go(func() { o.ends <- a.Connect(&peer, o); o.cut() })
	synctest.Wait()
	return o
}

// greeted connects the agent of a machine, which says hello.
func (a *term) greeted(m *machine) *pipe {
	o := a.open(m)
	o.say(hello(m.id))
	synctest.Wait()
	return o
}

func (o *pipe) say(msg *nstancev1.AgentMessage) {
	select {
	case o.in <- msg:
	case <-o.ctx.Done():
	}
}

// heard is what the agent was sent since the last call.
func (o *pipe) heard() (all []*nstancev1.ServerMessage) {
	synctest.Wait()
	for range len(o.out) {
		all = append(all, <-o.out)
	}
	return all
}

// ended is whether the connection has ended, and how.
func (o *pipe) ended() (ended bool, err error) {
	synctest.Wait()
	select {
	case err := <-o.ends:
		return true, err
	default:
		return false, nil
	}
}

func (o *pipe) expect(t *testing.T, code refusal.Code) {
	t.Helper()
	if ended, err := o.ended(); !ended || !refusedWith(err, code) {
		t.Errorf("ended %v with %v, want %s", ended, err, code)
	}
}

// Context implements [Conn].
func (o *pipe) Context() context.Context { return o.ctx }

// Recv implements [Conn].
func (o *pipe) Recv() (*nstancev1.AgentMessage, error) {
	select {
	case msg := <-o.in:
		return msg, nil
	case <-o.bye:
		return nil, io.EOF
	case <-o.ctx.Done():
		return nil, o.ctx.Err()
	}
}

// Send implements [Conn].
func (o *pipe) Send(msg *nstancev1.ServerMessage) error {
	select {
	case o.out <- msg:
		return nil
	case <-o.ctx.Done():
		return o.ctx.Err()
	}
}

func hello(id identity.ID) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{InstanceId: id.String()}}}
}

func report(id identity.ID, count int64) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{Report: &nstancev1.HealthReport{InstanceId: id.String(), Count: count}}}
}

func renew(t *testing.T, key ed25519.PrivateKey) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Renew{Renew: &nstancev1.Renew{RequestId: "r", PublicKeyPem: publicPEM(t, key)}}}
}

func refusedWith(err error, code refusal.Code) bool {
	refused, ok := errors.AsType[*refusal.Error](err)
	return ok && refused.Code == code
}
