package image

import (
	"context"
	"errors"
	"fmt"

	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/tree"
)

// ErrRefused is matched by errors about images that cannot be used, whatever is tried: a
// layer that is refused, an image for another architecture, one without an init, one without
// a signature.
var ErrRefused = errors.New("the image cannot be used")

// Progress is told how far something is: what is being done, such as "layer 2 of 5", and how
// many bytes of how many are done. whole is negative while it is unknown. It is called often,
// from one goroutine or another, never by two at once.
type Progress func(what string, done, whole int64)

// Builder makes roots.
type Builder struct {
	cache *cache.Cache
	opts  Options
}

// New returns a builder that keeps everything in a cache.
func New(c *cache.Cache, opts Options) *Builder { return &Builder{cache: c, opts: opts.orDefault()} }

// Image is a root file system that was made, in use until Root is closed.
type Image struct {
	Root *cache.Root
	// Digest that the reference was resolved to, or that of the archive; zero for one that
	// debootstrap has made.
	Digest digest.Digest
}

// Ensure returns the root of an image, from the cache if it has it. Errors that match
// [ErrInvalid] or [ErrRefused] come again however often it is tried.
func (b *Builder) Ensure(ctx context.Context, src Source, progress Progress) (*Image, error) {
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	switch {
	case src.OCI != nil && src.Archive == nil && src.Debootstrap == nil:
		return b.oci(ctx, src.OCI, progress)
	case src.Archive != nil && src.OCI == nil && src.Debootstrap == nil:
		return b.archive(ctx, src.Archive, progress)
	case src.Debootstrap != nil && src.OCI == nil && src.Archive == nil:
		return b.debootstrap(ctx, src.Debootstrap, progress)
	}
	return nil, fmt.Errorf("%w: exactly one of oci, archive and debootstrap must be set", ErrInvalid)
}

// rootKey names a root by what it is made from. The number grows when the same source
// becomes another tree.
func rootKey(kind, what string) digest.Digest {
	return digest.Of([]byte("root 1\n" + kind + "\n" + what))
}

// inits are the programs that a node machine is booted with, one of which must exist.
var inits = []string{"usr/lib/systemd/systemd", "lib/systemd/systemd", "sbin/init"}

// checkBootable looks whether a tree can be booted, before anything relies on it.
func checkBootable(dir string) error {
	if !anyOf(dir, inits) {
		return fmt.Errorf("%w: it has no init, neither /usr/lib/systemd/systemd nor /sbin/init", ErrRefused)
	}
	if !anyOf(dir, []string{"usr/lib/os-release", "etc/os-release"}) {
		return fmt.Errorf("%w: it has no /etc/os-release, without which systemd-nspawn does not boot it", ErrRefused)
	}
	return nil
}

func anyOf(dir string, paths []string) bool {
	for _, p := range paths {
		if _, err := tree.Stat(dir, p); err == nil {
			return true
		}
	}
	return false
}

// refused says of content that was verified that what is wrong with it is its own fault.
func refused(err error) error {
	if errors.Is(err, extract.ErrRefused) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
