package image

import (
	"bytes"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"nstance.dev/agent/paver/digest"
)

// Size is what is known of how much an image takes on the disk.
type Size struct {
	// Bytes of its root; at least so many until it is unpacked, 0 if nothing is known.
	Bytes int64
	// Unpacked: the cache has the root.
	Unpacked bool
}

// Size returns what the cache knows of an image: the size of its root, else that of its layers as its manifest
// says, or of its archive. Nothing is fetched, and nothing that is under way is waited for.
func (b *Builder) Size(src Source) (Size, error) {
	switch {
	case src.OCI != nil:
		return b.sizeOfOCI(src.OCI)
	case src.Archive != nil:
		d, err := digest.Parse(src.Archive.SHA256)
		if err != nil {
			return Size{}, fmt.Errorf("%w: archive.sha256: %w", ErrInvalid, err)
		}
		if size, is := b.cache.RootSize(rootKey("archive", d.String())); is {
			return Size{size, true}, nil
		}
		blob, err := b.cache.FindBlob(d)
		if blob == nil || err != nil {
			return Size{}, err
		}
		defer blob.Close()
		return Size{Bytes: blob.Size()}, nil
	case src.Debootstrap != nil:
		key, err := b.debootstrapKey(src.Debootstrap)
		if err != nil {
			return Size{}, err
		}
		size, is := b.cache.RootSize(key)
		return Size{size, is}, nil
	}
	return Size{}, nil
}

func (b *Builder) sizeOfOCI(src *OCI) (Size, error) {
	ref, err := src.reference()
	if err != nil || ref.digest.IsZero() {
		return Size{}, err
	}
	d := ref.digest
	data, err := b.cached(d)
	if err == nil && isIndex(data) {
		if d, err = b.choose(data); err == nil {
			data, err = b.cached(d)
		}
	}
	if err != nil || data == nil {
		return Size{}, err
	}
	if size, is := b.cache.RootSize(rootKey("oci", d.String())); is {
		return Size{size, true}, nil
	}
	m, err := v1.ParseManifest(bytes.NewReader(data))
	if err != nil {
		return Size{}, fmt.Errorf("%w: its manifest cannot be read", ErrRefused)
	}
	size := Size{}
	for _, l := range m.Layers {
		size.Bytes += max(l.Size, 0)
	}
	return size, nil
}

// cached is the content of a small blob; nil: the cache does not have it.
func (b *Builder) cached(d digest.Digest) ([]byte, error) {
	blob, err := b.cache.FindBlob(d)
	if blob == nil || err != nil {
		return nil, err
	}
	defer blob.Close()
	if blob.Size() > maxManifest {
		return nil, fmt.Errorf("%w: its manifest has more than %d bytes", ErrRefused, maxManifest)
	}
	r, err := blob.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
