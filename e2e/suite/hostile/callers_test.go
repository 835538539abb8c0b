package hostile

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// letIn is what an attempt came to that nobody refused.
const letIn = "let in"

// said is what a server answered: code, reason and text.
func said(err error) string {
	if err == nil {
		return letIn
	}
	st := status.Convert(err)
	return st.Code().String() + " " + reasonOf(err) + ": " + st.Message()
}

// reasonOf returns the reason that a refusal states; empty without one.
func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}

// source returns an address that nobody has called from: limits are for each source.
func (w *world) source() net.Addr {
	n := w.sources.Add(1)
	return &net.TCPAddr{IP: net.IPv4(127, 1+byte(n>>14&0x3f), byte(n>>7&0x7f), 1+byte(n&0x7f))}
}

// dialFrom opens TCP connections from one source.
func dialFrom(source net.Addr) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: source}).DialContext(ctx, "tcp", addr)
	}
}

// call returns a context that ends with the patience for one call.
func call(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), box.CallTimeout)
	t.Cleanup(cancel)
	return ctx
}

// anonymous are TLS settings without a certificate.
func (w *world) anonymous() *tls.Config {
	return &tls.Config{RootCAs: w.roots, ServerName: box.ServerName, MinVersion: tls.VersionTLS13}
}

// as are TLS settings with a certificate.
func (w *world) as(cert tls.Certificate) *tls.Config {
	settings := w.anonymous()
	// Not Certificates: those are sent only where they fit what the server asks for.
	settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return settings
}

// dial returns a connection from a new source, which ends with the test.
func (w *world) dial(t *testing.T, addr string, settings *tls.Config) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(settings)),
		grpc.WithContextDialer(dialFrom(w.source())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// knock makes a handshake and no call. It returns why the server ended the connection,
// or [letIn] once the server speaks.
func (w *world) knock(t *testing.T, addr string, settings *tls.Config) string {
	t.Helper()
	raw, err := dialFrom(w.source())(call(t), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }() // it was for one byte
	settings = settings.Clone()
	settings.NextProtos = []string{"h2"}
	conn := tls.Client(raw, settings)
	err = conn.HandshakeContext(call(t))
	if err == nil {
		_, err = conn.Read(make([]byte, 1)) // the server's settings, or its alert
	}
	if alert := new(net.OpError); errors.As(err, &alert) && alert.Op == "remote error" {
		return "handshake: " + strings.TrimPrefix(alert.Err.Error(), "tls: ")
	}
	if err != nil {
		return "handshake: " + err.Error()
	}
	return letIn
}

// newcomer returns a client of the registration port with a source of its own.
func (w *world) newcomer(t *testing.T) nstancev1.RegistrationServiceClient {
	t.Helper()
	return nstancev1.NewRegistrationServiceClient(w.dial(t, w.addrs.Registration, w.anonymous()))
}

// operator returns a client of the operator port with the identity of a tenant's operator.
func (w *world) operator(t *testing.T, tenant string) nstancev1.OperatorServiceClient {
	t.Helper()
	settings, err := box.ClientTLS(w.operatorDir(tenant))
	if err != nil {
		t.Fatal(err)
	}
	return nstancev1.NewOperatorServiceClient(w.dial(t, w.addrs.Operator, settings))
}

// member is an instance that has registered, with what its agent has: the attacker is
// root on it.
type member struct {
	outstanding
	key  ed25519.PrivateKey
	cert tls.Certificate
}

// member registers a machine of a tenant. Change, if it is not nil, changes the request
// before it is sent.
func (w *world) member(t *testing.T, tenant string, change func(*nstancev1.RegisterClientRequest)) member {
	t.Helper()
	return w.enter(t, w.outstanding(t, tenant), change)
}

// enter is [world.member] for a machine that the caller has.
func (w *world) enter(t *testing.T, o outstanding, change func(*nstancev1.RegisterClientRequest)) member {
	t.Helper()
	m := member{outstanding: o, key: box.NewKey(t)}
	req := box.Registration(t, m.token, m.key)
	if change != nil {
		change(req)
	}
	resp, err := w.newcomer(t).RegisterAgent(call(t), req)
	if err != nil {
		t.Fatalf("register %s: %v", m.id, err)
	}
	m.cert = pair(t, resp.ClientCertificatePem, m.key)
	return m
}

// agent returns a client of the agent port with any certificate.
func (w *world) agent(t *testing.T, cert tls.Certificate) nstancev1.AgentServiceClient {
	t.Helper()
	return nstancev1.NewAgentServiceClient(w.dial(t, w.addrs.Agent, w.as(cert)))
}

// hello opens a stream with a certificate and says who is there. The answer to it is not
// read. The stream ends with the test.
func (w *world) hello(t *testing.T, cert tls.Certificate, id identity.ID) nstancev1.AgentService_ConnectClient {
	t.Helper()
	stream, err := w.agent(t, cert).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// An error here means that the stream has ended; Recv says why.
	_ = stream.Send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{InstanceId: id.String()}}})
	return stream
}

// connect is [world.hello] with what the server answers.
func (w *world) connect(t *testing.T, cert tls.Certificate, id identity.ID) string {
	t.Helper()
	_, err := w.hello(t, cert, id).Recv()
	return said(err)
}

// pair is a certificate in PEM with its private key.
func pair(t *testing.T, text []byte, key ed25519.PrivateKey) tls.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("the certificate is not PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: leaf}
}
