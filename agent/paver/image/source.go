package image

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"nstance.dev/agent/paver/digest"
)

// ErrInvalid is matched by errors about a source that is not what it must be.
var ErrInvalid = errors.New("invalid image")

// Source says where a root file system comes from. Exactly one of the fields is set.
type Source struct {
	OCI         *OCI
	Archive     *Archive
	Debootstrap *Debootstrap
}

// OCI is an image of a container registry.
type OCI struct {
	// Reference of the image, with a tag or without.
	Reference string
	// Digest of the image; empty: that of the reference, or the one that the tag has now.
	Digest string
	// Registries with mirrors.
	Registries []Registry
	// Secret to pull with; the zero value pulls without.
	Secret PullSecret
}

// Registry has mirrors, which are asked before it.
type Registry struct {
	Host    string // as references name it, with its port if it has one
	Mirrors []Mirror
}

// Mirror is a copy of a registry.
type Mirror struct {
	// URL of the mirror. What comes after the host stands before "/v2/" in requests.
	URL string
	// CABundle in PEM, beside the roots of the system; may be empty.
	CABundle string
}

// Archive is a tar file, plain or compressed with gzip or zstd.
type Archive struct {
	URL    string
	SHA256 string // as a digest, "sha256:" and 64 hexadecimal digits
}

// Debootstrap is an installation of Debian or a relative.
type Debootstrap struct {
	Suite    string
	Mirror   string // empty: debootstrap's own
	Variant  string // empty: minbase
	Packages []string
	Keyring  string // absolute path on the host; empty: debootstrap's own
}

// Address is where content is fetched from, as a policy knows it: with its scheme, and
// without anything that another address could be written with. It is the content's and the
// caller's at once: what is checked is what is asked.
func Address(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: an address cannot be read", ErrInvalid) // the error repeats it
	case address.Scheme != "https" && address.Scheme != "http":
		return nil, fmt.Errorf("%w: the address of a file must begin with https:// or http://", ErrInvalid)
	case address.User != nil:
		return nil, fmt.Errorf("%w: the address at %s must not contain a user or a password", ErrInvalid, address.Host)
	case address.Host == "" || address.Opaque != "" || address.Fragment != "":
		return nil, fmt.Errorf("%w: the address %.200q is not that of a file", ErrInvalid, address.Redacted())
	case address.Path != "" && path.Clean(address.Path) != strings.TrimSuffix(address.Path, "/") && address.Path != "/":
		return nil, fmt.Errorf("%w: the address at %s must not contain empty parts, %q or %q", ErrInvalid, address.Host, ".", "..")
	}
	address.Host = strings.ToLower(address.Host)
	return address, nil
}

// resolved is a reference with what is known of its digest.
type resolved struct {
	repository name.Repository
	tag        string        // where the digest is not known
	digest     digest.Digest // zero: the tag has to be resolved
}

// reference reads what an image is called.
func (o *OCI) reference() (r resolved, err error) {
	named, pinned, isPinned := strings.Cut(o.Reference, "@")
	tag, err := name.NewTag(named)
	if err != nil || strings.Contains("/"+tag.RepositoryStr()+"/", "/./") || strings.Contains("/"+tag.RepositoryStr()+"/", "/../") {
		return r, fmt.Errorf("%w: the reference %.200q cannot be read", ErrInvalid, o.Reference)
	}
	r.repository, r.tag = tag.Context(), tag.TagStr()
	for _, text := range []string{pinned, o.Digest} {
		if text == "" && (text != pinned || !isPinned) {
			continue
		}
		d, err := digest.Parse(text)
		if err != nil {
			return r, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		if !r.digest.IsZero() && r.digest != d {
			return r, fmt.Errorf("%w: the reference has digest %s, the image %s", ErrInvalid, r.digest, d)
		}
		r.digest = d
	}
	return r, nil
}

var (
	suite    = regexp.MustCompile(`^[a-z0-9][-a-z0-9.]*$`)
	variant  = regexp.MustCompile(`^[a-z]+$`)
	packages = regexp.MustCompile(`^[a-z0-9][-a-z0-9+.]*$`)
)

// check looks at what becomes an argument of a program.
func (d *Debootstrap) check() error {
	switch {
	case !suite.MatchString(d.Suite):
		return fmt.Errorf("%w: debootstrap.suite %.80q is not the name of a suite", ErrInvalid, d.Suite)
	case d.Variant != "" && !variant.MatchString(d.Variant):
		return fmt.Errorf("%w: debootstrap.variant %.80q is not the name of a variant", ErrInvalid, d.Variant)
	case d.Keyring != "" && (!path.IsAbs(d.Keyring) || path.Clean(d.Keyring) != d.Keyring):
		return fmt.Errorf("%w: debootstrap.keyring %.200q is not an absolute path", ErrInvalid, d.Keyring)
	}
	for _, p := range d.Packages {
		if !packages.MatchString(p) {
			return fmt.Errorf("%w: debootstrap.packages: %.80q is not the name of a package", ErrInvalid, p)
		}
	}
	if d.Mirror == "" {
		return nil
	}
	_, err := Address(d.Mirror)
	return err
}
