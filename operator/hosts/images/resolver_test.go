package images_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/random"
	"go.uber.org/goleak"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/images"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// M22: the digest is that of the manifest that the tag names now, an image's or a list of architectures.
func TestM22_DigestOfATag(t *testing.T) {
	s := newServer(t)
	w := newWorld(s)
	index, err := random.Index(64, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	one, two, list := s.push("nodes/base:1", newImage(t)), s.push("nodes/base:2", newImage(t)), s.push("nodes/list:latest", index)
	for reference, want := range map[string]hostsv1.SHA256{"nodes/base:1": one, "nodes/base:2": two, "nodes/list": list} {
		got, err := w.Digest(t.Context(), template(s.host()+"/"+reference))
		if err != nil || got != want {
			t.Errorf("%s is %q, %v; want %s", reference, got, err, want)
		}
	}
	moved := s.push("nodes/base:1", newImage(t))
	if got, err := w.Digest(t.Context(), template(s.host()+"/nodes/base:1")); err != nil || got != moved || got == one {
		t.Errorf("the tag that was moved is %q, %v; want %s", got, err, moved)
	}
}

// M22: only a tag alone is resolved.
func TestM22_Tagged(t *testing.T) {
	digest := hostsv1.SHA256("sha256:" + strings.Repeat("0", 64))
	pinned := template("node:1")
	pinned.Image.OCI.Digest = digest
	for name, c := range map[string]struct {
		t    *hostsv1.Template
		want bool
	}{
		"a tag":              {template("registry.example.com/node:1"), true},
		"no tag":             {template("node"), true},
		"digest beside it":   {pinned, false},
		"digest in it":       {template("node@" + string(digest)), false},
		"tag and digest":     {template("node:1@" + string(digest)), false},
		"no image of a kind": {&hostsv1.Template{Image: hostsv1.Image{Type: hostsv1.ImageArchive, Archive: &hostsv1.ArchiveImage{}}}, false},
	} {
		if got := images.Tagged(c.t); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// logged lets requests to a server through that come with a login.
func logged(user, password string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if u, p, ok := r.BasicAuth(); ok && u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="nodes"`)
		http.Error(w, r.Header.Get("Authorization"), http.StatusUnauthorized)
		return true
	}
}

// M99: the pull secret of the image logs in, at its own registry alone, and is repeated by nobody.
func TestM99_PullSecretOfATag(t *testing.T) {
	s := newServer(t)
	want := s.push("nodes/base:1", newImage(t))
	s.stand(logged("puller", marked))
	auth := func(host, user, password string) string {
		return fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	for name, c := range map[string]struct{ secret, says string }{
		"of the registry":        {auth(s.host(), "puller", marked), ""},
		"of its repositories":    {auth("https://"+s.host()+"/nodes", "puller", marked), ""},
		"of another registry":    {auth("other.example.com", "puller", marked), "401 Unauthorized"},
		"of another repository":  {auth(s.host()+"/other", "puller", marked), "401 Unauthorized"},
		"with an old password":   {auth(s.host(), "puller", marked+"-old"), "401 Unauthorized"},
		"that is no such Secret": {`{"auths": "` + marked + `"}`, "pull secret registry: it cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(s)
			w.secrets["registry"] = c.secret
			of := template(s.host() + "/nodes/base:1")
			of.Image.OCI.PullSecret = "registry"
			got, err := w.Digest(t.Context(), of)
			if (c.says == "") != (err == nil) || err == nil && got != want || err != nil && (!errors.Is(err, images.ErrUnresolved) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %q, %v; want %q", got, err, c.says)
			}
			if text := fmt.Sprint(err) + w.log.String(); strings.Contains(text, marked) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("puller:"+marked))) {
				t.Errorf("the secret is repeated: %s", text)
			}
		})
	}
	w := newWorld(s)
	of := template(s.host() + "/nodes/base:1")
	of.Image.OCI.PullSecret = "missing"
	if _, err := w.Digest(t.Context(), of); !errors.Is(err, images.ErrUnresolved) || !strings.Contains(err.Error(), "secret missing does not exist") {
		t.Errorf("without the Secret: %v", err)
	}
}

// M99: a registry that gives tokens out names the service that does, which gets the login too: by TLS or not at all, and not at
// a bare private address that is not its own.
func TestM99_TheTokenServiceOfARegistry(t *testing.T) {
	s := newServer(t)
	want := s.push("nodes/base:1", newImage(t))
	leaks := func(http.ResponseWriter, *http.Request) { t.Error("the login is sent") }
	plain, private := httptest.NewServer(http.HandlerFunc(leaks)), httptest.NewTLSServer(http.HandlerFunc(leaks))
	defer plain.Close()
	defer private.Close()
	for realm, gets := range map[string]bool{"https://" + s.host() + "/token": true, plain.URL + "/token": false, private.URL + "/token": false} {
		s.stand(func(w http.ResponseWriter, r *http.Request) bool {
			user, password, _ := r.BasicAuth()
			switch {
			case r.URL.Path == "/token" && user == "puller" && password == marked:
				fmt.Fprint(w, `{"token": "of-the-service"}`)
			case r.Header.Get("Authorization") == "Bearer of-the-service":
				return false
			default:
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="nodes"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
			return true
		})
		w := newWorld(s)
		w.secrets["registry"] = fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, s.host(), base64.StdEncoding.EncodeToString([]byte("puller:"+marked)))
		of := template(s.host() + "/nodes/base:1")
		of.Image.OCI.PullSecret = "registry"
		if got, err := w.Digest(t.Context(), of); gets != (err == nil) || gets && got != want {
			t.Errorf("realm %s: %q, %v", realm, got, err)
		}
	}
}

// M99: mirrors are asked first, below the path of their address, with logins of their own; the registry last.
func TestM99_MirrorsOfATag(t *testing.T) {
	registry, mirror := newServer(t), newServer(t)
	image := newImage(t)
	want := registry.push("nodes/base:1", image)
	mirror.push("cache/nodes/base:1", image)
	mirrored := func(url, ca string) *hostsv1.Template {
		of := template(registry.host() + "/nodes/base:1")
		of.Machine = &hostsv1.NodeMachine{Registries: []hostsv1.Registry{{Host: registry.host(), Mirrors: []hostsv1.Mirror{{URL: hostsv1.MirrorURL(url), CABundle: ca}}}}}
		return of
	}
	t.Run("a mirror answers", func(t *testing.T) {
		registry.stand(nil)
		mirror.stand(nil)
		got, err := newWorld(registry).Digest(t.Context(), mirrored("https://"+mirror.host()+"/v2/cache", mirror.ca()))
		if err != nil || got != want || registry.asked() != "" {
			t.Errorf("got %q, %v; the registry was asked %q", got, err, registry.asked())
		}
		if !strings.Contains(mirror.asked(), "/v2/cache/nodes/base/manifests/1?ns="+strings.ReplaceAll(registry.host(), ":", "%3A")) {
			t.Errorf("the mirror was asked %s", mirror.asked())
		}
	})
	for name, c := range map[string]struct {
		between func(w http.ResponseWriter, r *http.Request) bool
		ca      string
	}{
		"a mirror that fails": {func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "", http.StatusBadGateway)
			return true
		}, mirror.ca()},
		"a mirror that is not trusted": {nil, ""},
		"a mirror that talks of something else": {func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprint(w, "<html>please log in</html>")
			return true
		}, mirror.ca()},
	} {
		t.Run(name, func(t *testing.T) {
			registry.stand(nil)
			mirror.stand(c.between)
			got, err := newWorld(registry).Digest(t.Context(), mirrored("https://"+mirror.host()+"/v2/cache", c.ca))
			if err != nil || got != want {
				t.Errorf("got %q, %v; want %s", got, err, want)
			}
		})
	}
	for name, url := range map[string]string{"no TLS": "http://" + mirror.host(), "a password": "https://u:" + marked + "@" + mirror.host()} {
		if _, err := newWorld(registry).Digest(t.Context(), mirrored(url, "")); !errors.Is(err, images.ErrUnresolved) || strings.Contains(err.Error(), marked) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// M22: what is not the manifest of an image is no answer, because what is locked stays.
func TestM22_NoAnswer(t *testing.T) {
	s := newServer(t)
	s.push("nodes/base:1", newImage(t))
	text := func(code int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	huge, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{map[string]any{"digest": strings.Repeat("0", 5<<20)}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		between   func(http.ResponseWriter, *http.Request) bool
		reference string
		says      string
	}{
		"a tag that does not exist":  {nil, "nodes/base:9", "the registry answers 404 Not Found"},
		"an error with a text":       {text(http.StatusInternalServerError, marked), "nodes/base:1", "the registry answers 500 Internal Server Error"},
		"a page":                     {text(http.StatusOK, "<html>"+marked+"</html>"), "nodes/base:1", "the answer is not the manifest of an image"},
		"an empty object":            {text(http.StatusOK, "{}"), "nodes/base:1", "the answer is not the manifest of an image"},
		"a manifest without an end":  {text(http.StatusOK, string(huge)), "nodes/base:1", "the manifest has more than 4194304 bytes"},
		"a reference above the path": {nil, "nodes/../base:1", "the reference cannot be read"},
		"no reference":               {nil, "NODES:", "the reference cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s.stand(c.between)
			w := newWorld(s)
			got, err := w.Digest(t.Context(), template(s.host()+"/"+c.reference))
			if got != "" || !errors.Is(err, images.ErrUnresolved) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, %v; want %q", got, err, c.says)
			}
			if text := fmt.Sprint(err) + w.log.String(); strings.Contains(text, marked) {
				t.Errorf("what the registry says is repeated: %s", text)
			}
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		s.stand(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://"+s.host()+"/elsewhere", http.StatusFound)
			return true
		})
		if _, err := newWorld(s).Digest(t.Context(), template(s.host()+"/nodes/base:1")); err == nil || !strings.Contains(err.Error(), "not spoken to without TLS") {
			t.Errorf("a redirect to a server without TLS: %v", err)
		}
	})
}

// M22: one that asks while the registry is asked, or was without an answer a moment ago, is told so at once.
func TestM22_OneQuestionAtATime(t *testing.T) {
	s := newServer(t)
	want := s.push("nodes/base:1", newImage(t))
	w := newWorld(s)
	of := template(s.host() + "/nodes/base:1")
	began, go1 := make(chan struct{}), make(chan struct{})
	first := true
	s.stand(func(rw http.ResponseWriter, _ *http.Request) bool {
		if first {
			first = false
			close(began)
			<-go1
		}
		http.Error(rw, "", http.StatusBadGateway)
		return true
	})
	answered := make(chan error, 1)
	go func() {
		_, err := w.Digest(t.Context(), of)
		answered <- err
	}()
	<-began
	if _, err := w.Digest(t.Context(), of); !errors.Is(err, images.ErrUnresolved) || !strings.Contains(err.Error(), "the registry is being asked") {
		t.Errorf("beside another question: %v", err)
	}
	close(go1)
	why := <-answered
	if why == nil || !strings.Contains(why.Error(), "502 Bad Gateway") {
		t.Errorf("the first one: %v", why)
	}
	s.stand(nil)
	w.after(images.Again - time.Millisecond)
	if _, err := w.Digest(t.Context(), of); err == nil || err.Error() != why.Error() || s.asked() != "" {
		t.Errorf("a moment later: %v, asked %q", err, s.asked())
	}
	if got, err := w.Digest(t.Context(), template(s.host()+"/nodes/base:2")); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("another template waits for it: %q, %v", got, err)
	}
	w.after(time.Millisecond)
	if got, err := w.Digest(t.Context(), of); err != nil || got != want {
		t.Errorf("after a while: %q, %v", got, err)
	}

	// Who leaves says nothing of the registry.
	hung, cancel := context.WithCancel(t.Context())
	s.stand(func(_ http.ResponseWriter, r *http.Request) bool { cancel(); <-r.Context().Done(); return true })
	if _, err := w.Digest(hung, of); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller has left: %v", err)
	}
	s.stand(nil)
	if got, err := w.Digest(t.Context(), of); err != nil || got != want {
		t.Errorf("after one that left: %q, %v", got, err)
	}
}
