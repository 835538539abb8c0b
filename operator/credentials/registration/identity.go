package registration

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Identity is who the operator is and whom it trusts, at this moment. Connections ask it
// at each handshake, so what is renewed or trusted anew counts from the next one on. It is
// safe for concurrent use.
type Identity struct {
	mu      sync.Mutex
	current credential
	roots   *x509.CertPool
}

// NewIdentity returns an identity without a certificate that trusts the authorities in a
// bundle, PEM.
func NewIdentity(bundle []byte) (*Identity, error) {
	id := &Identity{}
	if err := id.Trust(bundle); err != nil {
		return nil, err
	}
	return id, nil
}

// Trust replaces the authorities that servers' certificates must come from. A bundle that
// holds none is an error and changes nothing.
func (i *Identity) Trust(bundle []byte) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return errors.New("the CA bundle holds no certificate; put the cluster's ca.crt into it")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.roots = roots
	return nil
}

// ClientTLS returns the settings of a connection to a server that proves the name: TLS 1.3
// alone. The certificate is asked for during the handshake.
func (i *Identity) ClientTLS(serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    i.trusted(),
		ServerName: serverName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			i.mu.Lock()
			defer i.mu.Unlock()
			if i.current.leaf == nil {
				return &tls.Certificate{}, nil // none: enough for registration
			}
			return i.current.certificate(), nil
		},
	}
}

// Validity returns from when until when the certificate is good, zero times without one.
func (i *Identity) Validity() (from, until time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current.leaf == nil {
		return time.Time{}, time.Time{}
	}
	return i.current.leaf.NotBefore, i.current.leaf.NotAfter
}

// String says that there is an identity and nothing of it.
func (i *Identity) String() string {
	_, until := i.Validity()
	return fmt.Sprintf("operator's identity until %s", until.UTC().Format(time.RFC3339))
}

func (i *Identity) trusted() *x509.CertPool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.roots
}

func (i *Identity) get() credential {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current
}

func (i *Identity) set(c credential) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.current = c
}

// withoutCertificate trusts the same and shows nothing, as registration needs it.
type withoutCertificate struct{ *Identity }

// ClientTLS implements shards.Credentials.
func (w withoutCertificate) ClientTLS(serverName string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: w.trusted(), ServerName: serverName}
}
