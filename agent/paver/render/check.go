package render

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"
)

var (
	subdomain      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	label          = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	machineName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	version        = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)
	digest         = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	printable      = regexp.MustCompile(`^[!-~]*$`)
	variable       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	kernelModule   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	secretName     = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?$`)
	hostUser       = regexp.MustCompile(`^[a-z_][-a-z0-9_]{0,31}$`)
	registryHost   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9.:_-]{0,252}$`)
	devicePath     = regexp.MustCompile(`^/dev/[A-Za-z0-9_.,:+@/-]+$`)
	devicePattern  = regexp.MustCompile(`^/dev/[A-Za-z0-9_.,:+@/*?\[\]^-]+$`)
	qualifiedName  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue     = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	quantity       = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$`)
	clusterAddress = regexp.MustCompile(`^[0-9a-fA-F:.]{2,45}$`)
)

// path checks a path from the root, and returns it without superfluous slashes; empty: it is
// refused.
func (p *problems) path(field, name string) string {
	switch {
	case len(name) > 1024:
		p.problem(field, "is longer than 1024 bytes")
	case !strings.HasPrefix(name, "/"):
		p.problem(field, "%q must be an absolute path", name)
	case strings.ContainsFunc(name, unicode.IsControl) || !isText(name):
		p.problem(field, "%q must not contain control characters", name)
	case strings.TrimSpace(name) != name:
		p.problem(field, "%q must not end in a blank", name)
	case hasParent(name):
		p.problem(field, "%q must not contain ..", name)
	default:
		return path.Clean(name)
	}
	return ""
}

// line checks a value that has to stay on one line.
func (p *problems) line(field, value string) bool {
	if strings.ContainsFunc(value, unicode.IsControl) || !isText(value) {
		p.problem(field, "%q must not contain line breaks and other control characters", value)
		return false
	}
	return true
}

// hasParent says whether an element of a path is `..`.
func hasParent(p string) bool {
	for element := range strings.SplitSeq(p, "/") {
		if element == ".." {
			return true
		}
	}
	return false
}

// isText says whether a text is valid UTF-8 without the characters that some readers take for
// the end of a line.
func isText(s string) bool {
	return strings.ToValidUTF8(s, "") == s && !strings.ContainsAny(s, "\u2028\u2029\ufeff")
}

// Within says whether a clean path is a directory or lies below it.
func Within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// certificates checks a bundle in PEM.
func certificates(bundle string) error {
	rest := []byte(bundle)
	for n := 0; ; n++ {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil && strings.TrimSpace(string(rest)) != "":
			return errors.New("has something else than certificates in PEM")
		case block == nil && n == 0:
			return errors.New("has no certificate in PEM")
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("has a block %q among its certificates", block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("certificate %d: %w", n+1, err)
		}
	}
}

// timeout checks the duration of a stage.
func (p *problems) timeout(field string, d *durationpb.Duration, absent time.Duration) time.Duration {
	if d == nil {
		return absent
	}
	if t := d.AsDuration(); t >= 10*time.Second && t <= 2*time.Hour {
		return t
	}
	p.problem(field, "%v must be 10s to 2h", d.AsDuration())
	return absent
}
