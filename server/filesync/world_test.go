package filesync

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/texttemplate"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

const (
	testShard = "s1"
	marked    = "hunter2-is-not-to-be-seen"
	interval  = time.Minute // between two reports
)

var web = fleet.GroupID{Tenant: "default", Name: "web"}

// world is a Syncer with everything around it, on the clock of a bubble.
type world struct {
	*Syncer
	t       *testing.T
	cache   *cache.Cache
	store   *memory.Store
	secrets secrets.Store
	ca      *pki.Authority
	ids     identity.Generator
	logs    bytes.Buffer
	agents  []*agent
	end     func()

	mu         sync.Mutex
	config     effective.Group
	certs      map[string]document.Certificate
	troubles   []string
	standings  int // how often they changed
	generation uint64
}

// in runs a test in a bubble with a Syncer that serves.
func in(t *testing.T, files map[string]document.File, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, files)
		w.lead(lease.Always(t.Context(), 1))
		defer func() {
			for _, a := range w.agents {
				a.stop()
			}
			w.end()
			if t.Failed() {
				t.Logf("%s", w.logs.String())
			}
		}()
		test(t, w)
	})
}

func newWorld(t *testing.T, files map[string]document.File) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(memory.Options{})}
	sealed, err := secrets.NewSealed(w.store, "secret/", nil)
	if err != nil {
		t.Fatal(err)
	}
	w.secrets = sealed
	ca, err := pki.EnsureCA(t.Context(), sealed, w.store, "test", pki.CATemplate{}, pki.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	w.ca = pki.NewAuthority(ca, "test", nil, nil)
	w.config = effective.Group{Tenant: web.Tenant, Key: web.Name, Files: files, Vars: map[string]string{"role": "web"}, RuntimeHash: "h1"}
	w.certs = map[string]document.Certificate{"node": {Kind: document.CertClient, CN: "system:node:{{ .Instance.ID }}", DNS: []string{"{{ .Vars.role }}"}, TTL: 720}}
	return w
}

func (w *world) authority() *pki.Authority {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ca
}

// lead begins a leadership, which knows nothing but which machines there are.
func (w *world) lead(ctx context.Context) {
	w.t.Helper()
	c, err := cache.Open(ctx, os.DevNull+"/none", cache.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.cache = c
	for _, a := range w.agents {
		w.insert(a.id)
	}
	w.Syncer = New(Options{
		Shard: testShard, Term: 1, Store: w.store, Cache: c, Authority: w.authority,
		Secrets: func() secrets.Store { return w.secrets }, From: func() layout.FileSources { return layout.FileSources{} },
		Describe: w.describe,
		Generation: func() uint64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.generation
		},
		Trouble: func(id identity.ID, group fleet.GroupID, text string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.troubles = append(w.troubles, text)
		},
		UndeliveredChanged: func(fleet.GroupID) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.standings++
		},
		Metrics: NewMetrics(nil),
		Log:     slog.New(slog.NewTextHandler(lockedWriter{w}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.end = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		if err := c.Close(); err == nil {
			w.t.Error("the cache had no file")
		}
	}
}

type lockedWriter struct{ w *world }

func (l lockedWriter) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.logs.Write(p)
}

func (w *world) insert(id identity.ID) {
	w.t.Helper()
	if err := w.cache.Insert(cache.Instance{Instance: fleet.Instance{ID: id, Group: web, State: fleet.Running}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) describe(id identity.ID) (Machine, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	data := texttemplate.Sample(w.config.Vars, nil)
	data.Instance.ID = id.String()
	eff := w.config
	return Machine{Group: web, Config: &eff, Certificates: w.certs, Data: data}, true
}

// change gives all machines another configuration.
func (w *world) change(hash string, change func(*effective.Group)) {
	w.mu.Lock()
	next := w.config
	next.Vars, next.RuntimeHash = maps.Clone(next.Vars), hash
	change(&next)
	w.config = next
	w.mu.Unlock()
	w.Changed(web)
	synctest.Wait()
}

func (w *world) secret(name, value string) {
	w.t.Helper()
	if err := w.secrets.Put(w.t.Context(), name, secrets.Secret(value), secrets.Overwrite); err != nil {
		w.t.Fatal(err)
	}
}

// certlogs are the logs of certificates, in order.
func (w *world) certlogs() []layout.Certlog {
	w.t.Helper()
	var all []layout.Certlog
	for info, err := range objectstore.ListAll(w.t.Context(), w.store, "certlog/") {
		if err != nil {
			w.t.Fatal(err)
		}
		o, err := w.store.Get(w.t.Context(), info.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		l, err := layout.DecodeCertlog(info.Key, o.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.troubles)
}

// agent is an agent as far as a Syncer can tell: it stages, applies, and reports each
// minute, and at once after a commit. As a Line it has room for 16 messages.
type agent struct {
	w   *world
	id  identity.ID
	key *ecdsa.PrivateKey

	mu     sync.Mutex
	hash   string
	files  map[string]*nstancev1.FileTransfer
	errors map[string]string
	staged map[string]*nstancev1.FileTransfer
	queue  []*nstancev1.ServerMessage
	most   int  // messages that ever waited
	deaf   bool // reads nothing
	hungry bool
	log    []string
	refuse atomic.Bool // has no room for files
	keys   bool        // hands its key in when asked
	stop   func()
}

// connect makes a machine, or gives one a new stream.
func (w *world) connect(a *agent) *agent {
	w.t.Helper()
	if a == nil {
		id, err := w.ids.NewID("vmx")
		if err != nil {
			w.t.Fatal(err)
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			w.t.Fatal(err)
		}
		a = &agent{w: w, id: id, key: key, hash: "h1", files: map[string]*nstancev1.FileTransfer{}, errors: map[string]string{}, keys: true}
		w.agents = append(w.agents, a)
		w.insert(id)
	} else {
		a.stop()
	}
	a.staged, a.queue = map[string]*nstancev1.FileTransfer{}, nil
	ctx, cancel := context.WithCancel(w.t.Context())
	a.stop = cancel
	line := &stream{agent: a}
	w.Connect(a.id, line)
	w.Greet(a.id, line)
	go a.live(ctx)
	synctest.Wait()
	return a
}

// stream is one Line of an agent.
type stream struct{ *agent }

func (a *agent) live(ctx context.Context) {
	for ctx.Err() == nil {
		a.report()
		time.Sleep(100 * time.Millisecond) // what the report causes comes before what the agent does next
		for since := time.Duration(0); since < interval && ctx.Err() == nil; since += time.Second {
			for a.read() {
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// Offer implements Line.
func (a *agent) Offer(m *nstancev1.ServerMessage) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) >= 16 {
		a.hungry = true
		return false
	}
	a.queue = append(a.queue, m)
	a.most = max(a.most, len(a.queue))
	return true
}

// Room implements Line.
func (a *agent) Room() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hungry = a.hungry || len(a.queue) == 16
	return 16 - len(a.queue)
}

// read deals with one message, if there is one.
func (a *agent) read() bool {
	a.mu.Lock()
	if a.deaf || len(a.queue) == 0 {
		wake := a.hungry && len(a.queue) == 0
		a.hungry = a.hungry && !wake
		a.mu.Unlock()
		if wake {
			a.w.Wake(a.id)
		}
		return false
	}
	m := a.queue[0]
	a.queue = a.queue[1:]
	report := a.handle(m)
	a.mu.Unlock()
	if asked := m.GetKeyRequest(); asked != nil && a.keys && len(asked.KeyNames) > 0 {
		a.submit(asked.KeyNames)
	}
	if report {
		a.report()
	}
	return true
}

func (a *agent) handle(m *nstancev1.ServerMessage) (report bool) {
	switch m := m.Message.(type) {
	case *nstancev1.ServerMessage_KeyRequest:
		a.log = append(a.log, "keys "+strings.Join(m.KeyRequest.KeyNames, " "))
	case *nstancev1.ServerMessage_File:
		a.log = append(a.log, "file "+m.File.Filename)
		a.staged[m.File.Filename] = m.File
	case *nstancev1.ServerMessage_Commit:
		a.log = append(a.log, "commit "+m.Commit.ConfigHash)
		a.apply(m.Commit.ConfigHash)
		return true
	}
	return false
}

func (a *agent) apply(hash string) {
	defer func() { a.staged = map[string]*nstancev1.FileTransfer{} }()
	if a.refuse.Load() {
		for name := range a.staged {
			a.errors[name] = "no room"
		}
		return
	}
	for name, f := range a.staged {
		a.files[name] = f
		delete(a.errors, name)
	}
	a.hash = hash
}

func (a *agent) submit(names []string) {
	der, err := x509.MarshalPKIXPublicKey(a.key.Public())
	if err != nil {
		a.w.t.Error(err)
	}
	keys := map[string]string{}
	for _, name := range names {
		keys[name] = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	a.w.cache.PutPublicKeys(a.id, keys)
	a.w.KeysStored(a.id)
}

func (a *agent) report() {
	a.mu.Lock()
	r := &nstancev1.HealthReport{InstanceId: a.id.String(), ConfigHash: a.hash, Files: map[string]*nstancev1.FileStatus{}}
	for name, f := range a.files {
		sum := sha256.Sum256(f.Content)
		r.Files[name] = &nstancev1.FileStatus{State: &nstancev1.FileStatus_LastModified{LastModified: f.LastModified}, Sha256: sum[:]}
	}
	for name, why := range a.errors {
		r.Files[name] = &nstancev1.FileStatus{State: &nstancev1.FileStatus_Error{Error: why}}
	}
	r.Timestamp = timestamppb.New(time.Now().Add(-24 * time.Hour)) // F33: nobody looks at it
	a.mu.Unlock()
	a.w.Heard(a.id, r)
}

// settle lets time pass and everything that it causes happen.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// said returns what the agent was sent since the last call.
func (a *agent) said() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	log := a.log
	a.log = nil
	return log
}

func (a *agent) expect(want ...string) {
	a.w.t.Helper()
	if got := a.said(); !slices.Equal(got, want) {
		a.w.t.Errorf("the agent was sent %q, want %q", got, want)
	}
}

// content is what a file in place contains.
func (a *agent) content(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return string(a.files[name].GetContent())
}

// certificate is the certificate in place.
func (a *agent) certificate(name string) *x509.Certificate {
	a.w.t.Helper()
	block, rest := pem.Decode([]byte(a.content(name)))
	if block == nil || len(rest) > 0 {
		a.w.t.Fatalf("%s is not one certificate", name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		a.w.t.Fatal(err)
	}
	return cert
}

// lose takes a file away, as somebody on the machine would.
func (a *agent) lose(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.files, name)
}

var (
	env   = document.File{Kind: document.FileEnv, Template: map[string]any{"ROLE": "{{ .Vars.role }}"}}
	token = document.File{Kind: document.FileSecret, Source: "token"}
	node  = document.File{Kind: document.FileCertificate, Template: "node", Key: &document.FileKey{Source: "agent", Name: "node.pub"}}
)

// many are so many text files.
func many(n int) map[string]document.File {
	files := map[string]document.File{}
	for i := range n {
		files[fmt.Sprintf("f%02d", i)] = document.File{Kind: document.FileString, Template: fmt.Sprint(i)}
	}
	return files
}
