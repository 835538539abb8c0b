package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/providers/local/dev"
)

// P8: how long a shard is without a leader.
//
// Ours: two servers, processes of their own on one directory, with a lease of five
// seconds; the leader is killed, or asked to stop; the time until the other one
// answers an operator's call. What was killed starts again and stands by.
//
// Floor: the lease, after a crash; the second that a planned stop may take.
//
// Goal: 1.2 times the lease; the second.
const (
	failoverLease = 5 * time.Second // of the development configuration
	plannedStop   = time.Second
)

func measureFailover(ctx context.Context, env Env) (rows []Row, err error) {
	p, err := newServers(ctx, env)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	least, err := interleave(ctx, env.Rounds,
		func(ctx context.Context) (float64, error) { return p.failover(ctx, unix.SIGKILL) },
		func(ctx context.Context) (float64, error) { return p.failover(ctx, unix.SIGTERM) },
	)
	if err != nil {
		return nil, err
	}
	return []Row{
		{
			Name: "leader killed, until the next call", Unit: "s", Ours: least[0], Floor: failoverLease.Seconds(),
			Against: "the lease", Goal: AtMost(1.2),
		},
		{
			Name: "leader stopped, until the next call", Unit: "s", Ours: least[1], Floor: plannedStop.Seconds(),
			Against: "the promise", Goal: AtMost(1),
		},
	}, nil
}

// servers are two of them on one box.
type servers struct {
	env     Env
	dir     string
	ids     [2]string
	running [2]*program
	leader  int
	tls     *tls.Config
}

func newServers(ctx context.Context, env Env) (*servers, error) {
	dir, err := os.MkdirTemp("", "nstance-bench-")
	if err != nil {
		return nil, err
	}
	s := &servers{env: env, dir: dir, ids: [2]string{"one", "two"}}
	if err := errors.Join(s.found(ctx), s.identify()); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.serve(ctx, 0); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.answers(ctx, ""); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, errors.Join(s.serve(ctx, 1), pause(ctx, 2*time.Second))
}

// found makes the cluster, by the command that people use for it.
func (s *servers) found(ctx context.Context) error {
	server, err := s.env.built("nstance-server-local")
	if err != nil {
		return err
	}
	dev, err := start(ctx, nil, server, "dev", "--dir", s.dir, "--size", "0", "--plain")
	if err != nil {
		return err
	}
	err = eventually(ctx, "the cluster", func() bool {
		_, err := os.Stat(filepath.Join(s.dir, "admin.json"))
		return err == nil
	})
	return errors.Join(err, dev.end(unix.SIGTERM))
}

func (s *servers) identify() error {
	folder := filepath.Join(s.dir, "identity")
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "identity.crt"), filepath.Join(folder, "identity.key"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	s.tls = &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{pair},
		ServerName: identity.ServerName(dev.Shard, dev.Cluster),
	}
	return nil
}

// serve starts one of the servers.
func (s *servers) serve(ctx context.Context, i int) (err error) {
	server, err := s.env.built("nstance-server-local")
	if err != nil {
		return err
	}
	s.running[i], err = start(ctx, nil, server, "serve", "--shard", dev.Shard, "--storage", "file",
		"--bucket", filepath.Join(s.dir, "bucket"), "--cachedir", filepath.Join(s.dir, "cache-"+s.ids[i]), "--id", s.ids[i])
	return err
}

// failover ends the leader by a signal and returns the seconds until the other
// server answers. The one that ended is the standby afterwards.
func (s *servers) failover(ctx context.Context, sig unix.Signal) (float64, error) {
	old, err := s.operatorAddr()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := s.running[s.leader].cmd.Process.Signal(sig); err != nil {
		return 0, err
	}
	if err := s.answers(ctx, old); err != nil {
		return 0, err
	}
	took := time.Since(began).Seconds()
	ended := s.leader
	if err := s.running[ended].end(unix.SIGKILL); err != nil {
		return 0, err
	}
	s.leader = 1 - s.leader
	return took, errors.Join(s.serve(ctx, ended), pause(ctx, 2*time.Second)) // it stands by
}

// answers waits until a leader at another address than the old one answers a call.
func (s *servers) answers(ctx context.Context, old string) error {
	return eventually(ctx, "a leader that answers", func() bool {
		addr, err := s.operatorAddr()
		return err == nil && addr != old && s.call(ctx, addr) == nil
	})
}

func (s *servers) call(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(s.tls)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the call is over
	_, err = nstancev1.NewOperatorServiceClient(conn).ListGroups(ctx, &emptypb.Empty{})
	return err
}

// operatorAddr is where the leader says that operators find it.
func (s *servers) operatorAddr() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "machines", "leader.json"))
	if err != nil {
		return "", err
	}
	var addrs struct{ Operator string }
	if err := json.Unmarshal(text, &addrs); err != nil {
		return "", fmt.Errorf("leader.json: %w", err)
	}
	return addrs.Operator, nil
}

func (s *servers) close() error {
	var errs []error
	for _, p := range s.running {
		if p != nil {
			errs = append(errs, p.end(unix.SIGKILL))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
