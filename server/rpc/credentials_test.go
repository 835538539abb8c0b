package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"

	"nstance.dev/protos/identity"
)

func TestIdentifyForgetsTheCertificate(t *testing.T) {
	leaf, root := &x509.Certificate{}, &x509.Certificate{}
	state := tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{leaf},
		VerifiedChains:   [][]*x509.Certificate{{leaf, root}},
	}
	var client identified
	client.identify(state)
	if !errors.Is(client.err, identity.ErrRole) && !errors.Is(client.err, identity.ErrBadCertificate) {
		t.Errorf("a certificate that says nothing: %v", client.err)
	}
	for _, cert := range append(state.PeerCertificates, state.VerifiedChains[0]...) {
		if cert != nil {
			t.Error("a certificate is kept")
		}
	}
}

func TestS11_ClientThatShowedNoVerifiedCertificateIsNobody(t *testing.T) {
	client := identified{err: errNoCertificate}
	client.identify(tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}})
	if !errors.Is(client.err, errNoCertificate) {
		t.Errorf("got %v, want %v", client.err, errNoCertificate)
	}
}
