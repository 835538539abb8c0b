package pki

import (
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// retryPause keeps a server whose certificate cannot be renewed from trying
// again in every handshake.
const retryPause = time.Minute

// ServerCertOptions say whom a [ServerCert] is for.
type ServerCertOptions struct {
	ServerID string
	Shard    string
	DNS      []string // names beside those that every server of the shard has
	IPs      []netip.Addr
	TTL      time.Duration    // 0 means DefaultServerTTL
	Now      func() time.Time // nil means time.Now
	Rand     io.Reader        // nil means crypto/rand.Reader
	Log      *slog.Logger     // for renewals that went wrong; nil means slog.Default()
}

// ServerCert is the certificate of a server's listeners. Its key is made here,
// stays in memory and changes with each certificate. At two thirds of its life,
// and when the server's addresses change, the next handshake gets a new one.
type ServerCert struct {
	authority *Authority
	opts      ServerCertOptions

	mu      sync.Mutex
	current *tls.Certificate
	renewAt time.Time // from here on current is old; zero at once
}

// NewServerCert returns a holder with a first certificate.
func NewServerCert(authority *Authority, opts ServerCertOptions) (*ServerCert, error) {
	opts.Now, opts.Rand = orNow(opts.Now), orRand(opts.Rand)
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	s := &ServerCert{authority: authority, opts: opts}
	if err := s.renew(); err != nil {
		return nil, err
	}
	return s, nil
}

// SetAddresses replaces the names and addresses that the next certificate has.
// If they differ from before, that is the one of the next handshake.
func (s *ServerCert) SetAddresses(dns []string, addrs []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(s.opts.DNS, dns) && slices.Equal(s.opts.IPs, addrs) {
		return
	}
	s.opts.DNS, s.opts.IPs = slices.Clone(dns), slices.Clone(addrs)
	s.renewAt = time.Time{}
}

// GetCertificate is for [tls.Config]: it returns the certificate, a new one if
// it is time. While none can be issued the old one is served to its end.
func (s *ServerCert) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	if now.Before(s.renewAt) {
		return s.current, nil
	}
	err := s.renew()
	if err == nil {
		return s.current, nil
	}
	if !now.Before(s.current.Leaf.NotAfter) {
		return nil, err
	}
	s.renewAt = now.Add(retryPause)
	s.opts.Log.Warn("server certificate not renewed", "error", err, "not_after", s.current.Leaf.NotAfter)
	return s.current, nil
}

// renew must be called with mu held, or before s is shared.
func (s *ServerCert) renew() error {
	key, err := NewPrivateKey(s.opts.Rand)
	if err != nil {
		return fmt.Errorf("server certificate: %w", err)
	}
	issued, err := s.authority.IssueServer(ServerRequest{
		PublicKey: key.Public().(ed25519.PublicKey), ServerID: s.opts.ServerID, Shard: s.opts.Shard,
		DNS: s.opts.DNS, IPs: s.opts.IPs, TTL: s.opts.TTL,
	})
	if err != nil {
		return fmt.Errorf("server certificate: %w", err)
	}
	s.current = &tls.Certificate{Certificate: [][]byte{issued.Leaf.Raw}, PrivateKey: key, Leaf: issued.Leaf}
	now := s.opts.Now()
	s.renewAt = now.Add(issued.NotAfter.Sub(now) * 2 / 3)
	return nil
}
