package image_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/treetest"
)

// sign makes a signature as cosign does with a key of its own.
func sign(t testing.TB, key crypto.Signer, payload []byte) string {
	t.Helper()
	var signature []byte
	var err error
	if _, ok := key.(ed25519.PrivateKey); ok {
		signature, err = key.Sign(rand.Reader, payload, crypto.Hash(0))
	} else {
		sum := sha256.Sum256(payload)
		signature, err = key.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(signature)
}

func payload(digest string) []byte {
	return []byte(`{"critical":{"identity":{"docker-reference":"x"},"image":{"docker-manifest-digest":"` + digest + `"},"type":"cosign container image signature"},"optional":null}`)
}

// pushSignature puts signatures beside the image of a digest.
func (s *server) pushSignature(t testing.TB, repo, digest string, signed []byte, signatures ...string) {
	t.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, signature := range signatures {
		var err error
		img, err = mutate.Append(img, mutate.Addendum{
			Layer:       static.NewLayer(signed, "application/vnd.dev.cosign.simplesigning.v1+json"),
			Annotations: map[string]string{"dev.cosignproject.cosign/signature": signature},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.push(t, repo+":"+strings.Replace(digest, ":", "-", 1)+".sig", img)
}

func keysOf(t testing.TB) map[string]crypto.Signer {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{"ecdsa": ec, "ed25519": ed, "rsa": long}
}

func TestASignatureIsAskedForWhereKeysAre(t *testing.T) {
	keys := keysOf(t)
	for kind, key := range keys {
		t.Run(kind, func(t *testing.T) {
			s := newServer(t)
			img := simple(t, treetest.File("a", kind))
			d := digestOf(t, img)
			s.push(t, "node:1", img)
			h := newHost(t, image.Options{Roots: s.roots, Keys: []crypto.PublicKey{keysOf(t)["ecdsa"].Public(), key.Public()}})
			refused := func(what string) {
				t.Helper()
				if _, err := h.ensure(t, oci(s, "node:1")); !errors.Is(err, image.ErrRefused) {
					t.Errorf("%s: %v", what, err)
				}
			}
			refused("no signature")
			other := "sha256:" + strings.Repeat("0", 64)
			s.pushSignature(t, "node", d, payload(other), sign(t, key, payload(other)))
			refused("that of another image")
			s.pushSignature(t, "node", d, payload(d), sign(t, key, payload(other)), "%%%", "")
			refused("that of another payload")
			s.pushSignature(t, "node", d, payload(d), sign(t, keysOf(t)[kind], payload(d)))
			refused("that of a strange key")
			wrongType := []byte(strings.Replace(string(payload(d)), "cosign container", "another", 1))
			s.pushSignature(t, "node", d, wrongType, sign(t, key, wrongType))
			refused("that of something else")
			s.pushSignature(t, "node", d, payload(d), sign(t, keysOf(t)[kind], payload(d)), sign(t, key, payload(d)))
			if got, err := h.ensure(t, oci(s, "node:1")); err != nil || got != "a="+kind {
				t.Fatalf("got %q, %v", got, err)
			}

			// The root remembers who has signed it: the registry may be away.
			s.answer(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotFound); return true })
			h.restart(t)
			if _, err := h.ensure(t, oci(s, "node:1", pinned(d))); err != nil {
				t.Errorf("without the registry: %v", err)
			}
			// A key that counts no longer does not vouch for what is there.
			h.opts.Keys = h.opts.Keys[:1]
			h.restart(t)
			if _, err := h.ensure(t, oci(s, "node:1", pinned(d))); !errors.Is(err, image.ErrRefused) {
				t.Errorf("with another key: %v", err)
			}
		})
	}
}

func TestTheListOrTheImageMayBeSigned(t *testing.T) {
	key := keysOf(t)["ecdsa"]
	img := simple(t, treetest.File("a", "1"))
	list := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	for _, d := range []string{digestOf(t, img), digestOf(t, list)} {
		s := newServer(t)
		s.push(t, "node:1", list)
		s.pushSignature(t, "node", d, payload(d), sign(t, key, payload(d)))
		h := newHost(t, image.Options{Roots: s.roots, Keys: []crypto.PublicKey{key.Public()}})
		if _, err := h.ensure(t, oci(s, "node:1")); err != nil {
			t.Error(err)
		}
	}
}

func TestAShortKeySignsNothing(t *testing.T) {
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	img := simple(t)
	s.push(t, "node:1", img)
	d := digestOf(t, img)
	s.pushSignature(t, "node", d, payload(d), sign(t, short, payload(d)))
	h := newHost(t, image.Options{Roots: s.roots, Keys: []crypto.PublicKey{short.Public()}})
	if _, err := h.ensure(t, oci(s, "node:1")); !errors.Is(err, image.ErrRefused) {
		t.Errorf("got %v", err)
	}
}

func TestWhatHasNoSignatureIsRefusedWhereKeysAre(t *testing.T) {
	h := newHost(t, image.Options{Keys: []crypto.PublicKey{keysOf(t)["ecdsa"].Public()}})
	for _, src := range []image.Source{
		{Archive: &image.Archive{URL: "https://example.com/a", SHA256: "sha256:" + hex}}, {Debootstrap: &image.Debootstrap{Suite: "bookworm"}},
	} {
		if _, err := h.ensure(t, src); !errors.Is(err, image.ErrRefused) {
			t.Errorf("got %v", err)
		}
	}
}
