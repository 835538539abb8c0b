package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
)

// box encrypts values. A sealed value is a random nonce of 12 bytes, the
// ciphertext and its tag; the secret's name is bound to it as associated data,
// so a value that somebody stores under another name does not open.
type box struct {
	ciphers []cipher.AEAD // the first encrypts, each may decrypt
}

func newBox(keys []Key) (box, error) {
	var b box
	for _, key := range keys {
		block, err := aes.NewCipher(key.bytes[:])
		if err != nil {
			return box{}, fmt.Errorf("%w: %w", ErrKey, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return box{}, fmt.Errorf("%w: %w", ErrKey, err)
		}
		b.ciphers = append(b.ciphers, aead)
	}
	return b, nil
}

func (b box) seal(name string, value []byte) ([]byte, error) {
	aead := b.ciphers[0]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(value)+aead.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("read random bits: %w", err)
	}
	return aead.Seal(nonce, nonce, value, []byte(name)), nil
}

// current reports whether the first key opens a value, with the name bound.
func (b box) current(name string, sealed []byte) bool {
	first := box{ciphers: b.ciphers[:1]}
	_, err := first.openWith(sealed, []byte(name))
	return err == nil
}

// open tries every key with the name bound, then every key without: values that
// other tools wrote have no name bound.
func (b box) open(name string, sealed []byte) ([]byte, error) {
	if value, err := b.openWith(sealed, []byte(name)); err == nil {
		return value, nil
	}
	return b.openWith(sealed, nil)
}

func (b box) openWith(sealed, data []byte) ([]byte, error) {
	for _, aead := range b.ciphers {
		if len(sealed) < aead.NonceSize()+aead.Overhead() {
			return nil, fmt.Errorf("%w: %d bytes are too short for an encrypted value", ErrUnreadable, len(sealed))
		}
		nonce, ciphertext := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
		if value, err := aead.Open(nil, nonce, ciphertext, data); err == nil {
			return value, nil
		}
	}
	return nil, fmt.Errorf("%w: none of %d keys opens it", ErrUnreadable, len(b.ciphers))
}
