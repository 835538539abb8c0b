package images

import (
	"encoding/json"
	"errors"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// logins are the credentials of a pull secret.
type logins []login

type login struct {
	host, path string
	auth       authn.AuthConfig
}

// errLogins says nothing about the content: what cannot be read is as secret as the rest.
var errLogins = errors.New(`it cannot be read: it must hold {"auths": {"registry.example.com": {…}}}`)

// parseLogins reads the content of a Secret of type kubernetes.io/dockerconfigjson.
func parseLogins(data []byte) (logins, error) {
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if json.Unmarshal(data, &config) != nil || len(config.Auths) == 0 {
		return nil, errLogins
	}
	var all logins
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
		all = append(all, login{canonical(host), rest, auth})
	}
	return all, nil
}

// canonical is the host of a registry; that of Docker Hub has several names.
func canonical(host string) string {
	switch host = strings.ToLower(host); host {
	case "docker.io", "registry-1.docker.io":
		return name.DefaultRegistry
	}
	return host
}

// at returns what to log in with for a repository of a registry, as hosts do: of several the one for the
// longest path counts, then the one that names the host without a pattern.
func (all logins) at(host, repository string) authn.Authenticator {
	var best *login
	for i := range all {
		l := &all[i]
		if !covers(l.host, canonical(host)) || l.path != "" && l.path != repository && !strings.HasPrefix(repository, l.path+"/") {
			continue
		}
		if best == nil || len(l.path) > len(best.path) || len(l.path) == len(best.path) && strings.Contains(best.host, "*") {
			best = l
		}
	}
	if best == nil {
		return authn.Anonymous
	}
	return authn.FromConfig(best.auth)
}

// covers compares hosts part by part: a pattern stands for one part of a name.
func covers(pattern, host string) bool {
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
