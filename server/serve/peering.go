package serve

import (
	"crypto/tls"
	"time"

	"nstance.dev/server/peers"
)

// peering is how this server asks the other servers of its cluster.
type peering struct {
	shard, cluster *peers.Client                   // ask the leaders of the two locks
	heard          func() (peers.ETags, time.Time) // the shard's last answer
	now            func() time.Time
}

// newPeering makes the clients. To the leader of the shard worked says when this
// server's own probe of the provider was answered; false: the latest was not.
func newPeering(w *wallet, worked func() (time.Time, bool)) *peering {
	pr := &peering{now: time.Now}
	pr.shard = peers.NewClient(peers.ClientOptions{
		Path: peers.ShardPath, Worked: worked,
		TLS: func() *tls.Config { return w.tls(func(c *credentials) *tls.Config { return c.toShard }) },
	})
	pr.heard = pr.shard.ETags
	pr.cluster = peers.NewClient(peers.ClientOptions{
		Path: peers.ClusterPath,
		TLS:  func() *tls.Config { return w.tls(func(c *credentials) *tls.Config { return c.toCluster }) },
	})
	return pr
}

func (pr *peering) close() {
	pr.shard.Close()
	pr.cluster.Close()
}

// freshAnswer is how old what the leader said may be to count.
const freshAnswer = 5 * time.Second

// leaderConfig is the version of the configuration that the shard's leader has in force,
// as it just told this standby; false where it can't be asked, and storage has to be.
func (pr *peering) leaderConfig() (etag string, ok bool) {
	etags, at := pr.heard()
	return etags.Config, pr.now().Sub(at) < freshAnswer
}
