package pki

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"nstance.dev/protos/identity"
)

// ErrNonce is the whole answer to whoever presents a bad nonce: it does not help
// to make a better one. The reason is in [NonceError].
var ErrNonce = errors.New("invalid nonce")

// NonceError is an [ErrNonce] that knows its reason. Only Error may leave the
// server; Reason is for its log, and contains no part of a secret.
type NonceError struct{ Reason error }

// Error returns the text of [ErrNonce].
func (e *NonceError) Error() string { return ErrNonce.Error() }

// Unwrap makes both ErrNonce and the reason match.
func (e *NonceError) Unwrap() []error { return []error{ErrNonce, e.Reason} }

// NonceReason returns why a nonce was refused, for a log; any other error as it is.
func NonceReason(err error) error {
	var detail *NonceError
	if errors.As(err, &detail) {
		return detail.Reason
	}
	return err
}

// HashNonce returns the SHA-256 of a token in hex: the only form in which a
// nonce is stored.
func HashNonce(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// nonceClaims makes the claims known to the JWT library, which checks the times.
// Everything else about them is checked here.
type nonceClaims struct{ identity.NonceClaims }

func (c nonceClaims) GetExpirationTime() (*jwt.NumericDate, error) { return date(c.ExpiresAt), nil }
func (c nonceClaims) GetIssuedAt() (*jwt.NumericDate, error)       { return date(c.IssuedAt), nil }
func (c nonceClaims) GetNotBefore() (*jwt.NumericDate, error)      { return date(c.NotBefore), nil }
func (c nonceClaims) GetIssuer() (string, error)                   { return "", nil }
func (c nonceClaims) GetSubject() (string, error)                  { return c.Subject, nil }
func (c nonceClaims) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }

func date(seconds int64) *jwt.NumericDate {
	if seconds == 0 {
		return nil
	}
	return jwt.NewNumericDate(time.Unix(seconds, 0))
}

// NonceSigner makes nonces.
type NonceSigner struct {
	key  ed25519.PrivateKey
	kid  string
	rand io.Reader
}

// NewNonceSigner returns a signer that signs with the first of keys, as
// [EnsureNonceKeys] returns them. A nil random means crypto/rand.Reader.
func NewNonceSigner(keys []ed25519.PrivateKey, random io.Reader) (*NonceSigner, error) {
	if len(keys) == 0 {
		return nil, errors.New("nonce signer: there is no key")
	}
	return &NonceSigner{key: keys[0], kid: KeyID(keys[0].Public().(ed25519.PublicKey)), rand: orRand(random)}, nil
}

// KeyID returns the short name of the key that signs.
func (s *NonceSigner) KeyID() string { return s.kid }

// Sign returns the token for claims. An empty TokenID is filled with a new one,
// a zero NotBefore with IssuedAt. Claims that a verifier would refuse are an
// error that matches [identity.ErrNonceForm].
func (s *NonceSigner) Sign(claims identity.NonceClaims) (string, error) {
	if claims.TokenID == "" {
		var id [16]byte
		if _, err := io.ReadFull(s.rand, id[:]); err != nil {
			return "", fmt.Errorf("sign nonce: read random bits: %w", err)
		}
		claims.TokenID = hex.EncodeToString(id[:])
	}
	if claims.NotBefore == 0 {
		claims.NotBefore = claims.IssuedAt
	}
	if err := claims.Validate(); err != nil {
		return "", fmt.Errorf("sign nonce: %w", err)
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, nonceClaims{claims})
	t.Header["kid"] = s.kid
	token, err := t.SignedString(s.key)
	if err != nil {
		return "", fmt.Errorf("sign nonce: %w", err)
	}
	return token, nil
}

// NonceVerifier checks nonces of one cluster. Cheap checks come first, so a
// listener open to everybody can stop between the two:
//
//  1. [NonceVerifier.CheckForm]: size, form, algorithm and key id; no cryptography.
//  2. [NonceVerifier.Verify]: signature, times, cluster and the form of all claims.
//
// Whether shard, tenant, group and instance are the right ones, and whether the
// nonce was used, is left to the caller.
type NonceVerifier struct {
	cluster string
	keys    map[string][]ed25519.PublicKey // by key id; two keys may share one
}

// NewNonceVerifier returns a verifier for nonces that any of keys signed.
func NewNonceVerifier(cluster string, keys []ed25519.PrivateKey) *NonceVerifier {
	v := &NonceVerifier{cluster: cluster, keys: map[string][]ed25519.PublicKey{}}
	for _, key := range keys {
		public := key.Public().(ed25519.PublicKey)
		id := KeyID(public)
		v.keys[id] = append(v.keys[id], public)
	}
	return v
}

// Equal reports whether both accept the same nonces.
func (v *NonceVerifier) Equal(other *NonceVerifier) bool {
	sameKeys := func(a, b []ed25519.PublicKey) bool {
		return slices.EqualFunc(a, b, func(x, y ed25519.PublicKey) bool { return x.Equal(y) })
	}
	return v.cluster == other.cluster && maps.EqualFunc(v.keys, other.keys, sameKeys)
}

// CheckForm tells, without cryptography, whether a token is worth a closer look. Errors
// are a *[NonceError].
func (v *NonceVerifier) CheckForm(token string) error {
	_, err := v.signers(token)
	return err
}

func (v *NonceVerifier) signers(token string) ([]ed25519.PublicKey, error) {
	header, err := identity.DecodeNonceHeader(token)
	if err != nil {
		return nil, &NonceError{err}
	}
	keys, ok := v.keys[header.KeyID]
	if !ok {
		return nil, &NonceError{fmt.Errorf("key id %.16q is not one of ours", header.KeyID)}
	}
	return keys, nil
}

// Verify returns what a token says, if it is signed by one of the keys, in time
// at now and for this cluster. Errors are a *[NonceError].
func (v *NonceVerifier) Verify(token string, now time.Time) (identity.NonceClaims, error) {
	keys, err := v.signers(token)
	if err != nil {
		return identity.NonceClaims{}, err
	}
	set := jwt.VerificationKeySet{}
	for _, key := range keys {
		set.Keys = append(set.Keys, key)
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{identity.NonceAlgorithm}),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(identity.NonceLeeway),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithStrictDecoding(),
	)
	var c nonceClaims
	if _, err := parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return set, nil }); err != nil {
		return identity.NonceClaims{}, &NonceError{err}
	}
	if err := c.Validate(); err != nil {
		return identity.NonceClaims{}, &NonceError{err}
	}
	if c.ClusterID != v.cluster {
		return identity.NonceClaims{}, &NonceError{fmt.Errorf("it is for cluster %q", c.ClusterID)}
	}
	return c.NonceClaims, nil
}
