package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
)

// task is what a process of clients is told: whom to connect to, and as whom.
type task struct {
	Addr   string
	Root   []byte // DER
	Agents []idleAgent
}

type idleAgent struct {
	ID          string
	Certificate []byte // DER
	Key         []byte // Ed25519
	Hash        string // of what it runs
}

// serveIdle is the process of a server: it prints by how many bytes its memory
// has grown with all clients connected. A few that come before show it all that it
// makes once, however many there are.
func serveIdle(ctx context.Context, kind string) error {
	nursery := newNursery()
	w, err := newWorld(ctx, drivertest.Options{OnCreate: nursery.boot})
	if err != nil {
		return err
	}
	addr, err := w.serveKind(ctx, kind)
	if err != nil {
		return err
	}
	first, err := nursery.enrol(ctx, w, "first", firstAgents)
	if err != nil {
		return err
	}
	var agents []*agent
	if kind != serverOurs { // the peers know nothing of their clients
		if agents, err = nursery.enrol(ctx, w, "web", idleAgents); err != nil {
			return err
		}
	}
	firstClients, err := startClients(ctx, kind, w.taskFor(addr, first))
	if err != nil {
		return err
	}
	before := inUse()
	if kind == serverOurs {
		if agents, err = nursery.enrol(ctx, w, "web", idleAgents); err != nil {
			return err
		}
	}
	clients, err := startClients(ctx, kind, w.taskFor(addr, agents))
	if err != nil {
		return err
	}
	clear(agents) // they are not the server's
	time.Sleep(settling)
	grown := inUse() - before
	if kind == serverOurs {
		standIns, err := w.standIns(ctx, "web")
		if err != nil {
			return err
		}
		grown -= standIns
	}
	return errors.Join(json.NewEncoder(os.Stdout).Encode(grown), firstClients.end(), clients.end(), w.close())
}

// enrol raises a group and registers its agents.
func (n *nursery) enrol(ctx context.Context, w *world, group string, size int) ([]*agent, error) {
	agents, err := n.raise(ctx, w, group, size)
	if err != nil {
		return nil, err
	}
	return agents, w.registerAll(ctx, agents)
}

// standIns is how much memory store and cloud take for a group, which is not the
// server's: by how much it grows when a second store and a second cloud are made with
// the same objects and machines.
func (w *world) standIns(ctx context.Context, group string) (float64, error) {
	before := inUse()
	store, cloud := memory.New(memory.Options{}), drivertest.New(drivertest.Options{})
	for _, call := range w.cloud.Calls() {
		if call.Op != drivertest.OpCreate || call.Request.Group != group {
			continue
		}
		if _, err := cloud.Create(ctx, *call.Request); err != nil {
			return 0, err
		}
		key := layout.InstanceKey(shardName, tenantName, call.ID)
		object, err := w.store.Get(ctx, key)
		if err == nil {
			_, err = store.PutIfAbsent(ctx, key, object.Data)
		}
		if err != nil {
			return 0, err
		}
	}
	grown := inUse() - before
	runtime.KeepAlive(store)
	runtime.KeepAlive(cloud)
	return grown, nil
}

// serveKind starts a server of one kind and returns its address.
func (w *world) serveKind(ctx context.Context, kind string) (string, error) {
	if kind == serverOurs {
		addr, _, err := w.agentListener()
		return addr, err
	}
	cert, err := w.serverCert()
	if err != nil {
		return "", err
	}
	conf := pki.MutualTLS(cert, w.roots, nil)
	if kind == serverGRPC {
		return serveOn(newEchoServer(conf))
	}
	return serveOn(bareServer{ctx, conf})
}

// bareServer shakes hands with everybody and waits for each to say something.
type bareServer struct {
	ctx  context.Context //nolint:containedctx // of the process: Serve has none
	conf *tls.Config
}

// Serve implements server.
func (s bareServer) Serve(l net.Listener) error {
	for {
		raw, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			conn := tls.Server(raw, s.conf)
			defer func() { _ = conn.Close() }() // nobody is left to tell
			if conn.HandshakeContext(s.ctx) != nil {
				return
			}
			if _, err := conn.Write([]byte{0}); err == nil {
				_, _ = io.Copy(io.Discard, conn)
			}
		}()
	}
}

func (w *world) taskFor(addr string, agents []*agent) task {
	t := task{Addr: addr, Root: w.keys.Authority.CA().Certificate().Raw}
	for _, a := range agents {
		t.Agents = append(t.Agents, idleAgent{ID: a.id.String(), Certificate: a.certificate.Certificate[0], Key: a.key, Hash: a.hash})
	}
	return t
}

// clients is the other process, as the server sees it.
type clients struct {
	in   io.Closer
	out  io.Reader
	wait func() error
}

// arrived returns once the clients say that all of them have got on: they write a
// byte.
func (c *clients) arrived() error {
	_, err := io.ReadFull(c.out, make([]byte, 1))
	return err
}

// startClients returns once all are connected. They stay until end.
func startClients(ctx context.Context, kind string, t task) (*clients, error) {
	cmd, err := child(ctx, "clients", kind)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &clients{in: in, out: out, wait: cmd.Wait}
	if err := json.NewEncoder(in).Encode(t); err != nil {
		return nil, errors.Join(fmt.Errorf("clients: %w", err), c.end())
	}
	if err := c.arrived(); err != nil {
		return nil, errors.Join(fmt.Errorf("clients do not connect: %w", err), c.end())
	}
	return c, nil
}

// end lets the clients go.
func (c *clients) end() error { return errors.Join(c.in.Close(), c.wait()) }

// connectIdle is the process of the clients: it reads its task, connects everybody,
// says so with one byte, and stays until its input ends.
func connectIdle(ctx context.Context, kind string) error {
	var t task
	in := json.NewDecoder(os.Stdin)
	if err := in.Decode(&t); err != nil {
		return err
	}
	root, err := x509.ParseCertificate(t.Root)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	var g errgroup.Group
	g.SetLimit(16)
	all := &tally{clients: int64(len(t.Agents))}
	for _, a := range t.Agents {
		g.Go(func() error { return a.connect(ctx, kind, t.Addr, roots, all) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if _, err := os.Stdout.Write([]byte{1}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// connect leaves one idle connection open, with a stream where the server has those.
func (a idleAgent) connect(ctx context.Context, kind, addr string, roots *x509.CertPool, all *tally) error {
	cert := tls.Certificate{Certificate: [][]byte{a.Certificate}, PrivateKey: ed25519.PrivateKey(a.Key)}
	if kind == serverTLS {
		return connectBare(ctx, addr, roots, cert)
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(clientTLS(roots, &cert)))
	if err != nil {
		return err
	}
	id, err := identity.ParseID(a.ID)
	if err != nil {
		return err
	}
	switch kind {
	case serverCrowd:
		return a.stay(ctx, conn, id)
	case serverBroadcast:
		return a.hear(ctx, conn, id, all)
	case serverGRPC:
		stream, err := openEcho(ctx, conn)
		if err != nil {
			return err
		}
		if err := stream.Send(reportOf(id, a.Hash)); err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	stream, err := connectAgent(ctx, conn, id)
	if err != nil {
		return err
	}
	msg := reportOf(id, a.Hash)
	msg.GetReport().Count = 1
	if kind == serverPush {
		msg.GetReport().Files = nil
	}
	if err := stream.Send(msg); err != nil {
		return err
	}
	if kind == serverPush {
		go a.listen(stream, id, all, stream.Send)
	} else {
		go drain(stream)
	}
	return nil
}

func connectBare(ctx context.Context, addr string, roots *x509.CertPool, cert tls.Certificate) error {
	dialer := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"},
		ServerName: identity.ServerName(shardName, clusterName),
	}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	if _, err = conn.Read(make([]byte, 1)); err != nil { // the server accepts the certificate
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }() // keeps it open
	return nil
}
