package bench

import (
	"context"
	"database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/dev"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/pki"
)

// P13: from the start of a process until it is of use.
//
// Ours: a server on empty storage - no keys, no locks, nothing but a configuration -
// until it has published the addresses at which it serves; an agent with a nonce,
// until the shard knows it as registered.
//
// Floors: a hello-world gRPC server that first makes a SQLite file with the same
// tables, and as many durable files as ours leaves in storage; a hello-world gRPC
// client, until its call has arrived at a server with the same certificate.
//
// Goal: 3 times the floor, and a quarter of a second at most.
const startBound = 250 * time.Millisecond

func measureStart(ctx context.Context, env Env) (rows []Row, err error) {
	dir, err := os.MkdirTemp("", "nstance-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := newServerStarts(ctx, env, dir)
	if err != nil {
		return nil, err
	}
	agent, err := newAgentStarts(ctx, env, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, agent.close()) }()
	least, err := interleave(ctx, env.Rounds, server.ours, server.floor, agent.ours, agent.floor)
	if err != nil {
		return nil, err
	}
	rows = []Row{
		{Name: "start of a server", Ours: least[0], Floor: least[1], Against: "hello-world server, same tables and writes"},
		{Name: "start of an agent", Ours: least[2], Floor: least[3], Against: "hello-world client"},
	}
	for i := range rows {
		r := &rows[i]
		r.Unit, r.Goal = "ms", AtMost(3)
		if r.Ours > startBound.Seconds() {
			r.Broken = fmt.Sprintf("above %v", startBound)
		}
		r.Ours, r.Floor = 1e3*r.Ours, 1e3*r.Floor
	}
	return rows, nil
}

// serverStarts starts servers, each on storage of its own.
type serverStarts struct {
	server, keeper string // programs
	dir            string
	tables         string // file with the tables of a cache
	writes         int    // files that a server has left in storage
	n              int
}

func newServerStarts(ctx context.Context, env Env, dir string) (*serverStarts, error) {
	s := &serverStarts{dir: dir}
	var err error
	if s.server, err = env.built("nstance-server-local"); err != nil {
		return nil, err
	}
	if s.keeper, err = env.build(ctx, dir, "keeper"); err != nil {
		return nil, err
	}
	if _, err := s.ours(ctx); err != nil {
		return nil, err
	}
	if s.writes, err = files(s.box("1").Dir + "/bucket"); err != nil {
		return nil, err
	}
	s.tables = filepath.Join(dir, "tables.sql")
	return s, writeTables(ctx, filepath.Join(s.box("1").Dir, "cache", "db", "nstance.db"), s.tables)
}

func (s *serverStarts) box(name string) dev.Box {
	return dev.Box{Dir: filepath.Join(s.dir, "box-"+name)}
}

// ours returns the seconds until a server on new storage serves.
func (s *serverStarts) ours(ctx context.Context) (float64, error) {
	s.n++
	box := s.box(fmt.Sprint(s.n))
	unlock, err := box.Prepare(ctx, dev.ConfigOptions{Userdata: "#!/bin/sh\n"})
	if err != nil {
		return 0, err
	}
	if err := unlock(); err != nil {
		return 0, err
	}
	flags := box.Flags()
	published := filepath.Join(box.Machines(), "leader.json")
	began := time.Now()
	p, err := start(ctx, nil, s.server, "serve", "--shard", flags.Shard, "--storage", flags.Storage,
		"--bucket", flags.Bucket, "--cachedir", flags.CacheDir, "--id", flags.ID)
	if err != nil {
		return 0, err
	}
	err = eventually(ctx, "the server's addresses", func() bool {
		_, err := os.Stat(published)
		return err == nil
	})
	return time.Since(began).Seconds(), errors.Join(err, p.end(unix.SIGTERM))
}

// floor returns the seconds until the hello-world server serves.
func (s *serverStarts) floor(ctx context.Context) (float64, error) {
	dir, err := os.MkdirTemp(s.dir, "keeper-")
	if err != nil {
		return 0, err
	}
	began := time.Now()
	p, err := start(ctx, nil, s.keeper, "-dir", dir, "-tables", s.tables, "-writes", fmt.Sprint(s.writes))
	if err != nil {
		return 0, err
	}
	_, err = p.said.ReadString('\n')
	return time.Since(began).Seconds(), errors.Join(err, p.end(unix.SIGKILL))
}

// files counts the files below a folder.
func files(dir string) (n int, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return err
	})
	return n, err
}

// writeTables writes the statements that make the tables of a SQLite file.
func writeTables(ctx context.Context, path, to string) (err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, `SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var all strings.Builder
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return err
		}
		all.WriteString(one + ";\n")
	}
	return errors.Join(rows.Err(), os.WriteFile(to, []byte(all.String()), 0o600))
}

// agentStarts starts agents of one shard, and greeters of a server beside it.
type agentStarts struct {
	*machineRoom
	agent, greeter string // programs
	addr           string // of the server that is greeted
	greeted        chan struct{}
	stop           func()
	n              int
}

func newAgentStarts(ctx context.Context, env Env, dir string) (*agentStarts, error) {
	s := &agentStarts{greeted: make(chan struct{}, 1)}
	var err error
	if s.agent, err = env.built("nstance-agent"); err != nil {
		return nil, err
	}
	if s.greeter, err = env.build(ctx, dir, "greeter"); err != nil {
		return nil, err
	}
	if s.machineRoom, err = newMachineRoom(ctx, dir, configuration); err != nil {
		return nil, err
	}
	if s.addr, s.stop, err = s.greetings(func() {
		select {
		case s.greeted <- struct{}{}:
		default:
		}
	}); err != nil {
		return nil, errors.Join(err, s.machineRoom.close())
	}
	return s, nil
}

func (s *agentStarts) close() error {
	s.stop()
	return s.machineRoom.close()
}

// ours returns the seconds until a new agent is registered.
func (s *agentStarts) ours(ctx context.Context) (float64, error) {
	s.n++
	a, env, err := s.newMachine(ctx, fmt.Sprintf("start-%d", s.n))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	p, err := start(ctx, env, s.agent)
	if err != nil {
		return 0, err
	}
	err = eventually(ctx, "a registration", func() bool { return s.registered(a.id) })
	return time.Since(began).Seconds(), errors.Join(err, p.end(unix.SIGKILL))
}

// floor returns the seconds until a new greeter has called.
func (s *agentStarts) floor(ctx context.Context) (float64, error) {
	began := time.Now()
	p, err := start(ctx, nil, s.greeter, s.greeterFlags(s.addr)...)
	if err != nil {
		return 0, err
	}
	select {
	case <-s.greeted:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return time.Since(began).Seconds(), errors.Join(err, p.end(unix.SIGKILL))
}

// machineRoom is a shard with listeners, whose machines are processes that a
// measure starts itself.
type machineRoom struct {
	w                         *world
	nursery                   *nursery
	dir                       string
	registration, connections string // addresses
	stops                     []func()
}

func newMachineRoom(ctx context.Context, dir, cfg string) (*machineRoom, error) {
	m := &machineRoom{nursery: newNursery(), dir: dir}
	var err error
	if m.w, err = (scene{cfg: cfg, cloud: drivertest.New(drivertest.Options{OnCreate: m.nursery.boot})}).begin(ctx); err != nil {
		return nil, err
	}
	var stop func()
	if m.registration, stop, err = m.w.registrationListener(); err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.stops = append(m.stops, stop)
	if m.connections, stop, err = m.w.agentListener(); err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.stops = append(m.stops, stop)
	return m, os.WriteFile(m.ca(), pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: m.w.keys.Authority.CA().Certificate().Raw,
	}), 0o600)
}

func (m *machineRoom) ca() string { return filepath.Join(m.dir, "ca.crt") }

func (m *machineRoom) close() error {
	for _, stop := range m.stops {
		stop()
	}
	return m.w.close()
}

// newMachine makes a group of one and lays out what its agent needs: the
// environment that it returns.
func (m *machineRoom) newMachine(ctx context.Context, group string) (*agent, []string, error) {
	agents, err := m.nursery.raise(ctx, m.w, group, 1)
	if err != nil {
		return nil, nil, err
	}
	a := agents[0]
	dir := filepath.Join(m.dir, a.id.String())
	for _, folder := range []string{"identity", "keys", "recv"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return nil, nil, err
		}
	}
	ca, err := os.ReadFile(m.ca())
	if err != nil {
		return nil, nil, err
	}
	nonce := []byte(a.request.RegistrationNonceJwt)
	return a, []string{
			identity.EnvInstanceID + "=" + a.id.String(), identity.EnvInstanceIPv4 + "=10.0.0.1",
			identity.EnvServerRegistrationAddr + "=" + m.registration, identity.EnvServerAgentAddr + "=" + m.connections,
			identity.EnvIdentityDir + "=" + filepath.Join(dir, "identity"), identity.EnvKeysDir + "=" + filepath.Join(dir, "keys"),
			identity.EnvRecvDir + "=" + filepath.Join(dir, "recv"),
		}, errors.Join(
			os.WriteFile(filepath.Join(dir, "identity", "ca.crt"), ca, 0o600),
			os.WriteFile(filepath.Join(dir, "identity", "nonce.jwt"), nonce, 0o600),
		)
}

// registered reports whether the shard knows an instance's agent.
func (m *machineRoom) registered(id identity.ID) bool {
	in, ok := m.w.cache.Instance(id)
	return ok && !in.RegisteredAt.IsZero()
}

// greetings starts a hello-world server with the shard's certificate, and tells of
// each call that arrives.
func (m *machineRoom) greetings(greeted func()) (addr string, stop func(), err error) {
	cert, err := m.w.serverCert()
	if err != nil {
		return "", nil, err
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(pki.ServerTLS(cert))), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			greeted()
			return handler(ctx, req)
		}))
	healthv1.RegisterHealthServer(s, health.NewServer())
	addr, err = serveOn(s)
	return addr, s.Stop, err
}

// greeterFlags are those of a client of the hello-world server.
func (m *machineRoom) greeterFlags(addr string) []string {
	return []string{"-addr", addr, "-ca", m.ca(), "-name", identity.ServerName(shardName, clusterName)}
}
