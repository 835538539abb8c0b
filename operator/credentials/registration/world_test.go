package registration_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/operator/credentials/registration"
	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/credentials/secrets/secretstest"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant     = "default"
	keySecret  = "nstance-operator-key"
	certSecret = "nstance-operator-cert"
	nonce      = "nstance-operator-nonce"
)

// world is a cluster of two shards, the first of which leads it, and the Secrets of an
// operator that has a nonce.
type world struct {
	*shardtest.Cluster
	t     *testing.T
	store *secretstest.Store
	log   *journal
}

// inWorld runs a test in a bubble. At its end nothing secret may stand in logs and errors.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		c.Shard("a").Serve("a:1")
		c.Shard("b").Serve("b:1")
		w := &world{Cluster: c, t: t, store: secretstest.NewStore(), log: &journal{}}
		w.issue()
		test(t, w)
		w.log.check(t, w.store)
	})
}

// issue puts a new nonce into its Secret, for a day.
func (w *world) issue() { w.putNonce(w.Nonce(tenant, 24*time.Hour)) }

func (w *world) putNonce(token string) {
	w.log.secret(token)
	w.store.Put(secrets.Secret{Name: nonce, Data: map[string][]byte{"nonce.jwt": []byte(token + "\n")}})
}

// operator is one start of the operator.
func (w *world) operator() registration.Options {
	id, err := registration.NewIdentity(w.CA())
	if err != nil {
		w.t.Fatal(err)
	}
	return registration.Options{
		Cluster: w.ID, Tenant: tenant, Store: w.store, Identity: id, Dial: w.DialContext,
		Shards: func() []shards.Target {
			return []shards.Target{{Shard: "a", Addresses: []string{"a:1"}}, {Shard: "b", Addresses: []string{"b:1"}}}
		},
		Log:    slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Random: func() float64 { return 0.5 },
	}
}

// start starts an operator and returns it, and the error if it has no identity then.
func (w *world) start() (registration.Options, error) {
	o := w.operator()
	err := registration.Obtain(w.t.Context(), o)
	if err != nil {
		w.log.note(err.Error())
	}
	if _, until := o.Identity.Validity(); until.IsZero() != (err != nil) {
		w.t.Errorf("identity until %v with error %v", until, err)
	}
	return o, err
}

// mustStart is start where nothing is wrong.
func (w *world) mustStart() registration.Options {
	w.t.Helper()
	o, err := w.start()
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// stranger registers another operator with the nonce.
func (w *world) stranger() {
	w.t.Helper()
	s, err := w.store.Get(w.t.Context(), nonce)
	if err != nil {
		w.t.Fatal(err)
	}
	o := w.operator()
	store := secretstest.NewStore()
	store.Put(secrets.Secret{Name: nonce, Data: s.Data})
	o.Store = store
	if err := registration.Obtain(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stored returns an entry of a Secret.
func (w *world) stored(name, entry string) []byte {
	w.t.Helper()
	s, err := w.store.Get(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Data[entry]
}

// registrations returns how many were asked for, at all shards.
func (w *world) registrations() int {
	return w.Shard("a").Count("RegisterOperator") + w.Shard("b").Count("RegisterOperator")
}

// keep runs a keeper until the test ends, and returns what it reports.
func (w *world) keep(k *registration.Keeper) *reports {
	r := &reports{}
	k.Report = r.add
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = k.Run(ctx) // the reason of ctx
	}()
	w.t.Cleanup(func() {
		stop()
		<-done
	})
	return r
}

// reports keeps what a keeper says.
type reports struct {
	mu  sync.Mutex
	all []registration.RenewalResult
}

func (r *reports) add(n registration.RenewalResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, n)
}

// count returns how many reports of each sort there were.
func (r *reports) count() (renewed, warned int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.all {
		if n.Renewed {
			renewed++
		} else {
			warned++
		}
	}
	return renewed, warned
}

// journal is everything that was logged and said, and what must not stand there.
type journal struct {
	mu      sync.Mutex
	text    bytes.Buffer
	secrets []string
}

// Write implements io.Writer for a log.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) note(text string) { _, _ = j.Write([]byte(text + "\n")) }

func (j *journal) secret(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.secrets = append(j.secrets, text)
}

// check looks for nonces, and for the private keys that are stored.
func (j *journal) check(t *testing.T, store *secretstest.Store) {
	t.Helper()
	store.Break(nil)
	for secret, entry := range map[string]string{keySecret: "private.key", certSecret: "tls.key"} {
		s, err := store.Get(t.Context(), secret)
		if block, _ := pem.Decode(s.Data[entry]); err == nil && block != nil {
			lines := strings.Split(string(s.Data[entry]), "\n")
			j.secret(lines[1])
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, secret := range j.secrets {
		if strings.Contains(j.text.String(), secret[:16]) && strings.Contains(j.text.String(), secret) {
			t.Errorf("S14: a secret stands in logs or errors:\n%s", j.text.String())
		}
	}
}
