package image

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/google/go-containerregistry/pkg/authn"

	"nstance.dev/protos/pullsecret"
)

// PullSecret holds credentials of registries. Logged, formatted with any verb or marshalled
// it shows a mask. The zero value has none.
type PullSecret struct {
	logins pullsecret.Logins[authn.AuthConfig]
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
	logins, err := pullsecret.Parse[authn.AuthConfig](data)
	if err != nil {
		return PullSecret{}, errSecret
	}
	return PullSecret{logins}, nil
}

// For returns what to log in with for a repository of a registry.
func (s PullSecret) For(host, repository string) authn.Authenticator {
	auth, found := s.logins.At(host, repository)
	if !found {
		return authn.Anonymous
	}
	return authn.FromConfig(auth)
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
