package images

import (
	"errors"

	"github.com/google/go-containerregistry/pkg/authn"

	"nstance.dev/protos/pullsecret"
)

// logins are the credentials of a pull secret.
type logins = pullsecret.Logins[authn.AuthConfig]

// errLogins says nothing about the content: what cannot be read is as secret as the rest.
var errLogins = errors.New(`it cannot be read: it must hold {"auths": {"registry.example.com": {…}}}`)

// parseLogins reads the content of a Secret of type kubernetes.io/dockerconfigjson.
func parseLogins(data []byte) (logins, error) {
	all, err := pullsecret.Parse[authn.AuthConfig](data)
	if err != nil {
		return logins{}, errLogins
	}
	return all, nil
}

// loginAt returns what to log in with for a repository of a registry, as hosts do.
func loginAt(all logins, host, repository string) authn.Authenticator {
	auth, found := all.At(host, repository)
	if !found {
		return authn.Anonymous
	}
	return authn.FromConfig(auth)
}
