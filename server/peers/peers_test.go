package peers_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/protos/identity"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/peers"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var lockOf = lease.Document{
	V: 1, LeaderID: "one", LeaderAddr: "127.0.0.1:8991", Addrs: lease.Addrs{Agent: "127.0.0.1:8994"},
	LastUpdated: time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC), Term: 7, LeaseSeconds: 15,
}

// authority makes a cluster's certificate authority.
func authority(t *testing.T, cluster string) *pki.Authority {
	t.Helper()
	store := memory.New(memory.Options{})
	sealed, err := secrets.NewSealed(store, "secret/", nil)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.EnsureCA(t.Context(), sealed, store, cluster, pki.CATemplate{}, pki.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return pki.NewAuthority(ca, cluster, nil, nil)
}

func certificate(t *testing.T, a *pki.Authority, shard, id string) *pki.ServerCert {
	t.Helper()
	cert, err := pki.NewServerCert(a, pki.ServerCertOptions{ServerID: id, Shard: shard})
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// leader is a server on loopback that leads shard a of cluster c.
type leader struct {
	addr    string
	leads   atomic.Bool
	witness peers.Witness
	stop    func()
}

func newLeader(t *testing.T, a *pki.Authority) *leader {
	t.Helper()
	l := &leader{}
	l.leads.Store(true)
	roots, name := a.CA().Pool(), identity.ServerName("a", "c")
	h := peers.Handler(peers.HandlerOptions{
		Shard:   func() (lease.Document, bool) { return lockOf, l.leads.Load() },
		ETags:   func() peers.ETags { return peers.ETags{Config: "c1", Groups: "g1"} },
		Standby: func(r *http.Request) bool { return pki.IsServer(r.TLS, roots, name, time.Now()) },
		Witness: &l.witness,
	})
	var lc net.ListenConfig
	socket, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.addr = socket.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	config := pki.PeerServerTLS(certificate(t, a, "a", "one"))
	go func() { done <- peers.Serve(ctx, socket, 256, config, h, slog.New(slog.DiscardHandler)) }()
	l.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return l
}

// standby is a client with the certificate of a server of that shard.
func standby(t *testing.T, a *pki.Authority, shard string) *peers.Client {
	t.Helper()
	config := pki.PeerClientTLS(certificate(t, a, shard, "two"), a.CA().Pool(), identity.ServerName(shard, "c"), nil)
	return client(t, config)
}

func client(t *testing.T, config *tls.Config) *peers.Client {
	c := peers.NewClient(peers.ClientOptions{
		Path: peers.ShardPath, TLS: func() *tls.Config { return config },
		Worked: func() (time.Time, bool) { return time.Now().Add(-10 * time.Second), true },
	})
	t.Cleanup(c.Close)
	return c
}

func TestAskOverHTTPS(t *testing.T) {
	a := authority(t, "c")
	l := newLeader(t, a)
	c := standby(t, a, "a")
	doc, err := c.Ask(t.Context(), l.addr)
	if err != nil || doc != lockOf {
		t.Errorf("the answer is %+v, %v", doc, err)
	}
	if etags, at := c.ETags(); etags != (peers.ETags{Config: "c1", Groups: "g1"}) || time.Since(at) > time.Minute {
		t.Errorf("etags %+v of %v", etags, at)
	}
	if ago := time.Since(l.witness.Worked()); ago < 10*time.Second || ago > 40*time.Second {
		t.Errorf("L9: the leader heard of a probe %v ago, it was 10s ago", ago)
	}
	l.leads.Store(false)
	if _, err := c.Ask(t.Context(), l.addr); !errors.Is(err, lease.ErrNotLeader) {
		t.Errorf("a server that does not lead: %v", err)
	}
	if etags, at := c.ETags(); etags != (peers.ETags{}) || !at.IsZero() {
		t.Errorf("an answer that was none leaves etags %+v", etags)
	}
	l.stop()
	if _, err := c.Ask(t.Context(), l.addr); err == nil {
		t.Error("a server that is gone answers")
	}
}

func TestOnlyTheShardsOwnServerIsBelieved(t *testing.T) {
	a := authority(t, "c")
	l := newLeader(t, a)
	defer l.stop()
	var unknown x509.UnknownAuthorityError
	if _, err := standby(t, authority(t, "c"), "a").Ask(t.Context(), l.addr); !errors.As(err, &unknown) {
		t.Errorf("a server of another authority: %v", err)
	}
	var name x509.HostnameError
	if _, err := standby(t, a, "b").Ask(t.Context(), l.addr); !errors.As(err, &name) {
		t.Errorf("a server of another shard: %v", err)
	}
	c := peers.NewClient(peers.ClientOptions{Path: peers.ShardPath, TLS: func() *tls.Config { return nil }})
	if _, err := c.Ask(t.Context(), l.addr); !errors.Is(err, lease.ErrCannotAsk) {
		t.Errorf("without the authority's certificate: %v", err)
	}
}

func TestL9_S12_OnlyAServerOfTheShardBearsWitnessAndIsToldVersions(t *testing.T) {
	a := authority(t, "c")
	ask := func(config *tls.Config, told peers.ETags) time.Time {
		l := newLeader(t, a)
		defer l.stop()
		config.ServerName, config.RootCAs, config.MinVersion = identity.ServerName("a", "c"), a.CA().Pool(), tls.VersionTLS13
		c := client(t, config)
		defer c.Close()
		if doc, err := c.Ask(t.Context(), l.addr); err != nil || doc.Term != lockOf.Term {
			t.Errorf("anybody may ask: %+v, %v", doc, err)
		}
		if etags, _ := c.ETags(); etags != told {
			t.Errorf("S12: told %+v, want %+v", etags, told)
		}
		return l.witness.Worked()
	}
	with := func(cert *pki.ServerCert) *tls.Config {
		return &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert.GetCertificate(nil) }}
	}
	for name, config := range map[string]*tls.Config{
		"an agent":                    {Certificates: []tls.Certificate{agent(t, a)}},
		"without a certificate":       {},
		"a server of another shard":   with(certificate(t, a, "b", "two")),
		"a server of another cluster": with(certificate(t, authority(t, "c"), "a", "two")),
	} {
		if at := ask(config, peers.ETags{}); !at.IsZero() {
			t.Errorf("%s is believed", name)
		}
	}
	if ask(with(certificate(t, a, "a", "two")), peers.ETags{Config: "c1", Groups: "g1"}).IsZero() {
		t.Error("a server of the shard is not believed")
	}
}

func TestHandler(t *testing.T) {
	leads := func() (lease.Document, bool) { return lockOf, true }
	for _, tt := range []struct {
		name, method, path string
		opts               peers.HandlerOptions
		code               int
	}{
		{"the shard's leader", "GET", peers.ShardPath, peers.HandlerOptions{Shard: leads}, 200},
		{"a script that only wants the status", "HEAD", peers.ShardPath, peers.HandlerOptions{Shard: leads}, 200},
		{"the cluster's leader", "GET", peers.ClusterPath, peers.HandlerOptions{Cluster: leads}, 200},
		{"one lock is not the other", "GET", peers.ClusterPath, peers.HandlerOptions{Shard: leads}, 503},
		{"a standby", "GET", peers.ShardPath, peers.HandlerOptions{}, 503},
		{"nothing else is there", "GET", "/", peers.HandlerOptions{Shard: leads}, 404},
		{"nothing can be changed", "POST", peers.ShardPath, peers.HandlerOptions{Shard: leads}, 405},
	} {
		w := httptest.NewRecorder()
		peers.Handler(tt.opts).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, http.NoBody))
		if w.Code != tt.code {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
		if w.Code != 200 {
			continue
		}
		var answer peers.Answer
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Document != lockOf {
			t.Errorf("%s: %s, %v", tt.name, w.Body, err)
		}
	}
}

// agent is the certificate of a machine.
func agent(t *testing.T, a *pki.Authority) tls.Certificate {
	t.Helper()
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.IssueAgent(pki.AgentRequest{
		PublicKey: key.Public().(ed25519.PublicKey), Shard: "a", Tenant: "default", ID: identity.ID("knc068a3cp3thz5z2mv1gejwftabc"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert.Leaf.Raw}, PrivateKey: key}
}
