package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
)

// P1: agent registrations per second.
//
// Ours: so many machines of one new group register at once, each on a connection
// of its own: TCP, TLS 1.3, one gRPC call, and the close. The server checks nonce
// and proof, issues the certificate, writes the instance's record so that the nonce
// is used for good, and changes the row of the cache; the group is reconciled
// meanwhile. The store is in memory; in the second row each write to it takes 20 ms.
//
// Floor: what cannot be left out, alone and one after the other: a handshake in
// which the server shows its certificate, both ends; the check of the nonce; the
// issue of the certificate. Its rate is 1 ÷ the sum of the three. One thing at a time
// leaves cores idle that many registrations use, and so a ratio above 1 is possible.
//
// Goal: 0.60 of the floor's rate, 0.35 with the slow store.
//
// A round is as large as what the listener admits at once. More than that it
// spaces out on purpose (500 handshakes a second), which is a rule of its own and
// no cost. Rounds of this size are short, so there are four times as many.
const (
	shortRounds = 4
	newcomers   = 100
	slowWrite   = 20 * time.Millisecond
)

func measureRegistration(ctx context.Context, env Env) (rows []Row, err error) {
	scene, err := newRegistrationScene(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scene.close()) }()
	least, err := interleave(ctx, shortRounds*env.Rounds,
		scene.floor,
		func(ctx context.Context) (float64, error) { return scene.ours(ctx, 0) },
		func(ctx context.Context) (float64, error) { return scene.ours(ctx, slowWrite) },
	)
	if err != nil {
		return nil, err
	}
	row := Row{Unit: "1/s", Floor: 1 / least[0], Against: "server-auth handshake + token check + issue, alone"}
	fast, slow := row, row
	fast.Name, fast.Ours, fast.Goal = "registrations, store in memory", 1/least[1], AtLeast(0.60)
	slow.Name, slow.Ours, slow.Goal = "registrations, store writes of 20 ms", 1/least[2], AtLeast(0.35)
	return []Row{fast, slow}, nil
}

type registrationScene struct {
	w       *world
	nursery *nursery
	addr    string
	stop    func()
	groups  int // made so far
}

func newRegistrationScene(ctx context.Context) (*registrationScene, error) {
	s := &registrationScene{nursery: newNursery()}
	var err error
	if s.w, err = newWorld(ctx, drivertest.Options{OnCreate: s.nursery.boot}); err != nil {
		return nil, err
	}
	if s.addr, s.stop, err = s.w.registrationListener(); err != nil {
		return nil, errors.Join(err, s.w.close())
	}
	return s, nil
}

func (s *registrationScene) close() error {
	s.stop()
	return s.w.close()
}

// ours returns the seconds that one registration took, of those of a group.
func (s *registrationScene) ours(ctx context.Context, write time.Duration) (float64, error) {
	s.groups++
	agents, err := s.nursery.raise(ctx, s.w, fmt.Sprintf("round-%d", s.groups), newcomers)
	if err != nil {
		return 0, err
	}
	s.w.store.SetFaults(slowWrites(write))
	defer s.w.store.SetFaults(nil)
	time.Sleep(300 * time.Millisecond) // the listener's bucket fills
	started := time.Now()
	var g errgroup.Group
	for _, a := range agents {
		g.Go(func() error {
			return a.register(ctx, s.addr, grpc.WithTransportCredentials(clientTLS(s.w.roots, nil)))
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return time.Since(started).Seconds() / newcomers, nil
}

// slowWrites makes every write to a store take so long.
func slowWrites(latency time.Duration) memory.Faults {
	return func(c memory.Call) memory.Fault {
		if c.Op == memory.OpPut || c.Op == memory.OpDelete {
			return memory.Fault{Latency: latency}
		}
		return memory.Fault{}
	}
}

// floor returns the seconds that the unavoidable part of one registration takes.
func (s *registrationScene) floor(ctx context.Context) (float64, error) {
	handshake, err := s.handshakes(ctx)
	if err != nil {
		return 0, err
	}
	paper, err := s.paperwork()
	return handshake + paper, err
}

func (s *registrationScene) handshakes(ctx context.Context) (float64, error) {
	cert, err := s.w.serverCert()
	if err != nil {
		return 0, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	go greetEach(ctx, l, pki.ServerTLS(cert))
	conf := &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: s.w.roots, NextProtos: []string{"h2"},
		ServerName: identity.ServerName(shardName, clusterName),
	}
	dialer := tls.Dialer{Config: conf}
	started := time.Now()
	for range newcomers {
		conn, err := dialer.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return 0, err
		}
		_, err = conn.Read(make([]byte, 1)) // the server is done as well
		_ = conn.Close()
		if err != nil {
			return 0, fmt.Errorf("handshake: %w", err)
		}
	}
	return time.Since(started).Seconds() / newcomers, nil
}

// greetEach shakes hands with everybody, one after the other, and sends a byte.
func greetEach(ctx context.Context, l net.Listener, conf *tls.Config) {
	for {
		raw, err := l.Accept()
		if err != nil {
			return
		}
		conn := tls.Server(raw, conf)
		if conn.HandshakeContext(ctx) == nil {
			_, _ = conn.Write([]byte{0})
		}
		_ = conn.Close()
	}
}

// paperwork returns the seconds of one token check and one issue.
func (s *registrationScene) paperwork() (float64, error) {
	now := time.Now()
	id, err := identity.NewID("vmx")
	if err != nil {
		return 0, err
	}
	token, err := s.w.keys.Nonces.Sign(identity.NonceClaims{
		Kind: identity.NonceAgent, Subject: id.String(), ClusterID: clusterName, Tenant: tenantName, Shard: shardName,
		Group: "floor", ConfigHash: "0", IssuedAt: now.Unix(), ExpiresAt: now.Add(time.Hour).Unix(),
	})
	if err != nil {
		return 0, err
	}
	a, err := newAgent(id, token)
	if err != nil {
		return 0, err
	}
	key, err := pki.ParsePublicKey(a.request.PublicKeyPem)
	if err != nil {
		return 0, err
	}
	started := time.Now()
	for range newcomers {
		if _, err := s.w.keys.Verifier.Verify(token, now); err != nil {
			return 0, err
		}
		if _, err := s.w.keys.Authority.IssueAgent(pki.AgentRequest{
			PublicKey: key, ID: id, Tenant: tenantName, Shard: shardName,
		}); err != nil {
			return 0, err
		}
	}
	return time.Since(started).Seconds() / newcomers, nil
}
