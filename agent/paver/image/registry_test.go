package image_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"

	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/treetest"
)

// basic asks for a user and a password.
func basic(user, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if u, p, ok := r.BasicAuth(); ok && u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		// A registry that repeats what it was sent.
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"errors":[{"code":"UNAUTHORIZED","message":"%s"}]}`, r.Header.Get("Authorization"))
		return true
	}
}

// bearer gives tokens to a user with a password, at the registry's own host.
func (s *server) bearer(user, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			u, p, _ := r.BasicAuth()
			if u != user || p != password || r.URL.Query().Get("scope") != "repository:team/node:pull" {
				w.WriteHeader(http.StatusForbidden)
				_, _ = fmt.Fprintf(w, `{"details":"no %s %s"}`, u, p)
				return true
			}
			_, _ = io.WriteString(w, `{"token":"token-`+marked+`"}`)
			return true
		}
		if r.Header.Get("Authorization") == "Bearer token-"+marked {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+s.URL+`/token",service="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestM99_PullSecretsAreUsedAndSeenNowhere(t *testing.T) {
	s := newServer(t)
	s.push(t, "team/node:1", simple(t, treetest.File("a", "1")))
	right := secretFor(t, map[string]authn.AuthConfig{s.host(): {Username: "puller", Password: marked}, "other.example.com": {Username: "x", Password: marked + "2"}})
	wrong := secretFor(t, map[string]authn.AuthConfig{s.host() + "/team": {Username: "puller", Password: "no-" + marked}, s.host(): {Username: "puller", Password: marked}})
	other := secretFor(t, map[string]authn.AuthConfig{s.host() + "/tea": {Username: "puller", Password: marked}})
	for how, between := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"basic": basic("puller", marked), "bearer": s.bearer("puller", marked),
	} {
		t.Run(how, func(t *testing.T) {
			s.answer(between)
			h := newHost(t, image.Options{Roots: s.roots})
			if got, err := h.ensure(t, oci(s, "team/node:1", withSecret(right))); err != nil || got != "a=1" {
				t.Errorf("got %q, %v", got, err)
			}
			for what, secret := range map[string]image.PullSecret{"wrong": wrong, "of another path": other, "none": {}} {
				h := newHost(t, image.Options{Roots: s.roots})
				_, err := h.ensure(t, oci(s, "team/node:1", withSecret(secret)))
				if err == nil || !strings.Contains(err.Error(), "401") && !strings.Contains(err.Error(), "403") {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q %x", right, right, right, right, right, right), fmt.Sprintf("%v", oci(s, "x:1", withSecret(right)).OCI)} {
		if strings.Contains(text, marked) || strings.Contains(text, fmt.Sprintf("%x", marked)) {
			t.Errorf("a pull secret is printed: %s", text)
		}
	}
}

// TestM99_ARegistryThatRepeatsWhatItIsTold: as errors go to logs and reports, none repeats its answer.
func TestM99_ARegistryThatRepeatsWhatItIsTold(t *testing.T) {
	s := newServer(t)
	s.push(t, "team/node:1", simple(t, treetest.File("a", "1")))
	secret := secretFor(t, map[string]authn.AuthConfig{s.host(): {Username: "puller", Password: marked}})
	for how, repeat := range map[string]func(http.ResponseWriter, string){
		"in a redirect to nowhere": func(w http.ResponseWriter, told string) {
			w.Header().Set("Location", "http://127.0.0.1:1/"+marked+"?told="+url.QueryEscape(told))
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"in a realm": func(w http.ResponseWriter, told string) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://127.0.0.1:1/`+marked+`?`+url.QueryEscape(told)+`",service="`+marked+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"in the header of a digest": func(w http.ResponseWriter, told string) {
			w.Header().Set("Docker-Content-Digest", told+marked)
			_, _ = io.WriteString(w, "{}")
		},
		"in a fault": func(w http.ResponseWriter, told string) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"errors":[{"code":"%s","message":"%s","detail":"%s"}]}`, marked, told, marked)
		},
	} {
		t.Run(how, func(t *testing.T) {
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				told := r.Header.Get("Authorization")
				if told == "" {
					w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
					w.WriteHeader(http.StatusUnauthorized)
					return true
				}
				repeat(w, told)
				return true
			})
			_, err := newHost(t, image.Options{Roots: s.roots}).ensure(t, oci(s, "team/node:1", withSecret(secret)))
			if err == nil {
				t.Fatal("it is an image")
			}
			for _, form := range []string{marked, base64.StdEncoding.EncodeToString([]byte("puller:" + marked))} {
				if strings.Contains(err.Error(), form) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

func TestM99_APullSecretThatCannotBeRead(t *testing.T) {
	for _, text := range []string{
		"", marked, `{"` + marked + `":{}}`, `{"auths":{}}`, `{"auths":{"a":{"auth":"` + marked + `"}}}`, `{"auths":{"a":"` + marked + `"}}`,
		`{"auths":{"` + strings.Repeat(marked, 10_000) + `":{}}}`,
	} {
		if _, err := image.ParsePullSecret([]byte(text)); err == nil || strings.Contains(err.Error(), marked) {
			t.Errorf("%.100s: %v", text, err)
		}
	}
}

func TestPullSecretsAreForTheirRegistries(t *testing.T) {
	secret := secretFor(t, map[string]authn.AuthConfig{
		"https://index.docker.io/v1/": {Username: "hub"}, "registry.example.com": {Username: "all"}, "registry.example.com/team": {Username: "team"},
		"*.example.com": {Username: "pattern"}, "https://Upper.example.org:5000/v2/": {Username: "port"},
	})
	for at, want := range map[[2]string]string{
		{"index.docker.io", "library/debian"}: "hub", {"docker.io", "library/debian"}: "hub",
		{"registry.example.com", "other"}: "all", {"registry.example.com", "team/node"}: "team", {"registry.example.com", "team"}: "team",
		{"registry.example.com", "teamster/node"}: "all", {"mirror.example.com", "x"}: "pattern", {"a.b.example.com", "x"}: "",
		{"example.com", "x"}: "", {"upper.example.org:5000", "x"}: "port", {"upper.example.org", "x"}: "", {"registry.example.com.evil.org", "x"}: "",
	} {
		config, err := secret.For(at[0], at[1]).Authorization()
		if err != nil || config.Username != want {
			t.Errorf("%v: %q, %v", at, config.Username, err)
		}
	}
}

func TestM99_MirrorsInOrderThenTheRegistry(t *testing.T) {
	registry, first, second := newServer(t), newServer(t), newServer(t)
	img := simple(t, treetest.File("a", "1"))
	d := digestOf(t, img)
	registry.push(t, "team/node:1", img)
	first.push(t, "team/node:1", img)
	second.push(t, "team/node:1", img)
	below := func(w http.ResponseWriter, r *http.Request) bool { // a mirror below a path
		if !strings.HasPrefix(r.URL.Path, "/proxy/v2/") && r.URL.Path != "/proxy/v2" || r.URL.Query().Get("ns") != registry.host() {
			w.WriteHeader(http.StatusTeapot)
			return true
		}
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/proxy")
		return false
	}
	several := func(w http.ResponseWriter, r *http.Request) bool { // a mirror of several registries
		if r.URL.Path != "/v2/" && !strings.HasPrefix(r.URL.Path, "/v2/hub/team/node/") {
			w.WriteHeader(http.StatusTeapot)
			return true
		}
		r.URL.Path = strings.Replace(r.URL.Path, "/v2/hub/", "/v2/", 1)
		return false
	}
	broken := func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	hostile := func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			_, _ = io.WriteString(w, "evil")
			return true
		}
		return false
	}
	mirrors := mirrored(registry.host(), image.Mirror{URL: first.URL + "/proxy/", CABundle: first.pem()}, image.Mirror{URL: second.URL + "/v2/hub", CABundle: second.pem()})
	type between = func(http.ResponseWriter, *http.Request) bool
	for _, c := range []struct {
		name                             string
		registry, first, second          between
		askRegistry, askFirst, askSecond bool
		refuse                           string // part of an address that the policy does not allow
	}{
		{name: "the first has it and the registry is away", registry: broken, first: below, askFirst: true},
		{name: "the second has it", first: broken, second: several, askFirst: true, askSecond: true},
		{name: "the registry has it", first: broken, second: broken, askFirst: true, askSecond: true, askRegistry: true},
		{name: "the first has something else", first: both(below, hostile), second: several, askFirst: true, askSecond: true},
		{name: "the first is not allowed", first: below, second: several, refuse: "/proxy/", askSecond: true},
		{name: "no mirror is allowed", refuse: "https://", askRegistry: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			registry.answer(c.registry)
			first.answer(c.first)
			second.answer(c.second)
			h := newHost(t, image.Options{Roots: registry.roots, Allow: func(address string) bool {
				return c.refuse == "" || !strings.Contains(address, c.refuse)
			}})
			if got, err := h.ensure(t, oci(registry, "team/node:1", pinned(d), mirrors)); err != nil || got != "a=1" {
				t.Errorf("got %q, %v", got, err)
			}
			for what, asked := range map[string][2]bool{
				"registry": {len(registry.asked()) > 0, c.askRegistry}, "first": {len(first.asked()) > 0, c.askFirst}, "second": {len(second.asked()) > 0, c.askSecond},
			} {
				if asked[0] != asked[1] {
					t.Errorf("%s: asked %v, want %v", what, asked[0], asked[1])
				}
			}
		})
	}
}

func both(one, other func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool { return one(w, r) || other(w, r) }
}

func TestM99_ARegistrysSecretIsNotForItsMirror(t *testing.T) {
	registry, mirror := newServer(t), newServer(t)
	registry.push(t, "node:1", simple(t))
	mirror.push(t, "node:1", simple(t))
	mirror.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the mirror is sent %s", r.Header.Get("Authorization"))
		}
		return false
	})
	h := newHost(t, image.Options{Roots: registry.roots})
	secret := secretFor(t, map[string]authn.AuthConfig{registry.host(): {Username: "u", Password: marked}})
	if _, err := h.ensure(t, oci(registry, "node:1", mirrored(registry.host(), image.Mirror{URL: mirror.URL, CABundle: mirror.pem()}), withSecret(secret))); err != nil {
		t.Error(err)
	}
}

func TestM99_CertificatesAreVerified(t *testing.T) {
	registry, mirror := newServer(t), newServer(t)
	registry.push(t, "node:1", simple(t))
	mirror.push(t, "node:1", simple(t))
	h := newHost(t, image.Options{Roots: registry.roots})
	if _, err := h.ensure(t, oci(registry, "node:1", mirrored(registry.host(), image.Mirror{URL: mirror.URL}))); err != nil {
		t.Errorf("the registry is not asked after a mirror without a trusted certificate: %v", err)
	}
	if !strings.Contains(h.log.String(), "registry failed") || !strings.Contains(h.log.String(), "certificate") {
		t.Errorf("nothing is said of it:\n%s", h.log)
	}
	strange := newHost(t, image.Options{Roots: mirror.roots})
	if _, err := strange.ensure(t, oci(registry, "node:1")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a registry without a trusted certificate: %v", err)
	}
	for _, m := range []image.Mirror{{URL: strings.Replace(mirror.URL, "https", "http", 1)}, {URL: mirror.URL, CABundle: "no certificate"}, {URL: "https://u:" + marked + "@example.com"}, {URL: "ftp://example.com/"}} {
		if _, err := h.ensure(t, oci(registry, "node:1", mirrored(registry.host(), m))); err == nil {
			t.Errorf("the mirror %s is used", m.URL)
		}
	}
}

// The library tries http for hosts that look like somebody's own.
func TestARegistryIsNotSpokenToWithoutTLS(t *testing.T) {
	plain := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s arrives without TLS: %v", r.URL, r.Header)
	}))
	plain.Config.ErrorLog = log.New(io.Discard, "", 0)
	plain.Start()
	defer plain.Close()
	host := strings.TrimPrefix(plain.URL, "http://")
	h := newHost(t, image.Options{})
	src := image.Source{OCI: &image.OCI{Reference: host + "/node:1", Secret: secretFor(t, map[string]authn.AuthConfig{host: {Username: "u", Password: marked}})}}
	if _, err := h.ensure(t, src); err == nil {
		t.Error("an image comes from nowhere")
	}
}
