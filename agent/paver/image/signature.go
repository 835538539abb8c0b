package image

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/download"
)

const (
	signatureType       = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	payloadType         = "cosign container image signature"
	maxPayload          = 64 << 10
	maxSignatures       = 64 // that are looked at
)

// signer is a note for the root that says which key has signed the image; empty if none was
// asked for, or the root has the note of a key that still counts. d is the digest of the
// image for this architecture, which may be signed instead of the list that names it.
func (p *pull) signer(ctx context.Context, root *cache.Root, d digest.Digest) (string, error) {
	keys := p.b.opts.Keys
	if len(keys) == 0 {
		return "", nil
	}
	for _, key := range keys {
		note, err := noteOf(key)
		if err != nil {
			return "", err
		}
		if root != nil && root.Notes[note] == p.ref.digest.String() {
			return "", nil
		}
	}
	var errs []error
	for _, signed := range []digest.Digest{p.ref.digest, d} {
		var note string
		err := p.repo.each(ctx, "signature", func(e *endpoint, client *http.Client) (err error) {
			note, err = p.signerAt(ctx, e, client, signed)
			return err
		})
		if err == nil || context.Cause(ctx) != nil {
			return note, err
		}
		errs = append(errs, err)
		if d == p.ref.digest {
			break
		}
	}
	return "", fmt.Errorf("%w: no signature of a key that the policy of this host names: %w", ErrRefused, errors.Join(errs...))
}

// noteOf names a key in the seal of a root.
func noteOf(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("key for signatures: %w", err)
	}
	return "signed by " + digest.Of(der).String(), nil
}

// signerAt looks for a signature at one endpoint.
func (p *pull) signerAt(ctx context.Context, e *endpoint, client *http.Client, signed digest.Digest) (string, error) {
	request := download.Request{Client: client, Limit: maxManifest, Attempts: e.attempts, Accept: accepted}
	request.URL = e.url("manifests", "sha256-"+signed.Hex()+".sig")
	data, _, err := download.Small(ctx, request)
	if err != nil {
		return "", err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(data))
	if err != nil {
		return "", errors.New("its manifest cannot be read")
	}
	for _, l := range manifest.Layers[:min(len(manifest.Layers), maxSignatures)] {
		signature, err := base64.StdEncoding.DecodeString(l.Annotations[signatureAnnotation])
		if err != nil || len(signature) == 0 || string(l.MediaType) != signatureType {
			continue
		}
		// The signature covers the payload, whatever the manifest says of it.
		request.URL, request.Limit, request.Accept = e.url("blobs", l.Digest.String()), maxPayload, ""
		payload, _, err := download.Small(ctx, request)
		if err != nil {
			return "", err
		}
		for _, key := range p.b.opts.Keys {
			if verify(key, payload, signature) && names(payload, signed) {
				return noteOf(key)
			}
		}
	}
	return "", fmt.Errorf("none of %d signatures is right", len(manifest.Layers))
}

// minRSA is how many bits an RSA key must have.
const minRSA = 2048

// verify says whether the key has signed the payload.
func verify(key crypto.PublicKey, payload, signature []byte) bool {
	sum := sha256.Sum256(payload)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, payload, signature)
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSA && rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

// names says whether a payload is about the image.
func names(payload []byte, signed digest.Digest) bool {
	var claim struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	return json.Unmarshal(payload, &claim) == nil && claim.Critical.Type == payloadType && claim.Critical.Image.Digest == signed.String()
}
