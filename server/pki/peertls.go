package pki

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// PeerServerTLS returns the settings of a listener that everybody may reach and
// where other servers say who they are: a client certificate is asked for, not
// demanded, and not verified. Who looks at it uses [IsServer].
func PeerServerTLS(cert *ServerCert) *tls.Config {
	config := ServerTLS(cert)
	config.ClientAuth = tls.RequestClientCert
	config.SessionTicketsDisabled = true
	return config
}

// PeerClientTLS returns the settings of a server that calls another one: the
// other must show a certificate of the authority with the given name, whatever
// address was dialled, and this one shows its own. A nil now means time.Now.
func PeerClientTLS(cert *ServerCert, roots *x509.CertPool, name string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: name, Time: now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert.GetCertificate(nil) },
	}
}

// IsServer reports whether the other end of a connection has proved to be the
// server with this name: by a certificate of the authority that is in time at
// now, made for clients, and carries the name.
func IsServer(state *tls.ConnectionState, roots *x509.CertPool, name string, now time.Time) bool {
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	leaf := state.PeerCertificates[0]
	chains, err := leaf.Verify(x509.VerifyOptions{
		DNSName: name, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil && VerifyClient(tls.ConnectionState{PeerCertificates: state.PeerCertificates, VerifiedChains: chains}) == nil
}
