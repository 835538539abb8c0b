package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/lease"
	"nstance.dev/server/peers"
	"nstance.dev/server/pki"
	"nstance.dev/server/shard"
)

// peering is this server's part among the servers of its cluster: what it asks
// them and what it learns from it.
type peering struct {
	shard, cluster *peers.Client // ask the leaders of the two locks
	witness        peers.Witness // what standbys of the shard say of the provider
	watch          *providerWatch
	heard          func() (peers.ETags, time.Time) // the shard's last answer
	now            func() time.Time
}

func (p *process) newPeering() *peering {
	pr := &peering{now: time.Now}
	pr.watch = &providerWatch{
		lease: p.static.Config.Server.ShardElection.LeaderTimeout.Std(), elector: p.shardLock, shard: p.shard,
		witness: &pr.witness, get: p.drv.Get, timeout: p.static.Config.Server.RequestTimeout.Std(), log: p.log, now: pr.now,
	}
	pr.shard = peers.NewClient(peers.ClientOptions{
		Path: peers.ShardPath, Worked: pr.watch.lastWorked,
		TLS: func() *tls.Config { return p.peerTLS(func(c *credentials) *tls.Config { return c.toShard }) },
	})
	pr.heard = pr.shard.ETags
	pr.cluster = peers.NewClient(peers.ClientOptions{
		Path: peers.ClusterPath,
		TLS:  func() *tls.Config { return p.peerTLS(func(c *credentials) *tls.Config { return c.toCluster }) },
	})
	return pr
}

func (pr *peering) close() {
	pr.shard.Close()
	pr.cluster.Close()
}

// peerTLS picks the settings for asking other servers; nil while there are none.
func (p *process) peerTLS(pick func(*credentials) *tls.Config) *tls.Config {
	c, err := p.credentials.get()
	if c == nil || err != nil {
		return nil // whoever serves reports the error
	}
	return pick(c)
}

// askShard asks the server at addr whether it leads the shard.
func (p *process) askShard(ctx context.Context, addr string) (lease.Document, error) {
	return p.peering.shard.Ask(ctx, addr)
}

// askCluster asks the server at addr whether it leads the cluster.
func (p *process) askCluster(ctx context.Context, addr string) (lease.Document, error) {
	return p.peering.cluster.Ask(ctx, addr)
}

// watchProvider watches for as long as there is a lock that could be given up.
func (p *process) watchProvider(ctx context.Context) error {
	if p.shardLock.elector == nil {
		return nil
	}
	return p.peering.watch.run(ctx)
}

// serveElection tells other servers and scripts whether this one leads, from the
// moment the cluster has keys. It goes on while the locks are released.
func (p *process) serveElection(ctx, tail context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.keys.ready:
	}
	c, err := p.credentials.get()
	if err != nil {
		return err
	}
	name := identity.ServerName(p.opts.Shard, p.static.Config.Server.ClusterID)
	h := peers.Handler(peers.HandlerOptions{
		Shard: p.shardLock.held, Cluster: p.cluster.held, ETags: p.etags, Witness: &p.peering.witness,
		Standby: func(r *http.Request) bool { return pki.IsServer(r.TLS, c.roots, name, p.peering.now()) },
	})
	return peers.Serve(tail, p.ls.election, p.budget.Election, pki.PeerServerTLS(c.cert), h, p.log)
}

// etags are the versions in force here.
func (p *process) etags() peers.ETags {
	etags := peers.ETags{Config: p.shard.Static().ETag}
	if reign, err := p.shard.Reign(); err == nil {
		etags.Groups = reign.GroupsETag()
	}
	return etags
}

// freshAnswer is how old what the leader said may be to count.
const freshAnswer = 5 * time.Second

// leaderETags are the versions that the shard's leader has in force, as it just
// told this standby; false where it can't be asked, and storage has to be. A nil
// peering asks nobody.
func (pr *peering) leaderETags() (peers.ETags, bool) {
	if pr == nil {
		return peers.ETags{}, false
	}
	etags, at := pr.heard()
	return etags, pr.now().Sub(at) < freshAnswer
}

// held is the document under which this server leads now.
func (e *election) held() (lease.Document, bool) {
	if e.elector == nil {
		return lease.Document{}, false
	}
	return e.elector.Held()
}

// resign gives the lock, which there is, up for a while.
func (e *election) resign(ctx context.Context, stayOut time.Duration) error {
	return e.elector.Resign(ctx, stayOut)
}

// credentials are what this server shows to others and trusts them by.
type credentials struct {
	keys  *shard.Keys // that they were made with
	cert  *pki.ServerCert
	roots *x509.CertPool

	// For calls to the leader of the shard, which is a server of the shard, and
	// to that of the cluster, which may be any.
	toShard, toCluster *tls.Config
}

// wallet makes the credentials when the keys are there, and again when the keys
// are others.
type wallet struct {
	keys func() *shard.Keys
	make func(*shard.Keys) (*credentials, error)

	mu   sync.Mutex
	have *credentials
}

// get returns nil while there are no keys.
func (w *wallet) get() (*credentials, error) {
	keys := w.keys()
	w.mu.Lock()
	defer w.mu.Unlock()
	if keys == nil || w.have != nil && w.have.keys == keys {
		return w.have, nil
	}
	made, err := w.make(keys)
	if err != nil {
		return nil, err
	}
	w.have = made
	return made, nil
}

func (p *process) makeCredentials(keys *shard.Keys) (*credentials, error) {
	cert, err := pki.NewServerCert(keys.Authority, pki.ServerCertOptions{
		ServerID: p.opts.ID, Shard: p.opts.Shard, IPs: p.addresses(), DNS: p.hostnames(), Log: p.log,
	})
	if err != nil {
		return nil, err
	}
	roots := keys.Authority.CA().Pool()
	return &credentials{
		keys: keys, cert: cert, roots: roots,
		toShard:   pki.PeerClientTLS(cert, roots, identity.ServerName(p.opts.Shard, keys.Authority.Cluster()), nil),
		toCluster: pki.PeerClientTLS(cert, roots, identity.AnyServerName, nil),
	}, nil
}
