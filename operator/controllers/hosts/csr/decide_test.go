package csr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"nstance.dev/operator/hosts/lifecycle"
)

const account = "system:serviceaccount:nstance:nstance-node-bootstrap"

// fleet is machine a, whose Node has another name, and machine b.
type fleet map[string]Machine // by credential

func (f fleet) ByCredential(id string) (Machine, bool) { m, ok := f[id]; return m, ok }

func (f fleet) ByNode(name string) (Machine, bool) {
	for _, m := range f {
		if m.NodeName == name {
			return m, true
		}
	}
	return Machine{}, false
}

func machines() fleet {
	return fleet{
		"JTI=a": {Name: "a", NodeName: "node-a", Epoch: 2, CredentialEpoch: 2, Stage: Joining},
		"JTI=b": {Name: "b", NodeName: "node-b", Epoch: 1, CredentialEpoch: 1, Stage: Joining},
	}
}

// clientUsages are those of a kubelet with an ECDSA key.
func clientUsages(more ...certificatesv1.KeyUsage) []certificatesv1.KeyUsage {
	return append([]certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, more...)
}

// pemOf is a certificate request, PEM.
func pemOf(t testing.TB, template *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func subject(cn string, o ...string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn, Organization: o}}
}

// good is what the kubelet of machine a asks for.
func good(t testing.TB) Request {
	return Request{
		UID: "request-1", Signer: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: account, CredentialIDs: []string{"JTI=a"},
		Usages: clientUsages(), PEM: pemOf(t, subject("system:node:node-a", "system:nodes")),
	}
}

// Section by section: what is approved, what is denied, and what is left to others.
func TestM43_Requests(t *testing.T) {
	asks := func(template *x509.CertificateRequest) func(*Request, fleet) {
		return func(r *Request, _ fleet) { r.PEM = pemOf(t, template) }
	}
	machine := func(change func(*Machine)) func(*Request, fleet) {
		return func(_ *Request, f fleet) {
			m := f["JTI=a"]
			change(&m)
			f["JTI=a"] = m
		}
	}
	renews := func(change func(*Request)) func(*Request, fleet) {
		return func(r *Request, _ fleet) {
			r.Username, r.CredentialIDs = "system:node:node-a", nil
			if change != nil {
				change(r)
			}
		}
	}
	extension := func(id ...int) *x509.CertificateRequest {
		template := subject("system:node:node-a", "system:nodes")
		template.ExtraExtensions = []pkix.Extension{{Id: id, Value: []byte{5, 0}}}
		return template
	}
	san := func(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
		template := subject("system:node:node-a", "system:nodes")
		change(template)
		return template
	}
	for _, tt := range []struct {
		name   string
		change func(*Request, fleet)
		want   Verdict
		why    string // part of the reason
	}{
		{"what a joining machine asks for", nil, Approve, "epoch 2"},
		{"with key encipherment", func(r *Request, _ fleet) { r.Usages = clientUsages(certificatesv1.UsageKeyEncipherment) }, Approve, ""},
		{"in another order", func(r *Request, _ fleet) { r.Usages[0], r.Usages[1] = r.Usages[1], r.Usages[0] }, Approve, ""},
		{"with the key usage as an extension", asks(extension(2, 5, 29, 15)), Approve, ""},
		{"the third of an epoch", machine(func(m *Machine) { m.Approved = 2 }), Approve, ""},
		{"the third, which was counted and not approved", func(r *Request, f fleet) {
			machine(func(m *Machine) { m.Approved, m.LastRequest = 3, "request-1" })(r, f)
		}, Approve, ""},

		{"machine A for Node B", asks(subject("system:node:node-b", "system:nodes")), Deny, `common name "system:node:node-b"`},
		{"the name of the machine, not of its Node", asks(subject("system:node:a", "system:nodes")), Deny, "common name"},
		{"no common name", asks(subject("", "system:nodes")), Deny, "common name"},
		{"the name with more behind it", asks(subject("system:node:node-a:x", "system:nodes")), Deny, "common name"},
		{"another case", asks(subject("system:node:Node-a", "system:nodes")), Deny, "common name"},
		{"masters", asks(subject("system:node:node-a", "system:masters")), Deny, "organizations"},
		{"masters too", asks(subject("system:node:node-a", "system:nodes", "system:masters")), Deny, "organizations"},
		{"nodes twice", asks(subject("system:node:node-a", "system:nodes", "system:nodes")), Deny, "organizations"},
		{"no organization", asks(subject("system:node:node-a")), Deny, "organizations"},
		{"more in the subject", asks(&x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:node-a", Organization: []string{"system:nodes"}, Country: []string{"DE"}}}), Deny, "subject"},
		{"two common names", asks(&x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:nodes"}, ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "system:node:node-b"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "system:node:node-a"}}}}), Deny, "subject"},
		{"a DNS name", asks(san(func(r *x509.CertificateRequest) { r.DNSNames = []string{"node-a"} })), Deny, "alternative names"},
		{"an address", asks(san(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{10, 0, 0, 1}} })), Deny, "alternative names"},
		{"an e-mail address", asks(san(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.com"} })), Deny, "alternative names"},
		{"a URI", asks(san(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} })), Deny, "alternative names"},
		{"to be a CA", asks(extension(2, 5, 29, 19)), Deny, "extension 2.5.29.19"},
		{"an extended key usage", asks(extension(2, 5, 29, 37)), Deny, "extension 2.5.29.37"},
		{"usage server auth", func(r *Request, _ fleet) { r.Usages = clientUsages(certificatesv1.UsageServerAuth) }, Deny, `usage "server auth"`},
		{"usage any", func(r *Request, _ fleet) { r.Usages = clientUsages(certificatesv1.UsageAny) }, Deny, `usage "any"`},
		{"no usage client auth", func(r *Request, _ fleet) { r.Usages = r.Usages[:1] }, Deny, `usage "client auth"`},
		{"no usage digital signature", func(r *Request, _ fleet) { r.Usages = r.Usages[1:] }, Deny, `usage "digital signature"`},
		{"no usages", func(r *Request, _ fleet) { r.Usages = nil }, Deny, "usage"},
		{"a usage twice", func(r *Request, _ fleet) { r.Usages = clientUsages(certificatesv1.UsageClientAuth) }, Deny, "twice"},
		{"no PEM", func(r *Request, _ fleet) { r.PEM = []byte("hello") }, Deny, "one certificate request"},
		{"nothing", func(r *Request, _ fleet) { r.PEM = nil }, Deny, "one certificate request"},
		{"two requests", func(r *Request, _ fleet) { r.PEM = append(r.PEM, r.PEM...) }, Deny, "one certificate request"},
		{"a certificate", func(r *Request, _ fleet) {
			r.PEM = []byte(strings.ReplaceAll(string(r.PEM), "CERTIFICATE REQUEST", "CERTIFICATE"))
		}, Deny, "one certificate request"},
		{"cut off", func(r *Request, _ fleet) {
			r.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte{0x30, 1}})
		}, Deny, "cannot be read"},
		{"not signed with its key", func(r *Request, _ fleet) {
			block, _ := pem.Decode(r.PEM)
			block.Bytes[len(block.Bytes)-1] ^= 1
			r.PEM = pem.EncodeToMemory(block)
		}, Deny, ""},

		{"the fourth of an epoch", machine(func(m *Machine) { m.Approved, m.LastRequest = 3, "request-0" }), Deny, "3 certificates were approved for epoch 2"},
		{"the machine is being deleted", machine(func(m *Machine) { m.Deleting = true }), Deny, "being deleted"},
		{"the machine has joined", machine(func(m *Machine) { m.Stage = After }), Deny, "does not boot or join"},
		{"the machine is before its boot for long", func(r *Request, f fleet) { r.Age = time.Minute; machine(func(m *Machine) { m.Stage = Before })(r, f) }, Deny, "does not boot or join"},
		{"the machine has not said that it boots", machine(func(m *Machine) { m.Stage = Before }), Wait, ""},
		{"and for another Node there is nothing to wait for", func(r *Request, f fleet) {
			machine(func(m *Machine) { m.Stage = Before })(r, f)
			asks(subject("system:node:node-b", "system:nodes"))(r, f)
		}, Deny, "common name"},
		{"the credential is of the epoch before", machine(func(m *Machine) { m.CredentialEpoch = 1 }), Deny, "epoch 1, and epoch 2 is assigned"},
		{"a credential that was just made", func(r *Request, _ fleet) { r.CredentialIDs = []string{"JTI=c"} }, Wait, ""},
		{"a credential of nobody", func(r *Request, _ fleet) { r.CredentialIDs, r.Age = []string{"JTI=c"}, time.Minute }, Deny, "no machine"},
		{"no credential", func(r *Request, _ fleet) { r.CredentialIDs = nil }, Deny, "was made with 0"},
		{"two credentials", func(r *Request, _ fleet) { r.CredentialIDs = []string{"JTI=a", "JTI=b"} }, Deny, "was made with 2"},
		{"an empty credential", func(r *Request, f fleet) { r.CredentialIDs = []string{""}; f[""] = f["JTI=a"] }, Deny, ""},
		{"another signer, by a credential of a machine", func(r *Request, _ fleet) { r.Signer = certificatesv1.KubeAPIServerClientSignerName }, Deny, "for signer"},

		{"a foreign signer", func(r *Request, _ fleet) { r.Username, r.Signer = "alice", "example.com/signer" }, Ignore, "example.com/signer"},
		{"a user", func(r *Request, _ fleet) { r.Username = "alice" }, Ignore, "alice"},
		{"a bootstrap token", func(r *Request, _ fleet) { r.Username = "system:bootstrap:abcdef" }, Ignore, ""},
		{"a service account of the same name elsewhere", func(r *Request, _ fleet) { r.Username = "system:serviceaccount:other:nstance-node-bootstrap" }, Ignore, ""},
		{"settled", func(r *Request, _ fleet) { r.Settled = true }, Ignore, "settled"},

		{"a Node renews its certificate", renews(nil), Approve, "renews"},
		{"after it has joined, and as often as it likes", func(r *Request, f fleet) {
			renews(nil)(r, f)
			machine(func(m *Machine) { m.Stage, m.Approved = After, 3 })(r, f)
		}, Approve, "renews"},
		{"a Node for another Node", renews(func(r *Request) { r.PEM = pemOf(t, subject("system:node:node-b", "system:nodes")) }), Ignore, "common name"},
		{"a Node for its server certificate", renews(func(r *Request) { r.Signer = certificatesv1.KubeletServingSignerName }), Ignore, "signer"},
		{"a Node with more usages", renews(func(r *Request) { r.Usages = clientUsages(certificatesv1.UsageServerAuth) }), Ignore, "usage"},
		{"a Node that is no machine's", renews(func(r *Request) { r.Username = "system:node:other" }), Ignore, "belongs to no HostMachine"},
		{"a Node whose machine is being deleted", func(r *Request, f fleet) {
			renews(nil)(r, f)
			machine(func(m *Machine) { m.Deleting = true })(r, f)
		}, Ignore, ""},
		{"a Node without a name", renews(func(r *Request) { r.Username = "system:node:" }), Ignore, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, f := good(t), machines()
			if tt.change != nil {
				tt.change(&r, f)
			}
			d := Decide(r, account, f)
			if d.Verdict != tt.want || !strings.Contains(d.Reason, tt.why) || d.Reason == "" {
				t.Errorf("%s: %s", d.Verdict, d.Reason)
			}
			if counts := d.Verdict == Approve && r.Username == account && f["JTI=a"].LastRequest != r.UID; d.Count != counts {
				t.Errorf("counted: %v", d.Count)
			}
		})
	}
}

// Whatever the bytes are, what is approved is for the Node of the machine that the credential was made
// for, and nothing but a client of the group of Nodes.
func FuzzDecide(f *testing.F) {
	for _, template := range []*x509.CertificateRequest{
		subject("system:node:node-a", "system:nodes"), subject("system:node:node-b", "system:nodes"), subject("system:node:node-a", "system:masters"),
	} {
		f.Add(pemOf(f, template), "JTI=a", account, "client auth", 0)
	}
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----"), "JTI=b", "system:node:node-b", "server auth", 3)
	f.Fuzz(func(t *testing.T, request []byte, credential, user, usage string, approved int) {
		all := machines()
		for id, m := range all {
			m.Approved = int32(approved % 10)
			all[id] = m
		}
		r := Request{
			UID: "request-1", Signer: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: user, CredentialIDs: []string{credential},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.KeyUsage(usage)}, PEM: request,
		}
		d := Decide(r, account, all)
		if d.Reason == "" {
			t.Error("no reason")
		}
		if d.Verdict != Approve {
			return
		}
		block, _ := pem.Decode(request)
		asked, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		m, known := all[credential]
		if user != account {
			m, known = all.ByNode(strings.TrimPrefix(user, "system:node:"))
		}
		if !known || asked.Subject.CommonName != "system:node:"+m.NodeName || asked.Subject.String() != "CN=system:node:"+m.NodeName+",O=system:nodes" ||
			usage != "client auth" || user == account && m.Approved >= lifecycle.MostCertificates {
			t.Errorf("approved for machine %q: %s, usage %q, by %q, %d before", m.Name, asked.Subject, usage, user, m.Approved)
		}
	})
}
