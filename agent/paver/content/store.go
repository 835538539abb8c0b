package content

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"

	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/policy"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Options are the settings of a Store; zero fields take the defaults.
type Options struct {
	Policy func() (policy.Policy, error) // read at every use; that of [policy.Path]
	Roots  *x509.CertPool                // that servers are verified with; those of the system
	Arch   string                        // of the host, as Go names it; the program's own
	Limits extract.Limits                // of a root; MinFree 2 GiB
	// Storage is the address below which the objects of the servers' storage can be read; empty: not
	// from this host.
	Storage string
	// Debootstrap is the program; "debootstrap".
	Debootstrap string
	// Progress is told how far a fetch is. It must not wait.
	Progress image.Progress
	Log      *slog.Logger // slog.Default
}

// Store gets contents. It is safe for concurrent use.
type Store struct {
	cache *cache.Cache
	opts  Options
}

// New returns a Store that keeps everything in a cache.
func New(c *cache.Cache, opts Options) *Store {
	if opts.Policy == nil {
		opts.Policy = func() (policy.Policy, error) { return policy.Load(policy.Path) }
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Limits.MinFree == 0 {
		opts.Limits.MinFree = 2 << 30 // for the node that runs
	}
	return &Store{c, opts}
}

// builder is one that keeps to the policy as it is now.
func (s *Store) builder() (*image.Builder, policy.Images, error) {
	p, err := s.opts.Policy()
	if err != nil {
		return nil, policy.Images{}, err
	}
	return image.New(s.cache, image.Options{
		Arch: s.opts.Arch, Roots: s.opts.Roots, Keys: p.Images.Keys(), Limits: s.opts.Limits,
		Allow: p.Images.Allows, Debootstrap: s.opts.Debootstrap, Log: s.opts.Log,
	}), p.Images, nil
}

// Fetch makes what an assignment needs available on this host, verified, and looks whether
// the image has the programs that do not come as artifacts. The credential may be nil: then
// images are fetched without one.
func (s *Store) Fetch(ctx context.Context, a *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) error {
	img, err := s.ensure(ctx, a, c)
	if err != nil {
		return err
	}
	defer img.Root.Close()
	b, allowed, err := s.builder()
	if err != nil {
		return err
	}
	wanted, err := artifacts(a)
	if err != nil {
		return err
	}
	var later []artifact.Name
	for _, w := range wanted {
		blob, err := s.blob(ctx, b, allowed, w)
		if err != nil {
			return err
		}
		blob.Close()
		later = append(later, w.name)
	}
	found, err := artifact.Check(ctx, img.Root.Path(), a.GetTemplate().GetKubernetes().GetVersion(), later...)
	if err != nil {
		return err
	}
	for name, f := range found {
		s.opts.Log.Debug("program found in the image", "program", name, "path", f.Path, "says", f.Version)
	}
	return nil
}

// Root is the tree that a machine begins as a copy of. It does not change and is not removed
// until release is called. It is fetched if the cache does not have it.
func (s *Store) Root(ctx context.Context, a *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) (dir string, release func(), err error) {
	img, err := s.ensure(ctx, a, c)
	if err != nil {
		return "", nil, err
	}
	return img.Root.Path(), img.Root.Close, nil
}

// Install puts the programs of an assignment into a tree, which then has all that a node
// needs. It returns what it has written.
func (s *Store) Install(ctx context.Context, a *nstancev1.MachineAssignment, dir string) ([]artifact.File, error) {
	b, allowed, err := s.builder()
	if err != nil {
		return nil, err
	}
	wanted, err := artifacts(a)
	if err != nil {
		return nil, err
	}
	var all []artifact.File
	for _, w := range wanted {
		blob, err := s.blob(ctx, b, allowed, w)
		if err != nil {
			return nil, err
		}
		files, err := artifact.Install(ctx, dir, w.name, blob)
		blob.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	_, err = artifact.Check(ctx, dir, a.GetTemplate().GetKubernetes().GetVersion())
	return all, err
}

// Size returns what is known of how much an assignment's image takes. Nothing is fetched.
func (s *Store) Size(a *nstancev1.MachineAssignment) (image.Size, error) {
	src, _, err := source(a, nil, s.opts.Storage)
	if err != nil {
		return image.Size{}, err
	}
	b, _, err := s.builder()
	if err != nil {
		return image.Size{}, err
	}
	return b.Size(src)
}

// Trim removes what was used least recently where there is too much.
func (s *Store) Trim(ctx context.Context) error { return s.cache.Trim(ctx, 0) }

// Clear removes everything that is not in use.
func (s *Store) Clear() error { return s.cache.Clear() }

func (s *Store) ensure(ctx context.Context, a *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) (*image.Image, error) {
	src, missing, err := source(a, c, s.opts.Storage)
	if err != nil {
		return nil, err
	}
	b, _, err := s.builder()
	if err != nil {
		return nil, err
	}
	img, err := b.Ensure(ctx, src, s.opts.Progress)
	if err != nil && missing != "" {
		return nil, fmt.Errorf("%w; pull secret %s has not arrived with the credential", err, missing)
	}
	return img, err
}

func (s *Store) blob(ctx context.Context, b *image.Builder, allowed policy.Images, w want) (*cache.Blob, error) {
	if address, err := image.Address(w.file.URL); err != nil || !allowed.Allows(address.String()) {
		return nil, fmt.Errorf("%s: kubernetes.artifacts.%s.url: the policy of this host does not allow its address: %w", policy.Reason, w.name, image.ErrRefused)
	}
	return b.Fetch(ctx, w.file, "artifact "+string(w.name), s.opts.Progress)
}
