package serve

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"

	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

// credentials are what this server shows to others and trusts them by.
type credentials struct {
	keys  *pki.Keys // that they were made with
	cert  *pki.ServerCert
	roots *x509.CertPool

	// For calls to the leader of the shard, which is a server of the shard, and
	// to that of the cluster, which may be any.
	toShard, toCluster *tls.Config
}

// wallet makes the credentials when the keys are there, and again when the keys
// are others.
type wallet struct {
	keys func() *pki.Keys
	make func(*pki.Keys) (*credentials, error)

	mu   sync.Mutex
	have *credentials
}

// newWallet makes the wallet of a server with an id, which is reached at the sockets.
func newWallet(keys func() *pki.Keys, id, shard string, ls *listeners, log *slog.Logger) *wallet {
	return &wallet{keys: keys, make: func(keys *pki.Keys) (*credentials, error) {
		cert, err := pki.NewServerCert(keys.Authority, pki.ServerCertOptions{
			ServerID: id, Shard: shard, IPs: ls.addresses(log), DNS: ls.names(), Log: log,
		})
		if err != nil {
			return nil, err
		}
		roots := keys.Authority.CA().Pool()
		return &credentials{
			keys: keys, cert: cert, roots: roots,
			toShard:   pki.PeerClientTLS(cert, roots, identity.ServerName(shard, keys.Authority.Cluster()), nil),
			toCluster: pki.PeerClientTLS(cert, roots, identity.AnyServerName, nil),
		}, nil
	}}
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

// tls picks the settings for asking other servers; nil while there are none.
func (w *wallet) tls(pick func(*credentials) *tls.Config) *tls.Config {
	c, err := w.get()
	if c == nil || err != nil {
		return nil // whoever serves reports the error
	}
	return pick(c)
}
