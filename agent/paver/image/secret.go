package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// PullSecret holds credentials of registries. Logged, formatted with any verb or marshalled
// it shows a mask. The zero value has none.
type PullSecret struct {
	logins []login
}

type login struct {
	host, path string
	auth       authn.AuthConfig
}

// MaxPullSecret is how many bytes a pull secret may have.
const MaxPullSecret = 64 << 10

// errSecret says nothing about the content: what cannot be read is as secret as the rest.
var errSecret = errors.New(`the pull secret cannot be read: it must be what a Secret of type kubernetes.io/dockerconfigjson holds, {"auths": {"registry.example.com": {…}}}`)

// ParsePullSecret reads the content of a Secret of type kubernetes.io/dockerconfigjson.
func ParsePullSecret(data []byte) (PullSecret, error) {
	if len(data) > MaxPullSecret {
		return PullSecret{}, fmt.Errorf("the pull secret has more than %d bytes", MaxPullSecret)
	}
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(data, &config); err != nil || len(config.Auths) == 0 {
		return PullSecret{}, errSecret
	}
	var s PullSecret
	for key, auth := range config.Auths {
		_, place, found := strings.Cut(key, "://")
		if !found {
			place = key
		}
		host, rest, _ := strings.Cut(place, "/")
		rest = strings.TrimSuffix(rest, "/")
		if rest == "v1" || rest == "v2" {
			rest = ""
		}
		s.logins = append(s.logins, login{canonical(host), rest, auth})
	}
	return s, nil
}

// canonical is the host of a registry; that of Docker Hub has several names.
func canonical(host string) string {
	switch host = strings.ToLower(host); host {
	case "docker.io", "registry-1.docker.io":
		return name.DefaultRegistry
	}
	return host
}

// For returns what to log in with for a repository of a registry. Of several the one for the
// longest path counts, then the one that names the host without a pattern.
func (s PullSecret) For(host, repository string) authn.Authenticator {
	best, found := login{}, false
	for _, l := range s.logins {
		if !matches(l.host, canonical(host)) || l.path != "" && l.path != repository && !strings.HasPrefix(repository, l.path+"/") {
			continue
		}
		if !found || len(l.path) > len(best.path) || len(l.path) == len(best.path) && strings.Contains(best.host, "*") {
			best, found = l, true
		}
	}
	if !found {
		return authn.Anonymous
	}
	return authn.FromConfig(best.auth)
}

// matches compares hosts part by part, so that a pattern covers one part of a name.
func matches(pattern, host string) bool {
	patterns, parts := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(patterns) != len(parts) {
		return false
	}
	for i := range parts {
		if ok, err := path.Match(patterns[i], parts[i]); !ok || err != nil {
			return false
		}
	}
	return true
}

const mask = "[secret]"

// String returns a mask.
func (PullSecret) String() string { return mask }

// GoString returns a mask.
func (PullSecret) GoString() string { return mask }

// Format writes a mask, whatever the verb.
func (PullSecret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// LogValue returns a mask.
func (PullSecret) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalText returns a mask.
func (PullSecret) MarshalText() ([]byte, error) { return []byte(mask), nil }
