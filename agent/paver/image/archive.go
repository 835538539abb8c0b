package image

import (
	"context"
	"fmt"
	"io"
	"os"

	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/download"
	"nstance.dev/agent/paver/extract"
)

// archive makes a root out of a tar file.
func (b *Builder) archive(ctx context.Context, src *Archive, progress Progress) (*Image, error) {
	address, err := Address(src.URL)
	if err != nil {
		return nil, err
	}
	d, err := digest.Parse(src.SHA256)
	if err != nil {
		return nil, fmt.Errorf("%w: archive.sha256: %w", ErrInvalid, err)
	}
	if len(b.opts.Keys) > 0 {
		return nil, fmt.Errorf("%w: an archive has no signature, and the policy of this host asks for one", ErrRefused)
	}
	key := rootKey("archive", d.String())
	root, err := b.cache.FindRoot(ctx, key)
	if err != nil || root != nil {
		return imageOf(root, d, err)
	}
	blob, err := b.Fetch(ctx, File{address.String(), d}, "archive", progress)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	if err := b.cache.Trim(ctx, blob.Size()); err != nil {
		return nil, err
	}
	root, err = b.cache.Root(ctx, key, func(ctx context.Context, dir string) (map[string]string, error) {
		if err := b.unpackArchive(ctx, blob, dir); err != nil {
			return nil, fmt.Errorf("archive %s: %w", download.Plain(address), err)
		}
		return map[string]string{"archive": download.Plain(address), "digest": d.String()}, checkBootable(dir)
	})
	return imageOf(root, d, err)
}

func imageOf(root *cache.Root, d digest.Digest, err error) (*Image, error) {
	if err != nil {
		return nil, err
	}
	return &Image{Root: root, Digest: d}, nil
}

func (b *Builder) unpackArchive(ctx context.Context, blob *cache.Blob, dir string) error {
	t, err := extract.Open(dir, b.opts.Limits)
	if err != nil {
		return err
	}
	defer t.Close()
	return unpackBlob(blob, func(r io.Reader) error { return t.Archive(ctx, r) })
}

// File is a file on a server.
type File struct {
	URL    string
	Digest digest.Digest
}

// Fetch returns a file from the cache, or from its server. what names it for progress.
func (b *Builder) Fetch(ctx context.Context, file File, what string, progress Progress) (*cache.Blob, error) {
	address, err := Address(file.URL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	limit := b.opts.Limits.WithDefaults().Bytes
	blob, err := b.cache.Blob(ctx, file.Digest, -1, func(ctx context.Context, f *os.File) error {
		transport := download.Transport(b.opts.Roots)
		defer transport.CloseIdleConnections()
		return download.Get(ctx, download.Request{
			URL: address, Client: download.Client(transport), Digest: file.Digest, Size: -1, Limit: limit,
			Progress: func(done, whole int64) {
				if progress != nil {
					progress(what, done, whole)
				}
			},
		}, f)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return blob, nil
}
