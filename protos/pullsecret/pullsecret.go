// Package pullsecret reads the content of a Secret of type kubernetes.io/dockerconfigjson, and finds out which of its logins is
// the one for a repository of a registry.
//
// Who asks a registry for an image and who fetches it have to choose the same login: this package is where they do. What a
// login holds it leaves to them, as T, and it never repeats any of it: what cannot be read is as secret as the rest.
package pullsecret

import (
	"encoding/json"
	"errors"
	"path"
	"strings"
)

// dockerHub is the name of Docker Hub in references; it has several others.
const dockerHub = "index.docker.io"

// ErrContent is the error about what is no content of such a Secret. It says nothing of the content.
var ErrContent = errors.New("no logins can be read")

// Logins are those of a Secret; the zero value has none.
type Logins[T any] struct{ all []login[T] }

type login[T any] struct {
	host, path string
	auth       T
}

// Parse reads the content of a Secret.
func Parse[T any](data []byte) (Logins[T], error) {
	var config struct {
		Auths map[string]T `json:"auths"`
	}
	if json.Unmarshal(data, &config) != nil || len(config.Auths) == 0 {
		return Logins[T]{}, ErrContent
	}
	var l Logins[T]
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
		l.all = append(l.all, login[T]{Canonical(host), rest, auth})
	}
	return l, nil
}

// Canonical is the host of a registry, in lower case and, of a registry that has several names, by the one that references have.
func Canonical(host string) string {
	switch host = strings.ToLower(host); host {
	case "docker.io", "registry-1.docker.io":
		return dockerHub
	}
	return host
}

// At returns the login for a repository of a registry; false: there is none. Of several the one for the longest path counts,
// then the one that names the host without a pattern.
func (l Logins[T]) At(host, repository string) (auth T, found bool) {
	var best *login[T]
	for i := range l.all {
		one := &l.all[i]
		if !covers(one.host, Canonical(host)) || one.path != "" && one.path != repository && !strings.HasPrefix(repository, one.path+"/") {
			continue
		}
		if best == nil || len(one.path) > len(best.path) || len(one.path) == len(best.path) && strings.Contains(best.host, "*") {
			best = one
		}
	}
	if best == nil {
		return auth, false
	}
	return best.auth, true
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
