package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/download"
	"nstance.dev/agent/paver/extract"
)

const (
	// maxManifest bounds manifests and configurations, as registries do.
	maxManifest = 4 << 20
	maxLayers   = 512
)

// accepted are the media types of manifests.
var accepted = strings.Join([]string{
	string(types.OCIImageIndex), string(types.DockerManifestList), string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
}, ", ")

// pull is one image that is being fetched.
type pull struct {
	b        *Builder
	repo     *repository
	ref      resolved
	progress Progress
	blobs    []*cache.Blob // in use until the end
}

func (b *Builder) oci(ctx context.Context, src *OCI, progress Progress) (*Image, error) {
	ref, err := src.reference()
	if err != nil {
		return nil, err
	}
	img, err := b.pull(ctx, src, ref, progress)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", ref.repository.Name(), err)
	}
	return img, nil
}

func (b *Builder) pull(ctx context.Context, src *OCI, ref resolved, progress Progress) (*Image, error) {
	repo, err := b.opts.open(src, ref)
	if err != nil {
		return nil, err
	}
	defer repo.close()
	p := &pull{b: b, repo: repo, ref: ref, progress: progress}
	defer p.close()
	if p.ref.digest.IsZero() {
		if err := p.resolve(ctx); err != nil {
			return nil, err
		}
	}
	manifest, d, err := p.manifest(ctx)
	if err != nil {
		return nil, err
	}
	root, err := b.cache.FindRoot(ctx, rootKey("oci", d.String()))
	if err != nil {
		return nil, err
	}
	signer, err := p.signer(ctx, root, d)
	if err == nil && root == nil {
		root, err = p.build(ctx, manifest, d)
	}
	if err == nil && signer != "" {
		err = root.Note(signer, p.ref.digest.String())
	}
	if err != nil {
		if root != nil {
			root.Close()
		}
		return nil, err
	}
	return &Image{Root: root, Digest: p.ref.digest}, nil
}

func (p *pull) close() {
	for _, b := range p.blobs {
		b.Close()
	}
}

// resolve asks for the digest that the tag has now.
func (p *pull) resolve(ctx context.Context) error {
	return p.repo.each(ctx, "manifest", func(e *endpoint, client *http.Client) error {
		data, _, err := download.Small(ctx, download.Request{
			URL: e.url("manifests", p.ref.tag), Client: client, Accept: accepted, Limit: maxManifest, Attempts: e.attempts,
		})
		if err == nil {
			p.ref.digest = digest.Of(data)
			p.b.opts.Log.Info("tag of an image resolved", "image", p.ref.repository.Name(), "tag", p.ref.tag, "digest", p.ref.digest.String(), "registry", e.name)
		}
		return err
	})
}

// blob fetches a blob or a manifest into the cache, where it remains at least until the end
// of the pull.
func (p *pull) blob(ctx context.Context, kind, what string, d digest.Digest, size, limit int64) (*cache.Blob, error) {
	request := download.Request{
		Digest: d, Size: size, Limit: limit,
		Progress: func(done, whole int64) { p.progress(what, done, whole) },
	}
	if kind == "manifests" {
		request.Accept = accepted
	}
	blob, err := p.b.cache.Blob(ctx, d, size, func(ctx context.Context, file *os.File) error {
		return p.repo.each(ctx, what, func(e *endpoint, client *http.Client) error {
			r := request
			r.URL, r.Client, r.Attempts = e.url(kind, d.String()), client, e.attempts
			return download.Get(ctx, r, file)
		})
	})
	if err == nil {
		p.blobs = append(p.blobs, blob)
	}
	return blob, err
}

// read is the content of a small blob.
func (p *pull) read(ctx context.Context, kind, what string, d digest.Digest, size int64) ([]byte, error) {
	if size > maxManifest {
		return nil, fmt.Errorf("%w: its %s has more than %d bytes", ErrRefused, what, maxManifest)
	}
	blob, err := p.blob(ctx, kind, what, d, size, maxManifest)
	if err != nil {
		return nil, err
	}
	r, err := blob.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, badBlob(blob, err)
	}
	return data, nil
}

// badBlob removes a blob that went bad on the disk, so that it is fetched again.
func badBlob(blob *cache.Blob, err error) error {
	if errors.Is(err, digest.ErrMismatch) {
		err = errors.Join(err, blob.Discard())
	}
	return err
}

// manifest is that of the image for this architecture, and its digest.
func (p *pull) manifest(ctx context.Context) (*v1.Manifest, digest.Digest, error) {
	d := p.ref.digest
	data, err := p.read(ctx, "manifests", "manifest", d, -1)
	if err != nil {
		return nil, d, err
	}
	if isIndex(data) {
		if d, err = p.b.choose(data); err != nil {
			return nil, d, err
		}
		if data, err = p.read(ctx, "manifests", "manifest", d, -1); err != nil {
			return nil, d, err
		}
	}
	m, err := v1.ParseManifest(bytes.NewReader(data))
	if err != nil || isIndex(data) {
		return nil, d, fmt.Errorf("%w: its manifest cannot be read", ErrRefused)
	}
	if err := checkManifest(m); err != nil {
		return nil, d, err
	}
	return m, d, p.checkPlatform(ctx, m)
}

// isIndex tells a list of images from an image.
func isIndex(data []byte) bool {
	index, err := v1.ParseIndexManifest(bytes.NewReader(data))
	return err == nil && (index.MediaType.IsIndex() || index.MediaType == "" && len(index.Manifests) > 0)
}

// choose takes the image for this architecture out of a list.
func (b *Builder) choose(data []byte) (digest.Digest, error) {
	index, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		return digest.Digest{}, fmt.Errorf("%w: its list of architectures cannot be read", ErrRefused)
	}
	var others []string
	for _, m := range index.Manifests {
		if m.Platform == nil || m.Platform.OS != "linux" {
			continue
		}
		if m.Platform.Architecture == b.opts.Arch {
			return digest.Parse(m.Digest.String())
		}
		others = append(others, m.Platform.Architecture)
	}
	return digest.Digest{}, fmt.Errorf("%w: it is for %.200q and not for %s", ErrRefused, others, b.opts.Arch)
}

// checkManifest looks at everything that is needed of a manifest.
func checkManifest(m *v1.Manifest) error {
	if len(m.Layers) == 0 || len(m.Layers) > maxLayers {
		return fmt.Errorf("%w: it has %d layers, 1 to %d are possible", ErrRefused, len(m.Layers), maxLayers)
	}
	for i, l := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if _, err := digest.Parse(l.Digest.String()); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		if l.Size < 0 || i > 0 && (!l.MediaType.IsLayer() || !l.MediaType.IsDistributable()) {
			return fmt.Errorf("%w: part %d of it has %d bytes and is of type %.100q, which is not a layer", ErrRefused, i, l.Size, l.MediaType)
		}
	}
	return nil
}

// checkPlatform looks at what the image itself says, whatever a list said about it.
func (p *pull) checkPlatform(ctx context.Context, m *v1.Manifest) error {
	data, err := p.read(ctx, "blobs", "configuration", hashOf(m.Config), m.Config.Size)
	if err != nil {
		return err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%w: its configuration cannot be read", ErrRefused)
	}
	if config.OS != "linux" || config.Architecture != p.b.opts.Arch {
		return fmt.Errorf("%w: it is for %.50s/%.50s and not for linux/%s", ErrRefused, config.OS, config.Architecture, p.b.opts.Arch)
	}
	return nil
}

// hashOf is the digest of a descriptor that checkManifest has seen.
func hashOf(d v1.Descriptor) digest.Digest {
	parsed, err := digest.Parse(d.Digest.String())
	if err != nil {
		panic("image: a descriptor that was not checked: " + err.Error())
	}
	return parsed
}

// build makes the root of a manifest.
func (p *pull) build(ctx context.Context, m *v1.Manifest, d digest.Digest) (*cache.Root, error) {
	var size int64
	for _, l := range m.Layers {
		size += l.Size
	}
	if limit := p.b.opts.Limits.WithDefaults().Bytes; size > limit {
		return nil, fmt.Errorf("%w: its layers have more than %d bytes", ErrRefused, limit)
	}
	// As they come and unpacked; most unpack to more, and what that takes is looked at on the
	// way.
	if err := p.b.cache.Trim(ctx, 2*size); err != nil {
		return nil, err
	}
	return p.b.cache.Root(ctx, rootKey("oci", d.String()), func(ctx context.Context, dir string) (map[string]string, error) {
		if err := p.unpack(ctx, m, dir); err != nil {
			return nil, err
		}
		return map[string]string{"image": p.ref.repository.Name(), "digest": d.String()}, checkBootable(dir)
	})
}

// unpack fetches the layers one after another, and unpacks each while the next one comes.
func (p *pull) unpack(ctx context.Context, m *v1.Manifest, dir string) error {
	t, err := extract.Open(dir, p.b.opts.Limits)
	if err != nil {
		return err
	}
	defer t.Close()
	ready := make(chan *cache.Blob, len(m.Layers))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(ready)
		for i, l := range m.Layers {
			blob, err := p.blob(ctx, "blobs", fmt.Sprintf("layer %d of %d", i+1, len(m.Layers)), hashOf(l), l.Size, l.Size)
			if err != nil {
				return err
			}
			ready <- blob
		}
		return nil
	})
	g.Go(func() error {
		for blob := range ready {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := unpackBlob(blob, func(r io.Reader) error { return t.Layer(ctx, r) }); err != nil {
				return fmt.Errorf("layer %s: %w", blob.Digest(), err)
			}
		}
		return nil
	})
	return g.Wait()
}

// unpackBlob hands the content of a blob to do, decompressed, and verifies it to its end.
func unpackBlob(blob *cache.Blob, do func(io.Reader) error) error {
	r, err := blob.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	content, err := extract.Decompress(r)
	if err == nil {
		err = errors.Join(do(content), content.Close())
	}
	// An archive may end before the blob does; and an archive that makes no sense may be one
	// that went bad on the disk.
	if _, rest := io.Copy(io.Discard, r); errors.Is(rest, digest.ErrMismatch) {
		return badBlob(blob, rest)
	}
	return refused(err)
}
