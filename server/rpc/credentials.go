package rpc

import (
	"crypto/tls"
	"net"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"

	"nstance.dev/protos/identity"
	"nstance.dev/server/conns"
	"nstance.dev/server/refusal"
)

// handshakes are TLS credentials that remember of a client who it is, and forget
// the certificate that said so: parsed, that is as large as all that is known of an
// instance, and a connection would keep it for as long as the machine lives.
type handshakes struct {
	credentials.TransportCredentials
	limits limits // of the connections
}

func newCredentials(conf *tls.Config, l limits) credentials.TransportCredentials {
	return handshakes{credentials.NewTLS(conf), l}
}

// identified is what a connection knows of its client.
type identified struct {
	credentials.CommonAuthInfo
	who identity.Peer
	err error // why who is not known

	conn  *conns.Conn   // nil where connections are not limited
	calls *rate.Limiter // that the connection may make; nil: any number
}

// AuthType implements [credentials.AuthInfo].
func (*identified) AuthType() string { return "tls" }

// ServerHandshake implements [credentials.TransportCredentials].
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	out := &identified{err: errNoCertificate, calls: rate.NewLimiter(h.limits.calls, h.limits.burst)}
	out.conn, _ = raw.(*conns.Conn)
	if secured, ok := info.(credentials.TLSInfo); ok {
		out.CommonAuthInfo = secured.CommonAuthInfo
		out.identify(secured.State)
	}
	if out.err == nil {
		out.own("certificate " + out.who.Serial)
	}
	return socketless{conn}, out, nil
}

// socketless is a connection that does not show the socket beneath it: gRPC would
// keep a copy of the socket's options for each connection, for a debugger to see.
type socketless struct{ net.Conn }

// Clone implements [credentials.TransportCredentials].
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.limits}
}

var errNoCertificate = refusal.New(refusal.Unauthenticated, "NO_CERTIFICATE", "a client certificate is needed")

// identify reads who the client is out of the certificate that the handshake has
// verified. The slices that it empties are those of the connection itself; where
// they were copies, nothing but the memory would be lost.
func (i *identified) identify(state tls.ConnectionState) {
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return
	}
	i.who, i.err = identity.PeerFromCertificate(state.PeerCertificates[0])
	for _, chain := range state.VerifiedChains {
		clear(chain)
	}
	clear(state.PeerCertificates)
}
