package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrClientCertificate is about a client certificate that chains to the
// authority and still opens no connection.
var ErrClientCertificate = errors.New("client certificate refused")

// ServerTLS returns the settings of a listener that everybody may reach: the
// server shows its certificate, the client none. TLS 1.3 only.
func ServerTLS(cert *ServerCert) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: cert.GetCertificate,
		NextProtos:     []string{"h2", "http/1.1"},
	}
}

// MutualTLS returns the settings of a listener for agents or operators: the
// client must show a certificate of the authority that is in time at now, made
// for clients, and not one of an authority. TLS 1.3 only. What role the client
// has is not looked at: a wrong one gets an answer, which a failed handshake
// could not give. A nil now means time.Now.
//
// There is no resumption: every connection shows its certificate anew.
func MutualTLS(cert *ServerCert, clients *x509.CertPool, now func() time.Time) *tls.Config {
	config := ServerTLS(cert)
	config.NextProtos = []string{"h2"}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = clients
	config.SessionTicketsDisabled = true
	config.Time = now
	config.VerifyConnection = VerifyClient
	return config
}

// VerifyClient is for tls.Config.VerifyConnection: it is stricter than the standard
// verification, for which a certificate without any usage is good for everything, and
// one of an authority good for a client. Errors match [ErrClientCertificate].
func VerifyClient(state tls.ConnectionState) error {
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return fmt.Errorf("%w: it is not verified", ErrClientCertificate)
	}
	leaf := state.PeerCertificates[0]
	switch {
	case leaf.IsCA:
		return fmt.Errorf("%w: it is one of an authority", ErrClientCertificate)
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return fmt.Errorf("%w: it is not made for clients", ErrClientCertificate)
	}
	return nil
}
