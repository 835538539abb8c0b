package webhookcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Lives of the two certificates. Each is replaced when two thirds of it are over.
const (
	AuthorityLife = 365 * 24 * time.Hour
	ServingLife   = 90 * 24 * time.Hour
)

// skew is how far clocks may differ: certificates begin that much before they are made.
const skew = 5 * time.Minute

// Entries of the Secret.
const (
	authoritiesEntry  = "ca.crt" // the present one first, then the one before, PEM
	authorityKeyEntry = "ca.key" // of the present one, PKCS#8 PEM
	certificateEntry  = "tls.crt"
	keyEntry          = "tls.key"
)

// Names returns the names by which an API server calls a Service.
func Names(service, namespace string) []string {
	return []string{service, service + "." + namespace, service + "." + namespace + ".svc"}
}

// Renew returns what is to be in the Secret at a moment, given what is in it now, and
// whether that differs. It replaces what is missing, unreadable, for other names, or two
// thirds through its life, and nothing else. The arguments stay as they are.
func Renew(data map[string][]byte, names []string, now time.Time) (next map[string][]byte, changed bool, err error) {
	ca, err := readAuthority(data)
	fresh := err != nil || due(ca.leaf, now)
	old := ca.leaf // of which certificates may be around
	if fresh {
		if ca, err = newAuthority(now); err != nil {
			return nil, false, err
		}
	}
	serving, err := readServing(data, names)
	trusted := trustedAuthorities(data, ca, old, now)
	usable := err == nil && now.Before(serving.NotAfter) && issuedByOne(serving, trusted)
	switch {
	case usable && !fresh && !due(serving, now):
		return data, false, nil
	case usable && fresh: // whatever is due, the new authority has to be known first
		return map[string][]byte{
			authoritiesEntry: bundle(trusted), authorityKeyEntry: ca.keyPEM,
			certificateEntry: data[certificateEntry], keyEntry: data[keyEntry],
		}, true, nil
	}
	cert, key, err := ca.issue(names, now)
	if err != nil {
		return nil, false, err
	}
	return map[string][]byte{
		authoritiesEntry: bundle(trusted), authorityKeyEntry: ca.keyPEM, certificateEntry: cert, keyEntry: key,
	}, true, nil
}

// due reports whether two thirds of a certificate's life are over, or it has not begun.
func due(c *x509.Certificate, now time.Time) bool {
	life := c.NotAfter.Sub(c.NotBefore)
	return now.Before(c.NotBefore) || !now.Before(c.NotAfter.Add(-life/3))
}

// trustedAuthorities are the present authority and the one before, while that can have
// issued something that is in use.
func trustedAuthorities(data map[string][]byte, ca authority, old *x509.Certificate, now time.Time) []*x509.Certificate {
	trusted := []*x509.Certificate{ca.leaf}
	before := certificates(data[authoritiesEntry])
	if old != nil {
		before = append(before, old)
	}
	for _, c := range before {
		known := slices.ContainsFunc(trusted, c.Equal)
		if !known && len(trusted) < 2 && now.Before(c.NotAfter) {
			trusted = append(trusted, c)
		}
	}
	return trusted
}

// authority signs.
type authority struct {
	leaf   *x509.Certificate
	key    *ecdsa.PrivateKey
	keyPEM []byte
}

var errUnreadable = errors.New("not readable")

func readAuthority(data map[string][]byte) (authority, error) {
	all := certificates(data[authoritiesEntry])
	block, _ := pem.Decode(data[authorityKeyEntry])
	if len(all) == 0 || block == nil {
		return authority{}, errUnreadable
	}
	parsed, _ := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(all[0].PublicKey) {
		return authority{leaf: all[0]}, errUnreadable
	}
	return authority{all[0], key, data[authorityKeyEntry]}, nil
}

func newAuthority(now time.Time) (authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return authority{}, err
	}
	template, err := template("nstance-operator webhooks", now, AuthorityLife)
	if err != nil {
		return authority{}, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, fmt.Errorf("make authority: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return authority{leaf, key, keyPEM}, err
}

// issue makes a serving certificate and its key, PEM.
func (a authority) issue(names []string, now time.Time) (cert, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template, err := template(names[len(names)-1], now, ServingLife)
	if err != nil {
		return nil, nil, err
	}
	template.DNSNames = names
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.leaf, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("make serving certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}

func template(name string, now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-skew), NotAfter: now.Add(life),
	}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("new key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, errors.New("encode key") // the cause might show it
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// readServing returns the certificate that is served, if it has its key and these names.
func readServing(data map[string][]byte, names []string) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(data[certificateEntry], data[keyEntry])
	if err != nil || pair.Leaf == nil {
		return nil, errUnreadable
	}
	if !slices.Equal(pair.Leaf.DNSNames, names) {
		return nil, fmt.Errorf("it is for %v", pair.Leaf.DNSNames)
	}
	return pair.Leaf, nil
}

func issuedByOne(c *x509.Certificate, authorities []*x509.Certificate) bool {
	return slices.ContainsFunc(authorities, func(a *x509.Certificate) bool { return c.CheckSignatureFrom(a) == nil })
}

// certificates reads those in a PEM text; what is none is passed over.
func certificates(text []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, c)
		}
	}
	return all
}

func bundle(all []*x509.Certificate) []byte {
	var text []byte
	for _, c := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}
