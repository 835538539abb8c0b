// Package digest names content by its SHA-256 and checks it while it is read.
//
// A digest is written as registries write it, "sha256:" and 64 hexadecimal digits. Other
// algorithms are not supported.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

// Digest is the SHA-256 of content. The zero value stands for none.
type Digest [sha256.Size]byte

// ErrMismatch is matched by the error about content that has another digest or size than it
// must have.
var ErrMismatch = errors.New("the content is not what its digest says")

const prefix = "sha256:"

// Parse reads a digest.
func Parse(text string) (d Digest, err error) {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok || len(digits) != hex.EncodedLen(len(d)) || strings.ToLower(digits) != digits {
		return d, fmt.Errorf(`%.80q is no digest: it must be "sha256:" and 64 hexadecimal digits`, text)
	}
	if _, err := hex.Decode(d[:], []byte(digits)); err != nil {
		return Digest{}, fmt.Errorf(`%.80q is no digest: it must be "sha256:" and 64 hexadecimal digits`, text)
	}
	return d, nil
}

// Of is the digest of data.
func Of(data []byte) Digest { return sha256.Sum256(data) }

// Sum is the digest of what was written to a hash of [New].
func Sum(h hash.Hash) (d Digest) {
	h.Sum(d[:0])
	return d
}

// New returns a hash for [Sum].
func New() hash.Hash { return sha256.New() }

// String is the digest as registries write it.
func (d Digest) String() string { return prefix + d.Hex() }

// Hex is the digest without the name of its algorithm.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// IsZero says whether d stands for none.
func (d Digest) IsZero() bool { return d == Digest{} }

// Verify returns r's content. Where it ends it returns an error that matches [ErrMismatch]
// instead of io.EOF if the content does not have the digest. Until then nothing of it is
// known to be right.
func Verify(r io.Reader, want Digest) io.Reader { return &verifier{r: r, hash: New(), want: want} }

type verifier struct {
	r    io.Reader
	hash hash.Hash
	want Digest
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.hash.Write(p[:n])
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if got := Sum(v.hash); got != v.want {
		return n, fmt.Errorf("%w: it has %s, not %s", ErrMismatch, got, v.want)
	}
	return n, io.EOF
}
