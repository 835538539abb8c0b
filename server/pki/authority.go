package pki

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"nstance.dev/protos/identity"
)

// How long certificates are valid unless the request says otherwise.
const (
	DefaultAgentTTL    = 720 * time.Hour
	DefaultOperatorTTL = 8760 * time.Hour
	DefaultServerTTL   = 720 * time.Hour
	DefaultFileTTL     = 8760 * time.Hour
)

// backdate lets machines whose clock is a little behind accept a certificate
// that was made for them just now.
const backdate = 5 * time.Minute

// ErrCAExpired says that the authority can issue nothing any more.
var ErrCAExpired = errors.New("the certificate of the authority has expired")

// ErrRequest is about a request for a certificate that must not be issued.
var ErrRequest = errors.New("certificate refused")

// Certificate is one that was issued.
type Certificate struct {
	PEM       []byte // the leaf alone
	Leaf      *x509.Certificate
	Serial    string // as identity.SerialString writes it
	NotBefore time.Time
	NotAfter  time.Time
}

// Authority issues the certificates of one cluster. It asks no questions: the
// caller has found out that the owner of the key may have the certificate.
type Authority struct {
	ca      *CA
	cluster string
	now     func() time.Time
	rand    io.Reader
}

// NewAuthority returns the authority of cluster. A nil now means time.Now, a nil
// random crypto/rand.Reader.
func NewAuthority(ca *CA, cluster string, now func() time.Time, random io.Reader) *Authority {
	return &Authority{ca: ca, cluster: cluster, now: orNow(now), rand: orRand(random)}
}

// CA returns the key and certificates behind the authority.
func (a *Authority) CA() *CA { return a.ca }

// Cluster returns the id of the cluster.
func (a *Authority) Cluster() string { return a.cluster }

// AgentRequest names the instance whose agent gets a certificate.
type AgentRequest struct {
	PublicKey ed25519.PublicKey
	ID        identity.ID
	Tenant    string
	Shard     string
	TTL       time.Duration // 0 means DefaultAgentTTL
}

// IssueAgent returns the client certificate of an agent. Errors match
// [ErrRequest] or [ErrCAExpired].
func (a *Authority) IssueAgent(r AgentRequest) (Certificate, error) {
	return a.issueClient(identity.RoleAgent, r.ID.String(), r.Tenant,
		identity.AgentURI(a.cluster, r.Shard, r.ID), r.PublicKey, orDuration(r.TTL, DefaultAgentTTL))
}

// OperatorRequest names the operator who gets a certificate.
type OperatorRequest struct {
	PublicKey ed25519.PublicKey
	ID        identity.ID
	Tenant    string
	Role      identity.Role // an operator's or a viewer's; empty means an operator's
	TTL       time.Duration // 0 means DefaultOperatorTTL
}

// IssueOperator returns the client certificate of an operator. Errors match
// [ErrRequest] or [ErrCAExpired].
func (a *Authority) IssueOperator(r OperatorRequest) (Certificate, error) {
	role := cmp.Or(r.Role, identity.RoleOperator)
	if !role.Operates() {
		return Certificate{}, fmt.Errorf("%w: role: %q must be one of operator, viewer", ErrRequest, role)
	}
	return a.issueClient(role, a.cluster, r.Tenant,
		identity.OperatorURI(a.cluster, r.ID), r.PublicKey, orDuration(r.TTL, DefaultOperatorTTL))
}

// issueClient reads its own certificate as a server would, so nothing leaves
// that would be refused or would name somebody else.
func (a *Authority) issueClient(role identity.Role, commonName, tenant string, uri *url.URL, key ed25519.PublicKey, ttl time.Duration) (Certificate, error) {
	cert, err := a.issue(&x509.Certificate{
		Subject:         pkix.Name{CommonName: commonName, Organization: []string{tenant}},
		URIs:            []*url.URL{uri},
		ExtKeyUsage:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		ExtraExtensions: []pkix.Extension{identity.RoleExtension(role)},
	}, key, ttl)
	if err != nil {
		return Certificate{}, err
	}
	if _, err := identity.PeerFromCertificate(cert.Leaf); err != nil {
		return Certificate{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return cert, nil
}

// ServerRequest names a server and where it can be reached.
type ServerRequest struct {
	PublicKey ed25519.PublicKey
	ServerID  string
	Shard     string
	DNS       []string // beside the shard's own name and identity.AnyServerName
	IPs       []netip.Addr
	TTL       time.Duration // 0 means DefaultServerTTL
}

// IssueServer returns the certificate of a server's listeners, which also lets
// it call other servers. It always has the names of the shard and the loopback
// addresses. Errors match [ErrRequest] or [ErrCAExpired].
func (a *Authority) IssueServer(r ServerRequest) (Certificate, error) {
	if err := identity.ValidateName(r.Shard); err != nil {
		return Certificate{}, fmt.Errorf("%w: shard: %w", ErrRequest, err)
	}
	names := append([]string{identity.ServerName(r.Shard, a.cluster), identity.AnyServerName}, r.DNS...)
	addrs := append([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, r.IPs...)
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: r.ServerID},
		DNSNames:    unique(names),
		IPAddresses: ips(addrs),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, r.PublicKey, orDuration(r.TTL, DefaultServerTTL))
}

// FileRequest describes a certificate that a machine uses for itself, such as
// that of a kubelet.
type FileRequest struct {
	PublicKey crypto.PublicKey // as ParseFilePublicKey returns it
	Subject   pkix.Name
	DNS       []string
	IPs       []netip.Addr
	URIs      []*url.URL
	Client    bool          // to be used by clients
	Server    bool          // to be used by servers
	TTL       time.Duration // 0 means DefaultFileTTL
}

// IssueFile returns a certificate without a role. It refuses the names that
// belong to Nstance itself, with which a machine could pose as a server. Errors
// match [ErrRequest], [ErrPublicKey] or [ErrCAExpired].
func (a *Authority) IssueFile(r FileRequest) (Certificate, error) {
	if err := checkStrength(r.PublicKey); err != nil {
		return Certificate{}, err
	}
	for _, name := range r.DNS {
		if reservedDNS(name) {
			return Certificate{}, fmt.Errorf("%w: DNS name %q belongs to Nstance itself", ErrRequest, name)
		}
	}
	for _, uri := range r.URIs {
		if strings.EqualFold(uri.Scheme, "nstance") {
			return Certificate{}, fmt.Errorf("%w: URI %q belongs to Nstance itself", ErrRequest, uri)
		}
	}
	var usage []x509.ExtKeyUsage
	if r.Client {
		usage = append(usage, x509.ExtKeyUsageClientAuth)
	}
	if r.Server {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	if usage == nil {
		return Certificate{}, fmt.Errorf("%w: it is neither for clients nor for servers", ErrRequest)
	}
	return a.issue(&x509.Certificate{
		Subject: r.Subject, DNSNames: unique(r.DNS), IPAddresses: ips(r.IPs), URIs: r.URIs, ExtKeyUsage: usage,
	}, r.PublicKey, orDuration(r.TTL, DefaultFileTTL))
}

func reservedDNS(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == identity.AnyServerName || name == "nstance" || strings.HasSuffix(name, ".nstance")
}

// issue adds to template what all leaves have in common, and signs it.
func (a *Authority) issue(template *x509.Certificate, key crypto.PublicKey, ttl time.Duration) (Certificate, error) {
	if pub, ok := key.(ed25519.PublicKey); ok && len(pub) != ed25519.PublicKeySize {
		return Certificate{}, fmt.Errorf("%w: the public key is missing", ErrRequest)
	}
	now := a.now()
	end := a.ca.cert.NotAfter
	if !now.Before(end) {
		return Certificate{}, fmt.Errorf("%w on %s", ErrCAExpired, end.UTC().Format(time.DateOnly))
	}
	serial, err := newSerial(a.rand)
	if err != nil {
		return Certificate{}, err
	}
	template.SerialNumber = serial
	template.NotBefore = now.Add(-backdate)
	template.NotAfter = now.Add(ttl)
	if template.NotAfter.After(end) {
		template.NotAfter = end
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	template.SubjectKeyId = subjectKeyID(key)
	leaf, err := sign(template, a.ca.cert, key, a.ca.key, a.rand)
	if err != nil {
		return Certificate{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return Certificate{
		PEM: EncodeCertificates(leaf), Leaf: leaf, Serial: identity.SerialString(leaf.SerialNumber),
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
	}, nil
}

func sign(template, parent *x509.Certificate, pub crypto.PublicKey, key ed25519.PrivateKey, r io.Reader) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(orRand(r), template, parent, pub, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// newSerial returns 128 random bits.
func newSerial(r io.Reader) (*big.Int, error) {
	b := make([]byte, 16)
	if _, err := io.ReadFull(orRand(r), b); err != nil {
		return nil, fmt.Errorf("new serial: read random bits: %w", err)
	}
	n := new(big.Int).SetBytes(b)
	if n.Sign() == 0 { // zero is not a serial; this happens once in 2^128
		n.SetInt64(1)
	}
	return n, nil
}

// subjectKeyID is the leftmost 160 bits of the SHA-256 of the key, as RFC 7093
// proposes. What cannot be encoded gets none here and is refused on signing.
func subjectKeyID(key crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(der)
	return sum[:20]
}

// unique sorts the names, drops empty ones and repetitions.
func unique(names []string) []string {
	out := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

func ips(addrs []netip.Addr) []net.IP {
	out := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !a.IsValid() })
	for i, a := range out {
		out[i] = a.Unmap().WithZone("")
	}
	slices.SortFunc(out, netip.Addr.Compare)
	var list []net.IP
	for _, a := range slices.Compact(out) {
		list = append(list, a.AsSlice())
	}
	return list
}

func orDuration(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
