package hostile

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// usages are certificates for something else, or of another time.
var usages = func() (all []twin) {
	add := func(name string, change func(f *forgery)) {
		all = append(all, twin{name, badHandshake, "", func(_ *testing.T, _ *world, f *forgery) { change(f) }})
	}
	for _, u := range []struct {
		name   string
		usages []x509.ExtKeyUsage
	}{
		{"a certificate for servers", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		{"a certificate for nothing", nil},
		{"a certificate for everything", []x509.ExtKeyUsage{x509.ExtKeyUsageAny}},
		{"a certificate for programs", []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}},
	} {
		add(u.name, func(f *forgery) { f.ExtKeyUsage = u.usages })
	}
	add("a certificate of an authority", func(f *forgery) { f.IsCA, f.KeyUsage = true, x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign })
	add("a certificate that is over since a minute", func(f *forgery) { f.NotAfter = time.Now().Add(-time.Minute) })
	add("a certificate that is over since a year", func(f *forgery) {
		f.NotBefore, f.NotAfter = time.Now().AddDate(-2, 0, 0), time.Now().AddDate(-1, 0, 0)
	})
	add("a certificate from an hour on", func(f *forgery) { f.NotBefore, f.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour) })
	return all
}()

// authorities are certificates that somebody else signed.
var authorities = []twin{
	{"a certificate that its owner signed", badHandshake, "", func(_ *testing.T, _ *world, f *forgery) { f.signer, f.parent = f.key, &f.Certificate }},
	{"a certificate of a stranger's authority", badHandshake, "", func(t *testing.T, _ *world, f *forgery) {
		f.under(t, pkix.Name{CommonName: "stranger"}, nil)
	}},
	{"a certificate of an authority with the same name", badHandshake, "", func(t *testing.T, w *world, f *forgery) {
		f.under(t, w.authority.Subject, nil)
	}},
	{"a certificate of an authority with the same name and key id", badHandshake, "", func(t *testing.T, w *world, f *forgery) {
		f.under(t, w.authority.Subject, w.authority.SubjectKeyId)
	}},
	{"a certificate with the authority of a stranger sent along", badHandshake, "", func(t *testing.T, _ *world, f *forgery) {
		f.under(t, pkix.Name{CommonName: "stranger"}, nil)
		f.below = [][]byte{f.parent.Raw}
	}},
	{"a certificate of a stranger with the cluster's authority sent along", badHandshake, "", func(t *testing.T, w *world, f *forgery) {
		f.under(t, w.authority.Subject, w.authority.SubjectKeyId)
		f.below = [][]byte{w.authority.Raw}
	}},
}

// under has a new authority sign the certificate.
func (f *forgery) under(t *testing.T, name pkix.Name, keyID []byte) {
	t.Helper()
	key := box.NewKey(t)
	f.parent, f.signer = f.authority(t, name, keyID, key, nil, key), key
}

// authority makes the certificate of an authority; without a parent it is its own.
func (f *forgery) authority(t *testing.T, name pkix.Name, keyID []byte, key ed25519.PrivateKey, parent *x509.Certificate, signer crypto.Signer) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: name, SubjectKeyId: keyID, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// neutral is who signs with the neutral point, under which anybody can.
type neutral struct{}

func (neutral) Public() crypto.PublicKey {
	point := make(ed25519.PublicKey, ed25519.PublicKeySize)
	point[0] = 1
	return point
}

func (neutral) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return proofOfNothing(), nil
}

// ownKeys are certificates of the authority with the serial of a genuine one, for a key
// that is not the owner's: what a thief of the authority's key alone could make.
var ownKeys = func() (all []twin) {
	for _, k := range []struct {
		name         string
		held, agents string
		key          func(t *testing.T) crypto.Signer
	}{
		{"a known serial with a stranger's key", nobodyKnown, "PermissionDenied CERTIFICATE_SUPERSEDED", func(t *testing.T) crypto.Signer { return box.NewKey(t) }},
		{"a known serial with a key on the curve P-256", badCertificate, "", func(t *testing.T) crypto.Signer { return curveKey(t) }},
		{"a known serial with an RSA key", badCertificate, "", func(t *testing.T) crypto.Signer { return rsaKey(t) }},
		{"a known serial with the neutral point as a key", badCertificate, "", func(*testing.T) crypto.Signer { return neutral{} }},
	} {
		all = append(all, twin{k.name, k.held, k.agents, func(t *testing.T, _ *world, f *forgery) { f.key = k.key(t) }})
	}
	return append(all, twin{"the owner's key with another serial", nobodyKnown, "PermissionDenied CERTIFICATE_SUPERSEDED", func(_ *testing.T, _ *world, f *forgery) {
		f.SerialNumber = big.NewInt(4711)
	}})
}()

// chains are certificates below others, and those that end while they are used.
var chains = []attempt{
	{"F43", "an agent's certificate as an authority for operators", badHandshake, func(t *testing.T, w *world) string { return outline(w.belowOwner(t, asAgent)) }},
	{"F43", "an operator's certificate as an authority for operators", badHandshake, func(t *testing.T, w *world) string { return outline(w.belowOwner(t, asOperator)) }},
	{"F43", "an intermediate authority that is signed and no authority", badHandshake, func(t *testing.T, w *world) string {
		f := w.twinOf(t, w.genuine(t, asOperator).cert)
		between := w.operatorOf(t, identity.DefaultTenant, "opr068a3cp3thz5z2mv1gejwftabc")
		signed, err := x509.ParseCertificate(between.sign(t).Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		f.parent, f.signer, f.below = signed, between.key, [][]byte{signed.Raw}
		return outline(w.present(t, asOperator, w.as(f.sign(t)), ""))
	}},
	{"F43", "an intermediate authority that is signed as one", badHandshake, func(t *testing.T, w *world) string {
		f, key := w.twinOf(t, w.genuine(t, asOperator).cert), box.NewKey(t)
		f.parent, f.signer = f.authority(t, pkix.Name{CommonName: "between"}, nil, key, w.authority, w.caKey), key
		f.below = [][]byte{f.parent.Raw}
		return outline(w.present(t, asOperator, w.as(f.sign(t)), ""))
	}},
	{"F43", "an operator's certificate behind an agent's", wrongRole, func(t *testing.T, w *world) string {
		cert := w.genuine(t, asAgent).cert
		cert.Certificate = append([][]byte{cert.Certificate[0]}, w.genuine(t, asOperator).cert.Certificate[0])
		return outline(w.present(t, asOperator, w.as(cert), ""))
	}},
	{"F43", "an operator's certificate with a stranger's key", badHandshake, func(t *testing.T, w *world) string {
		cert := w.genuine(t, asOperator).cert
		cert.PrivateKey = box.NewKey(t)
		return outline(w.present(t, asOperator, w.as(cert), ""))
	}},
	{"F43", "an agent's certificate with a stranger's key", badHandshake, func(t *testing.T, w *world) string {
		owner := w.genuine(t, asAgent)
		owner.cert.PrivateKey = box.NewKey(t)
		return outline(w.present(t, asAgent, w.as(owner.cert), owner.id))
	}},
	{"F43", "an operator who was never registered", nobodyKnown, func(t *testing.T, w *world) string {
		return outline(w.present(t, asOperator, w.as(w.operatorOf(t, identity.DefaultTenant, "opr068a3cp3thz5z2mv1gejwftabc").sign(t)), ""))
	}},
	{"F43", "an agent of an instance that never was", noInstance, func(t *testing.T, w *world) string {
		const id = "mut068a3cp3thz5z2mv1gejwftabc"
		return outline(w.present(t, asAgent, w.as(w.agentOf(t, identity.DefaultTenant, id).sign(t)), id))
	}},
	{"F43", "an agent of an instance that has not registered", "PermissionDenied CERTIFICATE_SUPERSEDED", func(t *testing.T, w *world) string {
		return outline(w.present(t, asAgent, w.as(w.agentOf(t, identity.DefaultTenant, w.victim.id).sign(t)), w.victim.id))
	}},
	{"F43", "an agent of another shard", noInstance, func(t *testing.T, w *world) string {
		owner := w.genuine(t, asAgent)
		f := w.twinOf(t, owner.cert)
		f.URIs[0] = identity.AgentURI(box.Cluster, "other", owner.id)
		return outline(w.present(t, asAgent, w.as(f.sign(t)), owner.id))
	}},
	{"F43", "an operator's certificate that ends while it is used", "Unauthenticated CERTIFICATE_EXPIRED", func(t *testing.T, w *world) string {
		return w.outlive(t, w.twinOf(t, w.genuine(t, asOperator).cert), func(cert tls.Certificate) (opened bool, err error) {
			watch, err := nstancev1.NewOperatorServiceClient(w.dial(t, w.addrs.Operator, w.as(cert))).WatchInstances(t.Context(), &nstancev1.WatchInstancesRequest{})
			for err == nil {
				if _, err = watch.Recv(); err == nil {
					opened = true
				}
			}
			return opened, err
		})
	}},
	{"F43", "an agent's certificate that ends while it is used", "Unauthenticated CERTIFICATE_EXPIRED", func(t *testing.T, w *world) string {
		m := w.member(t, identity.DefaultTenant, nil)
		return w.outlive(t, w.twinOf(t, m.cert), func(cert tls.Certificate) (opened bool, err error) {
			stream := w.hello(t, cert, m.id)
			for err == nil {
				if _, err = stream.Recv(); err == nil {
					opened = true
				}
			}
			return opened, err
		})
	}},
	{"F43", "an operator's certificate as it is", letIn, func(t *testing.T, w *world) string {
		return w.present(t, asOperator, w.as(w.twinOf(t, w.genuine(t, asOperator).cert).sign(t)), "")
	}},
	{"F43", "an agent's certificate as it is", letIn, func(t *testing.T, w *world) string {
		m := w.member(t, identity.DefaultTenant, nil)
		return w.connect(t, w.twinOf(t, m.cert).sign(t), m.id)
	}},
}

// outlive opens a stream with a certificate that ends soon, and returns why the stream
// ends. On a busy box it may be over before the stream is open; then it gets more time.
func (w *world) outlive(t *testing.T, f *forgery, stream func(tls.Certificate) (opened bool, err error)) string {
	t.Helper()
	for life := 3 * time.Second; ; life *= 2 {
		f.NotAfter = time.Now().Add(life)
		opened, err := stream(f.sign(t))
		if opened || life > box.Patience {
			return outline(said(err))
		}
	}
}

// belowOwner has somebody without such a right sign the twin of an operator's certificate.
func (w *world) belowOwner(t *testing.T, as door) string {
	t.Helper()
	owner, f := w.genuine(t, as), w.twinOf(t, w.genuine(t, asOperator).cert)
	signer, ok := owner.cert.PrivateKey.(crypto.Signer)
	if !ok {
		t.Fatal("the owner's key does not sign")
	}
	parent, err := x509.ParseCertificate(owner.cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	f.key, f.parent, f.signer, f.below = box.NewKey(t), parent, signer, owner.cert.Certificate
	return w.present(t, asOperator, w.as(f.sign(t)), "")
}
