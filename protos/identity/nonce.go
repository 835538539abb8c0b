package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// ErrNonceForm is matched by every error about the form of a nonce or the
// content of its claims. Its text never contains the token.
var ErrNonceForm = errors.New("malformed nonce")

// MaxNonceSize is the length of the longest nonce that anybody reads, in bytes.
const MaxNonceSize = 4 << 10

// NonceLeeway is how far the clocks of two servers may be apart: a nonce counts this much
// before its beginning and after its end.
const NonceLeeway = 30 * time.Second

// NonceAlgorithm is the one signature algorithm of a nonce, as its header
// names it.
const NonceAlgorithm = "EdDSA"

// Kinds of nonces: whom they let register.
const (
	NonceAgent    = "agent"
	NonceOperator = "operator"
)

// NonceClaims is what a registration nonce says. Times are seconds since 1970.
//
// The claims of a nonce for an operator leave Shard, Group, OnDemand and
// ConfigHash out. A nonce is a secret until it has been used: log neither the
// token nor TokenID.
type NonceClaims struct {
	Kind      string `json:"kind"`       // NonceAgent or NonceOperator
	Subject   string `json:"sub"`        // the instance's id, or the cluster's
	ClusterID string `json:"cluster_id"` // trust domain
	Tenant    string `json:"tenant"`

	Shard      string `json:"shard,omitempty"`
	Group      string `json:"group,omitempty"`
	OnDemand   bool   `json:"on_demand,omitempty"`
	ConfigHash string `json:"config_hash,omitempty"` // of the group's runtime configuration

	IssuedAt  int64  `json:"iat"`
	NotBefore int64  `json:"nbf"`
	ExpiresAt int64  `json:"exp"`
	TokenID   string `json:"jti"` // 128 random bits in hex
}

// NonceHeader is the header of a nonce.
type NonceHeader struct {
	Algorithm string `json:"alg"`
	Type      string `json:"typ,omitempty"`
	KeyID     string `json:"kid"`
}

var (
	tokenIDPattern    = regexp.MustCompile(`^[0-9a-f]{32}$`)
	configHashPattern = regexp.MustCompile(`^[A-Za-z0-9:_-]{1,128}$`)
)

// maxTime keeps times in a range where every consumer can compute with them:
// the end of the year 9999.
const maxTime = 253402300799

// Expiry returns the moment at which the nonce ends, in UTC.
func (c NonceClaims) Expiry() time.Time { return time.Unix(c.ExpiresAt, 0).UTC() }

// InstanceID returns the id in the subject of an agent's nonce.
func (c NonceClaims) InstanceID() (ID, error) { return ParseID(c.Subject) }

// Validate checks what the claims say by themselves: all that their kind needs
// is there and well-formed, and nothing else. Whether they fit this cluster and
// this moment, the caller decides. It reports everything that is wrong; each
// error matches [ErrNonceForm].
func (c NonceClaims) Validate() error {
	errs := []error{
		claim("cluster_id", ValidateName(c.ClusterID)),
		claim("tenant", ValidateName(c.Tenant)),
		c.validateTimes(),
	}
	switch c.Kind {
	case NonceAgent:
		errs = append(errs, c.validateAgent()...)
	case NonceOperator:
		errs = append(errs, c.validateOperator())
	default:
		errs = append(errs, fmt.Errorf("kind %s is neither agent nor operator", quote(c.Kind)))
	}
	if !tokenIDPattern.MatchString(c.TokenID) {
		errs = append(errs, errors.New("jti is not 32 hexadecimal digits"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrNonceForm, err)
	}
	return nil
}

func (c NonceClaims) validateAgent() []error {
	errs := []error{claim("shard", ValidateName(c.Shard)), claim("group", ValidateName(c.Group))}
	id, err := ParseID(c.Subject)
	switch {
	case err != nil:
		errs = append(errs, claim("sub", err))
	case id.Prefix() == OperatorPrefix:
		errs = append(errs, errors.New("sub is the id of an operator"))
	}
	if !configHashPattern.MatchString(c.ConfigHash) {
		errs = append(errs, errors.New("config_hash is not a hash"))
	}
	return errs
}

func (c NonceClaims) validateOperator() error {
	switch {
	case c.Subject != c.ClusterID:
		return errors.New("sub differs from cluster_id")
	case c.Shard != "" || c.Group != "" || c.OnDemand || c.ConfigHash != "":
		return errors.New("it has claims that only the nonce of an agent has")
	}
	return nil
}

func (c NonceClaims) validateTimes() error {
	for _, t := range []int64{c.IssuedAt, c.NotBefore, c.ExpiresAt} {
		if t <= 0 || t > maxTime {
			return errors.New("iat, nbf or exp is missing or out of range")
		}
	}
	if c.ExpiresAt <= c.NotBefore || c.ExpiresAt <= c.IssuedAt {
		return errors.New("exp is not after iat and nbf")
	}
	return nil
}

func claim(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// UnmarshalJSON reads claims strictly: one object of scalar values, in which no
// name comes twice or in another case. Claims of other names are ignored.
func (c *NonceClaims) UnmarshalJSON(data []byte) error {
	type plain NonceClaims
	var p plain
	if err := unmarshalStrict(data, &p, nonceClaimNames, false); err != nil {
		return fmt.Errorf("%w: claims: %w", ErrNonceForm, err)
	}
	*c = NonceClaims(p)
	return nil
}

// DecodeNonceHeader looks at the size, the three parts and the header of a
// token, which costs little and needs no key: the algorithm must be
// [NonceAlgorithm], a key id must be there, and no parameter that would change
// how the token is to be read. Errors match [ErrNonceForm].
func DecodeNonceHeader(token string) (NonceHeader, error) {
	parts, err := splitToken(token)
	if err != nil {
		return NonceHeader{}, err
	}
	data, err := decodePart(parts[0])
	if err != nil {
		return NonceHeader{}, fmt.Errorf("%w: header: %w", ErrNonceForm, err)
	}
	var h NonceHeader
	if err := unmarshalStrict(data, &h, nonceHeaderNames, true); err != nil {
		return NonceHeader{}, fmt.Errorf("%w: header: %w", ErrNonceForm, err)
	}
	switch {
	case h.Algorithm != NonceAlgorithm:
		return NonceHeader{}, fmt.Errorf("%w: header: alg is %s, must be %s", ErrNonceForm, quote(h.Algorithm), NonceAlgorithm)
	case h.Type != "" && h.Type != "JWT":
		return NonceHeader{}, fmt.Errorf("%w: header: typ is %s, must be JWT", ErrNonceForm, quote(h.Type))
	case h.KeyID == "":
		return NonceHeader{}, fmt.Errorf("%w: header: kid is missing", ErrNonceForm)
	}
	return h, nil
}

// DecodeNonceUnverified returns what a token claims, without looking at its
// signature: for an agent, which has no key to check it with and only wants to
// know what it was told. Header and claims are checked as [DecodeNonceHeader]
// and [NonceClaims.Validate] do. Errors match [ErrNonceForm].
func DecodeNonceUnverified(token string) (NonceClaims, error) {
	if _, err := DecodeNonceHeader(token); err != nil {
		return NonceClaims{}, err
	}
	parts, err := splitToken(token)
	if err != nil {
		return NonceClaims{}, err
	}
	data, err := decodePart(parts[1])
	if err != nil {
		return NonceClaims{}, fmt.Errorf("%w: claims: %w", ErrNonceForm, err)
	}
	var c NonceClaims
	if err := c.UnmarshalJSON(data); err != nil {
		return NonceClaims{}, err
	}
	if err := c.Validate(); err != nil {
		return NonceClaims{}, err
	}
	return c, nil
}

// splitToken returns header, claims and signature of a token, still encoded.
func splitToken(token string) ([3]string, error) {
	if len(token) > MaxNonceSize {
		return [3]string{}, fmt.Errorf("%w: %d bytes long, at most %d are allowed", ErrNonceForm, len(token), MaxNonceSize)
	}
	if strings.ContainsFunc(token, notTokenRune) {
		return [3]string{}, fmt.Errorf("%w: it contains a character that is neither of base64url nor a dot", ErrNonceForm)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return [3]string{}, fmt.Errorf("%w: it does not have three parts with dots between them", ErrNonceForm)
	}
	return [3]string(parts), nil
}

// notTokenRune is true for line breaks too, which decoders overlook: with them
// one token would have many spellings, and so many hashes.
func notTokenRune(r rune) bool {
	return notNameRune(r) && (r < 'A' || r > 'Z') && r != '_' && r != '.'
}

func decodePart(s string) ([]byte, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errors.New("it is not unpadded base64url")
	}
	if !json.Valid(data) {
		return nil, errors.New("it is not JSON")
	}
	return data, nil
}
