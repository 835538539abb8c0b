package pki

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"nstance.dev/server/secrets"
)

// The keys of nonces are changed in steps, such that at no moment a nonce is
// refused for its key:
//
//  1. A new key is announced: it stands behind the one that signs, and every
//     server learns to accept what it will sign.
//  2. Once all have had the time to learn it, it goes to the front and signs. The
//     one before retires: it still verifies.
//  3. Once no nonce of a retired key can be in time any more, that key goes.
//
// When a key was announced or retired stands in the headers of its PEM block,
// which older servers pass over.
const (
	announcedHeader = "Announced"
	retiredHeader   = "Retired"
)

// NonceKey is a key that signs nonces, did, or will.
type NonceKey struct {
	Key       ed25519.PrivateKey
	Announced time.Time // zero: it signs, or did
	Retired   time.Time // zero: it signs, or will, or it is not known since when it does not
}

// ParseNonceKeys reads the secret [NonceKeySecret]: the key that signs, then the
// others. Errors say nothing of the content.
func ParseNonceKeys(data secrets.Secret) ([]NonceKey, error) {
	keys, err := ParsePrivateKeys(data)
	if err != nil {
		return nil, err
	}
	var out []NonceKey
	rest := []byte(data)
	for i, key := range keys {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		nonceKey := NonceKey{Key: key}
		for header, at := range map[string]*time.Time{announcedHeader: &nonceKey.Announced, retiredHeader: &nonceKey.Retired} {
			text, ok := block.Headers[header]
			if !ok {
				continue
			}
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return nil, fmt.Errorf("block %d: header %s is not a time of the form 2006-01-02T15:04:05Z", i+1, header)
			}
		}
		out = append(out, nonceKey)
	}
	return out, nil
}

// EncodeNonceKeys writes what [ParseNonceKeys] reads. Times are kept to the second.
func EncodeNonceKeys(keys []NonceKey) (secrets.Secret, error) {
	var out bytes.Buffer
	for _, k := range keys {
		der, err := x509.MarshalPKCS8PrivateKey(k.Key)
		if err != nil {
			return nil, fmt.Errorf("encode private key: %w", err)
		}
		block := &pem.Block{Type: pemPrivateKey, Bytes: der, Headers: map[string]string{}}
		for header, at := range map[string]time.Time{announcedHeader: k.Announced, retiredHeader: k.Retired} {
			if !at.IsZero() {
				block.Headers[header] = at.UTC().Format(time.RFC3339)
			}
		}
		if err := pem.Encode(&out, block); err != nil {
			return nil, fmt.Errorf("encode private key: %w", err)
		}
	}
	return out.Bytes(), nil
}

// AnnounceNonceKey returns keys with one more that is to sign later: the key that
// next makes, unless one is announced already.
func AnnounceNonceKey(keys []NonceKey, now time.Time, next func() (ed25519.PrivateKey, error)) ([]NonceKey, error) {
	if announced(keys) > 0 {
		return keys, nil
	}
	key, err := next()
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(keys), NonceKey{Key: key, Announced: now}), nil
}

// PromoteNonceKey returns keys with the announced one in front, if it was
// announced settle ago or more; the one that signed so far retires. Else it
// returns keys as they are, and how long it still has to wait: 0 if there is
// nothing to wait for.
func PromoteNonceKey(keys []NonceKey, now time.Time, settle time.Duration) ([]NonceKey, time.Duration) {
	i := announced(keys)
	if i <= 0 {
		return keys, 0
	}
	if wait := keys[i].Announced.Add(settle).Sub(now); wait > 0 {
		return keys, wait
	}
	out := []NonceKey{{Key: keys[i].Key}}
	for j, k := range keys {
		if j == 0 {
			k.Retired = now
		}
		if j != i {
			out = append(out, k)
		}
	}
	return out, 0
}

// PruneNonceKeys returns keys without those that retired life ago or more. Of one
// that does not sign and does not say since when, the time begins now.
func PruneNonceKeys(keys []NonceKey, now time.Time, life time.Duration) []NonceKey {
	var out []NonceKey
	for i, k := range keys {
		if i > 0 && k.Announced.IsZero() {
			if k.Retired.IsZero() {
				k.Retired = now
			}
			if !k.Retired.Add(life).After(now) {
				continue
			}
		}
		out = append(out, k)
	}
	return out
}

// announced returns the index of the announced key, -1 if there is none. The
// first key signs, whatever it says.
func announced(keys []NonceKey) int {
	i := slices.IndexFunc(keys[min(1, len(keys)):], func(k NonceKey) bool { return !k.Announced.IsZero() })
	if i < 0 {
		return -1
	}
	return i + 1
}

// ReadNonceKeys reads the secret [NonceKeySecret]. Without one the error matches
// [ErrNotInitialized].
func ReadNonceKeys(ctx context.Context, store secrets.Store) ([]NonceKey, error) {
	value, err := store.Get(ctx, NonceKeySecret)
	if errors.Is(err, secrets.ErrNotFound) {
		return nil, fmt.Errorf("%w: secret %s does not exist yet", ErrNotInitialized, NonceKeySecret)
	}
	if err != nil {
		return nil, err
	}
	keys, err := ParseNonceKeys(value)
	if err != nil {
		return nil, fmt.Errorf("%w: secret %s: %w", ErrCAUnreadable, NonceKeySecret, err)
	}
	return keys, nil
}

// WriteNonceKeys stores keys and reads them back. It replaces whatever is there:
// only one at a time may change them.
func WriteNonceKeys(ctx context.Context, store secrets.Store, keys []NonceKey) error {
	value, err := EncodeNonceKeys(keys)
	if err != nil {
		return err
	}
	if err := store.Put(ctx, NonceKeySecret, value, secrets.Overwrite); err != nil {
		return err
	}
	stored, err := store.Get(ctx, NonceKeySecret)
	if err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	if !bytes.Equal(stored, value) {
		return fmt.Errorf("secret %s: another client is changing it at the same time; start over", NonceKeySecret)
	}
	return nil
}
