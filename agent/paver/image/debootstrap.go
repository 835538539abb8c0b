package image

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/digest"
)

// architectures are Debian's names for those whose name differs.
var architectures = map[string]string{"386": "i386", "arm": "armhf", "ppc64le": "ppc64el"}

// debootstrap makes a root by installing packages. What it is made from has no digest: the
// same source is made once and then found in the cache.
func (b *Builder) debootstrap(ctx context.Context, src *Debootstrap, progress Progress) (*Image, error) {
	if err := src.check(); err != nil {
		return nil, err
	}
	if len(b.opts.Keys) > 0 {
		return nil, fmt.Errorf("%w: what debootstrap makes has no signature, and the policy of this host asks for one", ErrRefused)
	}
	key, err := b.debootstrapKey(src)
	if err != nil {
		return nil, err
	}
	progress("debootstrap "+src.Suite, 0, -1)
	root, err := b.cache.Root(ctx, key, func(ctx context.Context, dir string) (map[string]string, error) {
		if err := b.install(ctx, src, dir); err != nil {
			return nil, err
		}
		return map[string]string{"debootstrap": src.Suite}, checkBootable(dir)
	})
	return imageOf(root, digest.Digest{}, err)
}

// debootstrapKey names the root that debootstrap makes.
func (b *Builder) debootstrapKey(src *Debootstrap) (digest.Digest, error) {
	key, err := json.Marshal(struct {
		*Debootstrap
		Arch string
	}{src, b.opts.Arch})
	if err != nil {
		return digest.Digest{}, fmt.Errorf("debootstrap: %w", err)
	}
	return rootKey("debootstrap", string(key)), nil
}

// arguments are those of debootstrap. Everything in them was checked: nothing begins with a
// dash that should not.
func (b *Builder) arguments(src *Debootstrap, dir string) []string {
	arch := b.opts.Arch
	if name, ok := architectures[arch]; ok {
		arch = name
	}
	variant := src.Variant
	if variant == "" {
		variant = "minbase"
	}
	args := []string{"--arch=" + arch, "--variant=" + variant, "--force-check-gpg"}
	if len(src.Packages) > 0 {
		args = append(args, "--include="+strings.Join(src.Packages, ","))
	}
	if src.Keyring != "" {
		args = append(args, "--keyring="+src.Keyring)
	}
	args = append(args, src.Suite, dir)
	if src.Mirror != "" {
		args = append(args, src.Mirror)
	}
	return args
}

// passed are the variables of the process's environment that debootstrap may need.
var passed = []string{"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "TMPDIR"}

// install runs debootstrap. It mounts file systems below dir; in namespaces of its own they
// end with it, and so does every process that it has started.
func (b *Builder) install(ctx context.Context, src *Debootstrap, dir string) error {
	cmd := exec.CommandContext(ctx, b.opts.Debootstrap, b.arguments(src, dir)...)
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
	}
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	// The signal comes when the thread ends that has started the child, so that must not be
	// before the process does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := command.Run(cmd)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("debootstrap %s: %w: %s", src.Suite, err, out.Text)
	}
	if out.Code != 0 {
		return fmt.Errorf("debootstrap %s: exit status %d: %s", src.Suite, out.Code, out.Text)
	}
	return nil
}
