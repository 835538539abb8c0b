package sim

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/lease"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/pki"
	"nstance.dev/server/rpc"
)

// door is where a process serves operators: the real listener, behind connections that
// the network of the world delays, breaks and cuts.
type door struct {
	p        *process
	registry *operatorauth.Registry
	server   *rpc.Server
	arrivals chan net.Conn
	closed   chan struct{}
	shut     func()
	serving  sync.WaitGroup
}

// newDoor makes the registry; the shard, which asks it, is there at open.
func newDoor(p *process) *door {
	w := p.box.w
	d := &door{p: p, arrivals: make(chan net.Conn), closed: make(chan struct{})}
	d.shut = sync.OnceFunc(func() { close(d.closed) })
	d.registry = operatorauth.New(operatorauth.Options{
		Cluster: cluster, Store: storeLink{w.store, p}, Now: p.box.now, Log: w.logger.With("server", p.box.name),
		Keys: w.operatorKeys, NewID: w.newOperatorID,
		HasTenant: func(name string) bool { return w.static().Config.HasTenant(name) },
	})
	return d
}

func (w *world) newOperatorID() (identity.ID, error) { return w.newID(identity.OperatorPrefix) }

func (w *world) operatorKeys() *pki.Keys {
	return w.keys
}

// open serves until close.
func (d *door) open() {
	w, log := d.p.box.w, d.p.box.w.logger.With("server", d.p.box.name)
	cert, err := pki.NewServerCert(w.keys.Authority, pki.ServerCertOptions{ServerID: d.p.box.name, Shard: shardName, Log: log})
	if err != nil {
		panic(err) // the authority is ours
	}
	d.server = rpc.NewOperatorServer(rpc.Options{
		Cluster: cluster, ShardName: shardName, Version: "sim", Shard: d.p.shard, Operators: d.registry, Log: log, Now: d.p.box.now,
	}, pki.MutualTLS(cert, w.keys.Authority.CA().Pool(), nil))
	d.serving.Go(func() { _ = d.server.Serve(d) }) // it ends with the door
}

func (d *door) close() {
	d.shut()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	d.server.Stop(now)
	d.serving.Wait()
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.arrivals:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.shut()
	return nil
}

// Addr implements net.Listener.
func (*door) Addr() net.Addr { return &net.UnixAddr{Name: "door", Net: "unix"} }

// Dial connects to the operators' listener of a server.
func (g Ground) Dial(ctx context.Context, server string) (net.Conn, error) {
	w := g.w
	w.event("operator dials %s", server)
	b := w.boxes[server]
	if err := pause(ctx, w.net.delay("dial "+server)); err != nil {
		return nil, err
	}
	if w.net.cut(theOperators, server) || w.net.cut(server, theOperators) {
		return nil, errors.Join(errors.New("no route"), pause(ctx, patience))
	}
	p := b.running()
	if p == nil || p.door == nil {
		return nil, fmt.Errorf("%s: connection refused", server)
	}
	near, inner := net.Pipe()
	outer, far := net.Pipe()
	select {
	case p.door.arrivals <- far:
	case <-p.door.closed:
		return nil, fmt.Errorf("%s: connection refused", server)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	newWire(w, p, inner, outer)
	return near, nil
}

// wire is a connection of an operator with a process: bytes travel as messages do.
type wire struct {
	w            *world
	p            *process
	inner, outer net.Conn        // towards the client, towards the server
	ctx          context.Context //nolint:containedctx // the connection's
	cut          context.CancelFunc
}

func newWire(w *world, p *process, inner, outer net.Conn) {
	l := &wire{w: w, p: p, inner: inner, outer: outer}
	l.ctx, l.cut = context.WithCancel(w.ctx)
	what := fmt.Sprintf("wire %d with %s", w.weather.number("wire "+p.box.name), p.box.name)
	up := newFlow[[]byte](w, theOperators, p.box.name, what+" up")
	down := newFlow[[]byte](w, p.box.name, theOperators, what+" down")
	for _, do := range []func(){
		func() { l.take(inner, up) }, func() { l.give(up, outer) },
		func() { l.take(outer, down) }, func() { l.give(down, inner) },
		func() {
			select {
			case <-l.ctx.Done():
			case <-p.killed:
			case <-p.door.closed:
			}
			l.cut()
			_, _ = inner.Close(), outer.Close()
		},
	} {
		w.calls.Go(do)
	}
}

// together is how long a connection gathers what one end writes. No call takes so little, so
// that a message is what was written at one moment, however goroutines have cut it.
const together = time.Microsecond

// take sends what one end writes, until it ends or the connection breaks.
func (l *wire) take(from net.Conn, f *flow[[]byte]) {
	var (
		mu      sync.Mutex
		pending []byte
		n       int
		flushes sync.WaitGroup
	)
	flush := func() {
		defer flushes.Done()
		mu.Lock()
		defer mu.Unlock()
		data := pending
		pending = nil
		if n++; l.w.weather.hits(netBreak, f.what, n) {
			l.cut()
			return
		}
		if l.ctx.Err() == nil {
			f.send(data, false)
		}
	}
	buf := make([]byte, 32<<10)
	for {
		size, err := from.Read(buf)
		if size > 0 && l.p.may(l.ctx, f.what) == nil {
			mu.Lock()
			if len(pending) == 0 {
				flushes.Add(1)
				time.AfterFunc(together, flush)
			}
			pending = append(pending, buf[:size]...)
			mu.Unlock()
		}
		if err != nil {
			flushes.Wait()
			f.send(nil, true)
			return
		}
	}
}

// give writes what arrives at the other end.
func (l *wire) give(f *flow[[]byte], to net.Conn) {
	defer l.cut()
	for {
		data, err := f.recv(l.ctx)
		if err != nil || l.p.may(l.ctx) != nil {
			return
		}
		if _, err := to.Write(data); err != nil {
			return
		}
	}
}

// Credentials are those of one operator of tenant default.
type Credentials struct {
	w    *world
	cert tls.Certificate
}

// Register gives an operator of tenant default its identity.
func (g Ground) Register() *Credentials {
	w := g.w
	must := func(err error) {
		if err != nil {
			panic(err) // a store without faults
		}
	}
	key, err := pki.NewPrivateKey(nil)
	must(err)
	public, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	must(err)
	now := time.Now()
	nonce, err := w.keys.Nonces.Sign(identity.NonceClaims{
		Kind: identity.NonceOperator, Subject: cluster, ClusterID: cluster, Tenant: identity.DefaultTenant,
		IssuedAt: now.Unix(), NotBefore: now.Unix(), ExpiresAt: now.Add(time.Hour).Unix(), TokenID: strings.Repeat("0", 32),
	})
	must(err)
	registry := operatorauth.New(operatorauth.Options{
		Cluster: cluster, Store: w.store, Log: w.logger, Keys: w.operatorKeys, HasTenant: func(string) bool { return true }, NewID: w.newOperatorID,
		ClientTTL: func() time.Duration { return 30 * 24 * time.Hour },
	})
	registry.Lead(lease.Always(w.ctx, 1))
	res, err := registry.Register(w.ctx, &nstancev1.RegisterClientRequest{
		RegistrationNonceJwt: nonce, PublicKeyPem: public, Proof: identity.SignProof(key, nonce),
	})
	must(err)
	block, _ := pem.Decode(res.ClientCertificatePem)
	return &Credentials{w, tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}}
}

// ClientTLS returns the settings of a connection to a server that proves the name.
func (c *Credentials) ClientTLS(serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: c.w.keys.Authority.CA().Pool(), ServerName: serverName, Certificates: []tls.Certificate{c.cert},
	}
}
