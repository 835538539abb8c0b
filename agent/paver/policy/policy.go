package policy

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"go.yaml.in/yaml/v3"

	"nstance.dev/agent/paver/render"
)

// Path is where the file is.
const Path = "/etc/nstance-agent/machine-policy.yaml"

// MaxSize bounds the file, bytes.
const MaxSize = 512 << 10

// Policy is what may be done on a host. The zero value allows nothing.
type Policy struct {
	Allow   Allow  `yaml:"allow"`
	Images  Images `yaml:"images"`
	Binds   Paths  `yaml:"binds"`
	Devices Paths  `yaml:"devices"`
	SSH     SSH    `yaml:"ssh"`
	// Drift: changed files are looked for and reported. Default true.
	Drift bool `yaml:"drift"`
}

// Allow says what may be done at all.
type Allow struct {
	// Pave: node machines may be built, and removed. Default false.
	Pave bool `yaml:"pave"`
	// Operations that are carried out, by name. Default none.
	Operations []string `yaml:"operations"`
	// Degraded: node machines may be built on a host on which limits of Pods have no effect,
	// such as one without control groups of version 2. Default false.
	Degraded bool `yaml:"degraded"`
}

// Images bounds where root file systems come from.
type Images struct {
	// Prefixes of references and addresses, one of which an image must begin with. Default: any
	// image.
	Prefixes []string `yaml:"prefixes"`
	// RequireDigest: an image must be named by its digest. Default true.
	RequireDigest bool `yaml:"requireDigest"`
	// PublicKeys in PEM, one of which must have signed an image. Default: no signature is asked
	// for.
	PublicKeys []string `yaml:"publicKeys"`

	keys []crypto.PublicKey
}

// Keys are the public keys: of type *ecdsa.PublicKey, ed25519.PublicKey or *rsa.PublicKey. Empty:
// no signature is asked for.
func (i Images) Keys() []crypto.PublicKey { return i.keys }

// Paths bounds paths of the host.
type Paths struct {
	// Allow are absolute paths. One allows itself and what is below it; one that ends in * allows
	// all that begins as it does. Default none.
	Allow []string `yaml:"allow"`
}

// SSH bounds SSH keys.
type SSH struct {
	// Users of the host whose keys may be set. Default none.
	Users []string `yaml:"users"`
}

// Load reads the policy of a host. A missing file is the zero policy.
func Load(name string) (Policy, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Policy{}, nil
	}
	if err != nil {
		return Policy{}, fmt.Errorf("read machine policy: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return Policy{}, fmt.Errorf("read machine policy: %w", err)
	case !info.Mode().IsRegular():
		return Policy{}, fmt.Errorf("read machine policy: %s is not a file", name)
	case !mayOwn(info):
		return Policy{}, fmt.Errorf("read machine policy: %s belongs to another user than root: who owns it could allow itself anything", name)
	case info.Mode().Perm()&0o022 != 0:
		return Policy{}, fmt.Errorf("read machine policy: %s has mode %#o: others than its owner must not be able to write it", name, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return Policy{}, fmt.Errorf("read machine policy: %w", err)
	}
	p, err := Parse(text)
	if err != nil {
		return Policy{}, fmt.Errorf("machine policy %s: %w", name, err)
	}
	return p, nil
}

// mayOwn says whether a file belongs to root, or to the user that this process runs as.
func mayOwn(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// Parse reads a policy. Members that it does not know are refused, because one that is misspelt
// would allow more than was meant. A text that says nothing is the zero policy.
func Parse(text []byte) (Policy, error) {
	if len(text) > MaxSize {
		return Policy{}, fmt.Errorf("has more than %d bytes", MaxSize)
	}
	p := Policy{Images: Images{RequireDigest: true}, Drift: true}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	switch err := decoder.Decode(&p); {
	case errors.Is(err, io.EOF):
		return Policy{}, nil
	case err != nil:
		return Policy{}, err
	case !errors.Is(decoder.Decode(&yaml.Node{}), io.EOF):
		return Policy{}, errors.New("must be one document")
	}
	if err := p.check(); err != nil {
		return Policy{}, err
	}
	return p, nil
}

var (
	operationName = regexp.MustCompile(`^([a-z][A-Za-z0-9]{0,62}|[a-z0-9.-]{1,190}/[A-Za-z0-9._-]{1,62})$`)
	imagePrefix   = regexp.MustCompile(`^(https?://)?[A-Za-z0-9][A-Za-z0-9.:-]*/[!-~]*$`)
	userName      = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
)

// check reports everything that is wrong, naming each member, and reads the keys.
func (p *Policy) check() error {
	var errs []error
	each := func(field string, list []string, most int, valid func(string) bool, what string) {
		if len(list) > most {
			errs = append(errs, fmt.Errorf("%s: %d entries are more than %d", field, len(list), most))
		}
		for i, value := range list {
			if !valid(value) {
				errs = append(errs, fmt.Errorf("%s[%d]: %.80q is not %s", field, i, value, what))
			}
		}
	}
	each("allow.operations", p.Allow.Operations, 64, operationName.MatchString, "the name of an operation")
	each("images.prefixes", p.Images.Prefixes, 64, imagePrefix.MatchString, "the beginning of an image's reference, with a slash after the host")
	each("binds.allow", p.Binds.Allow, 64, isPath, "an absolute path, which may end in *")
	each("devices.allow", p.Devices.Allow, 64, isPath, "an absolute path, which may end in *")
	each("ssh.users", p.SSH.Users, 32, userName.MatchString, "the name of a user")
	each("images.publicKeys", p.Images.PublicKeys, 16, func(text string) bool {
		key := publicKey(text)
		p.Images.keys = append(p.Images.keys, key)
		return key != nil
	}, "a public key in PEM, of ECDSA, Ed25519 or RSA")
	return errors.Join(errs...)
}

func isPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.ContainsAny(strings.TrimSuffix(p, "*"), "*?") &&
		!strings.ContainsFunc(p, unicode.IsControl) && !slices.Contains(strings.Split(p, "/"), "..")
}

// publicKey reads one; nil: it is none.
func publicKey(text string) crypto.PublicKey {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return nil
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil
	}
	switch key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey, *rsa.PublicKey:
		return key
	}
	return nil
}

// allows says whether a clean path is one of those allowed.
func (p Paths) allows(name string) bool {
	return slices.ContainsFunc(p.Allow, func(allowed string) bool {
		if beginning, open := strings.CutSuffix(allowed, "*"); open {
			return strings.HasPrefix(name, beginning)
		}
		return render.Within(name, path.Clean(allowed))
	})
}
