package pki_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

func TestClientCertificates(t *testing.T) {
	a := newAuthority(t, fixed(start))
	public, _ := newKey(t)
	agent, err := a.IssueAgent(pki.AgentRequest{PublicKey: public, ID: agentID, Tenant: "prod", Shard: shard})
	if err != nil {
		t.Fatal(err)
	}
	operator, err := a.IssueOperator(pki.OperatorRequest{PublicKey: public, ID: operatorID, Tenant: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cert pki.Certificate
		want identity.Peer
	}{
		{agent, identity.Peer{
			Role: identity.RoleAgent, Tenant: "prod", CommonName: agentID.String(), Cluster: cluster, Shard: shard,
			ID: agentID, Serial: agent.Serial, NotAfter: start.Add(720 * time.Hour), Key: [ed25519.PublicKeySize]byte(public),
		}},
		{operator, identity.Peer{
			Role: identity.RoleOperator, Tenant: "prod", CommonName: cluster, Cluster: cluster,
			ID: operatorID, Serial: operator.Serial, NotAfter: start.Add(8760 * time.Hour), Key: [ed25519.PublicKeySize]byte(public),
		}},
	} {
		checkLeaf(t, a, tt.cert, public)
		got, err := identity.PeerFromCertificate(tt.cert.Leaf)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if _, err := tt.cert.Leaf.Verify(x509.VerifyOptions{
			Roots: a.CA().Pool(), CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}); err != nil {
			t.Error(err)
		}
	}
	if agent.Serial == operator.Serial {
		t.Error("two certificates have one serial")
	}
}

// checkLeaf checks what all certificates have in common.
func checkLeaf(t *testing.T, a *pki.Authority, c pki.Certificate, public ed25519.PublicKey) {
	t.Helper()
	leaf, ca := c.Leaf, a.CA().Certificate()
	if leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature || !public.Equal(leaf.PublicKey) {
		t.Errorf("authority %v, usage %v", leaf.IsCA, leaf.KeyUsage)
	}
	if len(leaf.SubjectKeyId) == 0 || !bytes.Equal(leaf.AuthorityKeyId, ca.SubjectKeyId) {
		t.Error("the key ids of subject or authority are wrong")
	}
	if !leaf.NotBefore.Equal(start.Add(-5*time.Minute)) || len(c.Serial) != 32 || leaf.SerialNumber.BitLen() > 128 {
		t.Errorf("not before %v, serial %s", leaf.NotBefore, c.Serial)
	}
	back, err := pki.ParseCertificates(c.PEM)
	if err != nil || len(back) != 1 || !back[0].Equal(leaf) {
		t.Errorf("the PEM is not the leaf alone: %v", err)
	}
}

func TestNothingOutlivesTheCA(t *testing.T) {
	now := start.Add(87600*time.Hour - time.Hour)
	a := newAuthority(t, func() time.Time { return now })
	public, _ := newKey(t)
	request := pki.AgentRequest{PublicKey: public, ID: agentID, Tenant: "prod", Shard: shard}
	cert, err := a.IssueAgent(request)
	if err != nil || !cert.NotAfter.Equal(a.CA().Certificate().NotAfter) {
		t.Errorf("ends %v, %v", cert.NotAfter, err)
	}
	now = now.Add(time.Hour)
	if _, err := a.IssueAgent(request); !errors.Is(err, pki.ErrCAExpired) {
		t.Errorf("after the authority's end: %v, want ErrCAExpired", err)
	}
}

func TestCertificatesThatAreNotIssued(t *testing.T) {
	a := newAuthority(t, fixed(start))
	public, _ := newKey(t)
	good := pki.AgentRequest{PublicKey: public, ID: agentID, Tenant: "prod", Shard: shard}
	for name, change := range map[string]func(*pki.AgentRequest){
		"no key":               func(r *pki.AgentRequest) { r.PublicKey = nil },
		"a short key":          func(r *pki.AgentRequest) { r.PublicKey = r.PublicKey[:31] },
		"no tenant":            func(r *pki.AgentRequest) { r.Tenant = "" },
		"a tenant that is two": func(r *pki.AgentRequest) { r.Tenant = "prod,O=dev" },
		"no id":                func(r *pki.AgentRequest) { r.ID = "" },
		"an operator's id":     func(r *pki.AgentRequest) { r.ID = operatorID },
		"a shard that is a path": func(r *pki.AgentRequest) {
			r.Shard = "a/agent/" + agentID.String() + "?"
		},
	} {
		r := good
		change(&r)
		if cert, err := a.IssueAgent(r); !errors.Is(err, pki.ErrRequest) || cert.PEM != nil {
			t.Errorf("%s: %v, want ErrRequest", name, err)
		}
	}
	if _, err := a.IssueOperator(pki.OperatorRequest{PublicKey: public, ID: agentID, Tenant: "prod"}); !errors.Is(err, pki.ErrRequest) {
		t.Errorf("an operator with an agent's id: %v, want ErrRequest", err)
	}
}

func TestServerCertificate(t *testing.T) {
	a := newAuthority(t, fixed(start))
	public, _ := newKey(t)
	cert, err := a.IssueServer(pki.ServerRequest{
		PublicKey: public, ServerID: "server-1", Shard: shard, DNS: []string{"host.example.org", ""},
		IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("fe80::1%eth0")},
	})
	if err != nil {
		t.Fatal(err)
	}
	checkLeaf(t, a, cert, public)
	wantDNS := []string{"host.example.org", "nstance-server", "us-west-2a.example.nstance"}
	var gotIPs []string
	for _, ip := range cert.Leaf.IPAddresses {
		gotIPs = append(gotIPs, ip.String())
	}
	if diff := cmp.Diff(wantDNS, cert.Leaf.DNSNames) + cmp.Diff([]string{"10.0.0.1", "127.0.0.1", "::1", "fe80::1"}, gotIPs); diff != "" {
		t.Errorf("names and addresses (-want +got):\n%s", diff)
	}
	if !cert.NotAfter.Equal(start.Add(720*time.Hour)) || cert.Leaf.Subject.CommonName != "server-1" {
		t.Errorf("ends %v, subject %v", cert.NotAfter, cert.Leaf.Subject)
	}
	if _, err := identity.PeerFromCertificate(cert.Leaf); !errors.Is(err, identity.ErrRole) {
		t.Errorf("a server as a client: %v, want ErrRole", err)
	}
}

func TestFileCertificates(t *testing.T) {
	a := newAuthority(t, fixed(start))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := pki.FileRequest{
		PublicKey: key.Public(), Subject: pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}},
		DNS: []string{"a.example.org"}, Client: true,
	}
	cert, err := a.IssueFile(good)
	if err != nil || len(cert.Leaf.ExtKeyUsage) != 1 || cert.Leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Fatalf("%v", err)
	}
	if _, err := identity.PeerFromCertificate(cert.Leaf); !errors.Is(err, identity.ErrRole) {
		t.Errorf("as a client of ours: %v, want ErrRole", err)
	}
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*pki.FileRequest){
		"the name of a shard":     func(r *pki.FileRequest) { r.DNS = []string{identity.ServerName(shard, cluster)} },
		"any shard of a cluster":  func(r *pki.FileRequest) { r.DNS = []string{"*.Example.NSTANCE."} },
		"the name of all servers": func(r *pki.FileRequest) { r.DNS = []string{"nstance-server"} },
		"the URI of an agent":     func(r *pki.FileRequest) { r.URIs = []*url.URL{identity.AgentURI(cluster, shard, agentID)} },
		"no usage":                func(r *pki.FileRequest) { r.Client = false },
		"a weak key":              func(r *pki.FileRequest) { r.PublicKey = weak.Public() },
		"no key":                  func(r *pki.FileRequest) { r.PublicKey = nil },
	} {
		r := good
		change(&r)
		if cert, err := a.IssueFile(r); err == nil || cert.PEM != nil {
			t.Errorf("%s: issued", name)
		}
	}
}

func publicPEM(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestF44_PublicKeys(t *testing.T) {
	public, private := newKey(t)
	good := publicPEM(t, public)
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsa2048, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	weak := &rsa.PublicKey{N: rsa2048.N, E: rsa2048.E}
	weak.N = weak.N.Rsh(weak.N, 1024)
	privatePEM, err := pki.EncodePrivateKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, says     string
		data           []byte
		identity, file bool
	}{
		{"Ed25519", "", good, true, true},
		{"with space around", "", []byte("\n" + string(good) + "\n\n"), true, true},
		{"ECDSA P-256", "ECDSA P-256, must be Ed25519", publicPEM(t, p256.Public()), false, true},
		{"ECDSA P-224", "ECDSA P-224, must be Ed25519", publicPEM(t, p224.Public()), false, false},
		{"RSA 1024", "RSA of 1024 bits, must be Ed25519", publicPEM(t, weak), false, false},
		{"empty", "not PEM", nil, false, false},
		{"text", "not PEM", []byte("ssh-ed25519 AAAA"), false, false},
		{"two blocks", "more than one", append(bytes.Clone(good), good...), false, false},
		{"text behind it", "more than one", append(bytes.Clone(good), "x"...), false, false},
		{"a private key", `"PRIVATE KEY"`, privatePEM, false, false},
		{"headers", "headers", bytes.Replace(good, []byte("KEY-----\n"), []byte("KEY-----\na: b\n\n"), 1), false, false},
		{"garbage inside", "", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}), false, false},
		{"a megabyte", "at most", bytes.Repeat([]byte("x"), 1<<20), false, false},
	} {
		key, err := pki.ParsePublicKey(tt.data)
		if (err == nil) != tt.identity || (err != nil && (!errors.Is(err, pki.ErrPublicKey) || key != nil || !strings.Contains(err.Error(), tt.says))) {
			t.Errorf("%s: ParsePublicKey: %v, want it accepted: %v, or an error that says %q", tt.name, err, tt.identity, tt.says)
		}
		if _, err := pki.ParseFilePublicKey(tt.data); (err == nil) != tt.file || (err != nil && !errors.Is(err, pki.ErrPublicKey)) {
			t.Errorf("%s: ParseFilePublicKey: %v, want it accepted: %v", tt.name, err, tt.file)
		}
	}
}

func TestS14_ErrorsAboutPrivateKeysDoNotShowThem(t *testing.T) {
	_, key := newKey(t)
	text, err := pki.EncodePrivateKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), "PRIVATE KEY", "MARKED KEY", 2)
	for _, s := range []string{broken, string(text) + "marked", "marked", ""} {
		if keys, err := pki.ParsePrivateKeys([]byte(s)); err == nil || keys != nil || strings.Contains(strings.ToLower(err.Error()), "marked") {
			t.Errorf("%.10q…: %v", s, err)
		}
	}
}

func FuzzParsePublicKey(f *testing.F) {
	public, private := newKey(f)
	good := publicPEM(f, public)
	text, err := pki.EncodePrivateKeys(private)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(text))
	f.Add(append(bytes.Clone(good), good...))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := pki.ParsePublicKey(data)
		if err != nil {
			if !errors.Is(err, pki.ErrPublicKey) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		text, err := pki.EncodePublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := pki.ParsePublicKey(text); err != nil || !again.Equal(key) {
			t.Fatalf("the key changes when written and read again: %v", err)
		}
	})
}
