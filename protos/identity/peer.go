package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
)

// What can be wrong with a client certificate, as far as a server's answer
// depends on it.
var (
	// ErrBadCertificate: it does not say who its owner is in the one form that
	// our authority issues. The caller is unauthenticated.
	ErrBadCertificate = errors.New("certificate names no owner")
	// ErrRole: it has no role, or not the one needed here. The caller is
	// authenticated, and not permitted.
	ErrRole = errors.New("certificate has not the role")
)

// Peer is the owner of a client certificate. It is the only source of a
// caller's role, tenant and name: no field of a request widens it.
type Peer struct {
	Role       Role
	Tenant     string
	CommonName string // an agent's instance id, an operator's cluster
	Cluster    string
	Shard      string // of an agent; empty for an operator or a viewer
	ID         ID     // of the instance or the operator
	Serial     string // as SerialString writes it
	NotAfter   time.Time
	Key        [ed25519.PublicKeySize]byte // of the certificate; zero: not known
}

// Require returns nil if the peer has role, else an error that matches [ErrRole].
func (p Peer) Require(role Role) error {
	if p.Role != role {
		return fmt.Errorf("%w: it has %q, needed is %q", ErrRole, p.Role, role)
	}
	return nil
}

// RequireOperates returns nil if the peer may call the operators' service, else an error
// that matches [ErrRole].
func (p Peer) RequireOperates() error {
	if p.Role == RoleViewer {
		return nil
	}
	return p.Require(RoleOperator)
}

// PeerFromCertificate reads who owns cert. It trusts cert: the caller has
// verified its chain, its time and its usage, as a TLS server does that requires
// client certificates.
//
// Errors match [ErrRole] if the role extension is missing or holds no known
// role, and [ErrBadCertificate] if anything else is not as it must be: not
// an Ed25519 key, not
// exactly one organization, no common name, not exactly one URI of the role's
// form, or a common name that differs from the one in the URI.
func PeerFromCertificate(cert *x509.Certificate) (Peer, error) {
	role, err := certificateRole(cert)
	if err != nil {
		return Peer{}, err
	}
	p := Peer{
		Role:       role,
		CommonName: cert.Subject.CommonName,
		Serial:     SerialString(cert.SerialNumber),
		NotAfter:   cert.NotAfter,
	}
	key, ok := cert.PublicKey.(ed25519.PublicKey)
	if !ok || WeakKey(key) {
		return Peer{}, fmt.Errorf("%w: its key is not one of Ed25519", ErrBadCertificate)
	}
	p.Key = [ed25519.PublicKeySize]byte(key)
	if n := len(cert.Subject.Organization); n != 1 {
		return Peer{}, fmt.Errorf("%w: it has %d organizations, must have one, the tenant", ErrBadCertificate, n)
	}
	p.Tenant = cert.Subject.Organization[0]
	if err := ValidateName(p.Tenant); err != nil {
		return Peer{}, fmt.Errorf("%w: organization: %w", ErrBadCertificate, err)
	}
	if p.CommonName == "" {
		return Peer{}, fmt.Errorf("%w: it has no common name", ErrBadCertificate)
	}
	if n := len(cert.URIs); n != 1 {
		return Peer{}, fmt.Errorf("%w: it has %d URIs, must have one", ErrBadCertificate, n)
	}
	if err := p.readURI(cert.URIs[0]); err != nil {
		return Peer{}, fmt.Errorf("%w: URI: %w", ErrBadCertificate, err)
	}
	if want := p.expectedCommonName(); p.CommonName != want {
		return Peer{}, fmt.Errorf("%w: its common name %s differs from %q in its URI", ErrBadCertificate, quote(p.CommonName), want)
	}
	return p, nil
}

func (p *Peer) expectedCommonName() string {
	if p.Role == RoleAgent {
		return p.ID.String()
	}
	return p.Cluster
}

// readURI sets Cluster, Shard and ID from the URI that the peer's role has.
// Comparing with what would have been written refuses queries, fragments,
// escapes and other spellings at once.
func (p *Peer) readURI(u *url.URL) error {
	var id string
	switch parts := strings.Split(u.Path, "/"); {
	case p.Role == RoleAgent && len(parts) == 6:
		p.Cluster, p.Shard, id = parts[1], parts[3], parts[5]
	case p.Role.Operates() && len(parts) == 4:
		p.Cluster, id = parts[1], parts[3]
	default:
		return fmt.Errorf("it is not of the form for role %q", p.Role)
	}
	var err error
	if p.ID, err = ParseID(id); err != nil {
		return err
	}
	if (p.ID.Prefix() == OperatorPrefix) != p.Role.Operates() {
		return fmt.Errorf("id %q is not one of role %q", id, p.Role)
	}
	want := OperatorURI(p.Cluster, p.ID)
	if p.Role == RoleAgent {
		want = AgentURI(p.Cluster, p.Shard, p.ID)
		if err := ValidateName(p.Shard); err != nil {
			return fmt.Errorf("shard: %w", err)
		}
	}
	if err := ValidateName(p.Cluster); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if u.String() != want.String() {
		return fmt.Errorf("it is not of the form for role %q", p.Role)
	}
	return nil
}

// AgentURI returns the URI in an agent's certificate.
func AgentURI(cluster, shard string, id ID) *url.URL {
	return &url.URL{Scheme: "nstance", Host: "cluster", Path: "/" + cluster + "/shard/" + shard + "/agent/" + id.String()}
}

// OperatorURI returns the URI in an operator's certificate.
func OperatorURI(cluster string, id ID) *url.URL {
	return &url.URL{Scheme: "nstance", Host: "cluster", Path: "/" + cluster + "/operator/" + id.String()}
}

// SerialString writes a certificate's serial number as it stands in records:
// 32 hexadecimal digits or, for a number of more than 128 bits, as many as it
// needs. It returns "" for nil.
func SerialString(serial *big.Int) string {
	if serial == nil {
		return ""
	}
	return fmt.Sprintf("%032x", serial)
}

// RoleExtension returns the certificate extension that says role.
func RoleExtension(role Role) pkix.Extension {
	return pkix.Extension{Id: RoleOID, Value: roleValue(role)}
}

// roleValue encodes a role. A text marshals without fail as long as it is valid
// UTF-8; for others the value is empty, which reads as no role.
func roleValue(role Role) []byte {
	value, err := asn1.MarshalWithParams(string(role), "utf8")
	if err != nil {
		return nil
	}
	return value
}

// certificateRole compares encodings instead of decoding, so a role has one.
func certificateRole(cert *x509.Certificate) (Role, error) {
	var values [][]byte
	for _, e := range cert.Extensions {
		if e.Id.Equal(RoleOID) {
			values = append(values, e.Value)
		}
	}
	if len(values) != 1 {
		return "", fmt.Errorf("%w: it has %d role extensions, must have one", ErrRole, len(values))
	}
	for _, role := range []Role{RoleAgent, RoleOperator, RoleViewer} {
		if bytes.Equal(values[0], roleValue(role)) {
			return role, nil
		}
	}
	return "", fmt.Errorf("%w: its role must be one of agent, operator, viewer", ErrRole)
}
