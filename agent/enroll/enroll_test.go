package enroll_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/credentials"
	"nstance.dev/agent/enroll"
	"nstance.dev/agent/link"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const leader = "leader:8992"

type (
	request = nstancev1.RegisterClientRequest
	reply   = nstancev1.RegisterClientResponse
)

type machine struct {
	*agenttest.Cluster
	t    *testing.T
	id   identity.ID
	dir  *credentials.Dir
	log  bytes.Buffer
	mu   sync.Mutex
	asks []*request
}

func newMachine(t *testing.T) *machine {
	m := &machine{Cluster: agenttest.NewCluster(t), t: t, id: agenttest.NewID(t)}
	path := filepath.Join(t.TempDir(), "identity")
	m.UserData(path, m.id)
	var err error
	if m.dir, err = credentials.Open(path, 0o600, 0o700, m.id); err != nil {
		t.Fatal(err)
	}
	return m
}

// register runs the registration and returns how long it took.
func (m *machine) register(addrs ...string) (id credentials.Identity, took time.Duration, err error) {
	start := time.Now()
	id, err = enroll.Run(m.t.Context(), enroll.Options{
		Credentials: m.dir,
		Book:        link.NewBook(addrs, "", link.Registration),
		Dialer:      link.Dialer{Roots: m.Roots(), DialContext: m.DialContext},
		Host:        enroll.Host{Hostname: "web-1", IPv4: netip.MustParseAddr("10.0.0.7")},
	}, slog.New(slog.NewJSONHandler(&m.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	return id, time.Since(start), err
}

// answers returns a registration that answers with these codes in turn, then admits.
func (m *machine) answers(sequence ...codes.Code) func(*request) (*reply, error) {
	admit := m.Admit(m.id, 720*time.Hour)
	return func(r *request) (*reply, error) {
		m.mu.Lock()
		n := len(m.asks)
		m.asks = append(m.asks, r)
		m.mu.Unlock()
		if n < len(sequence) && sequence[n] != codes.OK {
			return nil, status.Error(sequence[n], "as the test says")
		}
		return admit(r)
	}
}

func TestRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.Serve(leader, agenttest.Script{Register: m.answers()})
		token, _, err := m.dir.Nonce()
		if err != nil {
			t.Fatal(err)
		}
		id, took, err := m.register(leader)
		if err != nil || took != 0 {
			t.Fatalf("after %v: %v", took, err)
		}
		if id.Peer.ID != m.id || id.Peer.Shard != agenttest.Shard {
			t.Errorf("identity %+v", id.Peer)
		}
		ask := m.asks[0]
		if ask.GetRegistrationNonceJwt() != token || ask.GetHostname() != "web-1" || ask.GetPrivateIpv4() != "10.0.0.7" || ask.GetPrivateIpv6() != "" {
			t.Errorf("request for %q at %q, %q", ask.GetHostname(), ask.GetPrivateIpv4(), ask.GetPrivateIpv6())
		}
		block, _ := pem.Decode(ask.GetPublicKeyPem())
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if public, ok := key.(ed25519.PublicKey); !ok || !ed25519.Verify(public, []byte(token), ask.GetProof()) {
			t.Error("the proof is not the key's signature over the nonce")
		}
		if _, _, err := m.dir.Nonce(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("nonce after registration: error %v, want %v", err, fs.ErrNotExist)
		}
		if hash, err := m.dir.ConfigHash(); hash != agenttest.Hash || err != nil {
			t.Errorf("configuration hash %q, %v", hash, err)
		}
	})
}

func TestS9_EveryAttemptHasTheSameKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.Serve(leader, agenttest.Script{Register: m.answers(codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal)})
		_, took, err := m.register(leader)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.asks) != 5 || took > 4*time.Second {
			t.Errorf("%d attempts in %v, want 5 in quick succession", len(m.asks), took)
		}
		for _, ask := range m.asks {
			if !bytes.Equal(ask.GetPublicKeyPem(), m.asks[0].GetPublicKeyPem()) {
				t.Error("another attempt had another key")
			}
		}
	})
}

func TestAnswersThatNoAttemptCanChange(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.PermissionDenied, codes.AlreadyExists, codes.Unauthenticated} {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				m.Serve(leader, agenttest.Script{Register: m.answers(code)})
				if _, _, err := m.register(leader); !errors.Is(err, enroll.ErrRefused) || len(m.asks) != 1 {
					t.Errorf("error %v after %d attempts, want %v after 1", err, len(m.asks), enroll.ErrRefused)
				}
			})
		})
	}
}

func TestFinal(t *testing.T) {
	final := map[codes.Code]bool{
		codes.InvalidArgument: true, codes.PermissionDenied: true, codes.AlreadyExists: true, codes.Unauthenticated: true,
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if got := enroll.Final(status.Error(code, "")); got != final[code] {
			t.Errorf("%v: final %t, want %t", code, got, final[code])
		}
	}
	if enroll.Final(errors.New("connection refused")) {
		t.Error("an error of the network is final")
	}
}

func TestNobodyAnswersDuringTheNoncesLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		_, took, err := m.register(leader)
		if !errors.Is(err, enroll.ErrNonceExpired) || took < 4*time.Minute || took > 5*time.Minute+30*time.Second {
			t.Errorf("error %v after %v, want %v after five minutes", err, took, enroll.ErrNonceExpired)
		}
		if n := len(m.Dials()); n < 10 || n > 40 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestF33_AWrongClockDoesNotShortenTheNoncesLife(t *testing.T) {
	for _, wrong := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		t.Run(wrong.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				now := func() time.Time { return time.Now().Add(wrong) }
				m.Serve(leader, agenttest.Script{Register: m.answers(codes.Unavailable)})
				_, err := enroll.Run(t.Context(), enroll.Options{
					Credentials: m.dir, Book: link.NewBook([]string{leader}, "", link.Registration),
					Dialer: link.Dialer{Roots: m.Roots(), DialContext: m.DialContext}, Now: now,
				}, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAStandbyNamesTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.Serve("standby:8992", agenttest.Script{Leader: leader})
		m.Serve(leader, agenttest.Script{Register: m.answers()})
		if _, took, err := m.register("nowhere:1", "standby:8992"); err != nil || took != 0 {
			t.Errorf("error %v after %v", err, took)
		}
	})
}

func TestTheNonceIsShownToNoStranger(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(m *machine, s agenttest.Script) string
	}{
		{"a server of another shard", func(m *machine, s agenttest.Script) string {
			s.Shard = "other"
			m.Serve(leader, s)
			return leader
		}},
		{"a server of another authority", func(m *machine, s agenttest.Script) string {
			other := agenttest.NewCluster(m.t)
			other.Serve(leader, s)
			m.Cluster = other
			return leader
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				roots := m.Roots()
				addr := tt.serve(m, agenttest.Script{Register: m.answers()})
				_, err := enroll.Run(t.Context(), enroll.Options{
					Credentials: m.dir, Book: link.NewBook([]string{addr}, "", link.Registration),
					Dialer: link.Dialer{Roots: roots, DialContext: m.DialContext},
				}, slog.New(slog.DiscardHandler))
				if !errors.Is(err, enroll.ErrNonceExpired) || len(m.asks) != 0 {
					t.Errorf("error %v, and the server saw %d requests", err, len(m.asks))
				}
			})
		})
	}
}

func TestANonceThatIsNotOursIsRefusedHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		path := filepath.Join(t.TempDir(), "identity")
		m.UserData(path, agenttest.NewID(t))
		var err error
		if m.dir, err = credentials.Open(path, 0o600, 0o700, m.id); err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.register(leader); !errors.Is(err, enroll.ErrRefused) || len(m.Dials()) != 0 {
			t.Errorf("error %v after %d dials", err, len(m.Dials()))
		}
	})
}

func TestRegistrationEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := enroll.Run(ctx, enroll.Options{
			Credentials: m.dir, Book: link.NewBook([]string{leader}, "", link.Registration),
			Dialer: link.Dialer{Roots: m.Roots(), DialContext: m.DialContext},
		}, slog.New(slog.DiscardHandler))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestS14_TheNonceIsInNoLogAndNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		token, _, err := m.dir.Nonce()
		if err != nil {
			t.Fatal(err)
		}
		m.Serve(leader, agenttest.Script{Register: m.answers(codes.Unavailable, codes.Unavailable, codes.PermissionDenied)})
		_, _, err = m.register(leader)
		if err == nil || bytes.Contains([]byte(err.Error()), []byte(token)) || bytes.Contains(m.log.Bytes(), []byte(token)) {
			t.Errorf("error %v, log %s", err, m.log.Bytes())
		}
	})
}

func TestDetect(t *testing.T) {
	given := enroll.Host{Hostname: "web-1", IPv4: netip.MustParseAddr("10.0.0.7"), IPv6: netip.MustParseAddr("fd00::7")}
	if got := enroll.Detect(given); got != given {
		t.Errorf("what was given became %+v", got)
	}
	found := enroll.Detect(enroll.Host{})
	if found.Hostname != "" && !identity.ValidHostname(found.Hostname) {
		t.Errorf("host name %q", found.Hostname)
	}
	if found.IPv4.IsValid() && !found.IPv4.Is4() || found.IPv6.IsValid() && !found.IPv6.Is6() {
		t.Errorf("addresses %v, %v", found.IPv4, found.IPv6)
	}
}
