package processes_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/pki"
)

// reasonOf returns the machine-readable reason of an error, if it is one of ours.
func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Domain == "nstance" {
			return info.Reason
		}
	}
	return ""
}

// mustLead returns the leader's addresses.
func mustLead(t *testing.T, b *box.Box) driver.Addresses {
	t.Helper()
	addrs, err := b.Leader()
	if err != nil {
		t.Fatal(err)
	}
	return addrs
}

// askOperator makes a harmless call of the operator port.
func askOperator(t *testing.T, addr string, settings *tls.Config) error {
	t.Helper()
	conn, err := box.Dial(addr, settings)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), box.CallTimeout)
	defer cancel()
	_, err = nstancev1.NewOperatorServiceClient(conn).ListGroups(ctx, &emptypb.Empty{})
	return err
}

// askAgent opens a stream as an agent would, and returns how it ends; nil if the
// server says welcome.
func askAgent(t *testing.T, addr, id string, settings *tls.Config) error {
	t.Helper()
	conn, err := box.Dial(addr, settings)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), box.CallTimeout)
	defer cancel()
	stream, err := nstancev1.NewAgentServiceClient(conn).Connect(ctx)
	if err != nil {
		return err
	}
	hello := &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{InstanceId: id}}}
	if err := stream.Send(hello); err != nil && err != io.EOF { //nolint:errorlint // grpc returns it as it is; Recv knows more
		return err
	}
	_, err = stream.Recv()
	return err
}

func clientTLS(t *testing.T, dir string) *tls.Config {
	t.Helper()
	settings, err := box.ClientTLS(dir)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

// machineTLS is what a machine's agent connects with. It has its certificate on
// disk a moment after the server calls it running.
func machineTLS(t *testing.T, b *box.Box, id string) *tls.Config {
	t.Helper()
	dir := b.Path("machines", id, "identity")
	b.Await("the machine has its certificate", func() error {
		_, err := os.Stat(filepath.Join(dir, "identity.crt"))
		return err
	})
	return clientTLS(t, dir)
}

func TestF43_CertificateInTheWrongPlaceIsRefused(t *testing.T) {
	t.Parallel()
	b, _ := up(t, 1)
	addrs := mustLead(t, b)
	id := b.RecordIDs()[0]
	agent, operator := machineTLS(t, b, id), clientTLS(t, b.Identity())

	checkRefusal(t, "an agent's on the operator port", askOperator(t, addrs.Operator, agent), codes.PermissionDenied, "WRONG_ROLE")
	checkRefusal(t, "an operator's on the agent port", askAgent(t, addrs.Agent, id, operator), codes.PermissionDenied, "WRONG_ROLE")
	other, err := identity.NewID("dev")
	if err != nil {
		t.Fatal(err)
	}
	if code := status.Code(askAgent(t, addrs.Agent, string(other), agent)); code != codes.PermissionDenied {
		t.Errorf("an agent that says it is another one: %s, and must be %s", code, codes.PermissionDenied)
	}
	if err := askOperator(t, addrs.Operator, operator); err != nil {
		t.Errorf("an operator's on the operator port: %v", err)
	}
}

func TestS13_DeletedInstanceIsLockedOut(t *testing.T) {
	t.Parallel()
	b, _ := up(t, 1)
	addrs := mustLead(t, b)
	id := b.RecordIDs()[0]
	agent := machineTLS(t, b, id)
	token, key := nonceOf(t, b, id), keyOf(t, b, id)
	b.AdminOK("instance", "delete", id, "--wait", "--timeout", "90s")

	if code := status.Code(askAgent(t, addrs.Agent, id, agent)); code != codes.PermissionDenied {
		t.Errorf("its stream: %s, and must be %s", code, codes.PermissionDenied)
	}
	_, err := newNewcomer(t, b).agent(box.Registration(t, token, key))
	checkRefusal(t, "its nonce", err, codes.PermissionDenied, "REGISTRATION_REFUSED")
}

func TestF44_WeakConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	b, _ := up(t, 1)
	addrs := mustLead(t, b)
	anonymous, err := box.AnonymousTLS(filepath.Join(b.Identity(), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	agent, operator := machineTLS(t, b, b.RecordIDs()[0]), clientTLS(t, b.Identity())

	for _, port := range []struct {
		name, addr string
		good       *tls.Config
		mutual     bool
	}{
		{"registration", addrs.Registration, anonymous, false},
		{"operator", addrs.Operator, operator, true},
		{"agent", addrs.Agent, agent, true},
	} {
		if err := handshake(t, port.addr, port.good); err != nil {
			t.Errorf("%s port, as it should be: %v", port.name, err)
		}
		old := port.good.Clone()
		old.MaxVersion = tls.VersionTLS12
		checkHandshake(t, port.name+" port, TLS 1.2", handshake(t, port.addr, old), "protocol version not supported")
		checkPlainText(t, port.name, port.addr)
		if !port.mutual {
			continue
		}
		checkHandshake(t, port.name+" port, no certificate", handshake(t, port.addr, anonymous), "certificate required")
		forged := anonymous.Clone()
		forged.Certificates = []tls.Certificate{forgedIdentity(t, port.name)}
		checkHandshake(t, port.name+" port, a certificate of another authority", handshake(t, port.addr, forged), "unknown certificate authority")
	}
	// The call of a client says no more than that the server is not there for it.
	if code := status.Code(askOperator(t, addrs.Operator, anonymous)); code != codes.Unavailable {
		t.Errorf("a call without a certificate: %s, and must be %s", code, codes.Unavailable)
	}
}

// handshake connects and reads; what the server thinks of a client's certificate
// arrives only then. Its patience is no refusal.
func handshake(t *testing.T, addr string, settings *tls.Config) error {
	t.Helper()
	settings = settings.Clone()
	settings.NextProtos = []string{"h2"}
	dialer := &tls.Dialer{Config: settings}
	ctx, cancel := context.WithTimeout(t.Context(), box.CallTimeout)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	// The settings frame of HTTP/2 is the first thing that a content server sends.
	_, err = io.ReadFull(conn, make([]byte, 9))
	return err
}

func checkHandshake(t *testing.T, what string, err error, alert string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), alert) {
		t.Errorf("%s: %v, and must be %q", what, err, alert)
	}
}

// checkPlainText speaks HTTP/2 without TLS to a port.
func checkPlainText(t *testing.T, name, addr string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, box.CallTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * box.CallTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		return // it has hung up already
	}
	// At most an alert (a record of type 21), never HTTP.
	answer, _ := io.ReadAll(io.LimitReader(conn, 64)) // a reset is a refusal too
	if len(answer) > 0 && answer[0] != 21 {
		t.Errorf("%s port, plain text: it answers %q", name, answer)
	}
}

// forgedIdentity is a certificate that says everything right, by an authority of the
// forger's own.
func forgedIdentity(t *testing.T, port string) tls.Certificate {
	t.Helper()
	role, subject := identity.RoleOperator, box.Cluster
	id, err := identity.NewID(identity.OperatorPrefix)
	if err != nil {
		t.Fatal(err)
	}
	uri := identity.OperatorURI(box.Cluster, id)
	if port == "agent" {
		if id, err = identity.NewID("dev"); err != nil {
			t.Fatal(err)
		}
		role, subject, uri = identity.RoleAgent, string(id), identity.AgentURI(box.Cluster, box.Shard, id)
	}
	authority := box.NewKey(t)
	key := box.NewKey(t)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: box.Cluster + " CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: subject, Organization: []string{identity.DefaultTenant}},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{uri},
		ExtraExtensions: []pkix.Extension{identity.RoleExtension(role)},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), authority)
	if err != nil {
		t.Fatal(err)
	}
	private, err := pki.EncodePrivateKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), private)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
