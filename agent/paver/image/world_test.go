package image_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/treetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// marked are bytes that must be seen nowhere.
const marked = "MARKED-4b1d"

// server is a registry over TLS. between stands before it and may answer itself.
type server struct {
	*httptest.Server
	roots *x509.CertPool

	mu       sync.Mutex
	between  func(w http.ResponseWriter, r *http.Request) bool
	requests []string // of what was answered: method, path and query
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{roots: x509.NewCertPool()}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.String())
		between := s.between
		s.mu.Unlock()
		if between == nil || !between(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{newCertificate(t)}, MinVersion: tls.VersionTLS13}
	s.StartTLS()
	t.Cleanup(s.Close)
	s.roots.AddCert(s.Certificate())
	return s
}

// newCertificate is one that no other server has.
func newCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// answer puts something before the registry.
func (s *server) answer(between func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.between = between
	s.requests = nil
}

// asked are the requests since the last call of answer.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "https://") }

// pem is the server's certificate.
func (s *server) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// tag is the reference of an image at the server.
func (s *server) tag(t testing.TB, repoTag string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(s.host() + "/" + repoTag)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// push writes an image or a list of images to the server.
func (s *server) push(t testing.TB, repoTag string, what any) {
	t.Helper()
	transport := s.Client().Transport
	options := []remote.Option{remote.WithTransport(transport), remote.WithContext(t.Context())}
	var err error
	switch what := what.(type) {
	case v1.Image:
		err = remote.Write(s.tag(t, repoTag), what, options...)
	case v1.ImageIndex:
		err = remote.WriteIndex(s.tag(t, repoTag), what, options...)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Client().CloseIdleConnections()
}

// bootable is what every image needs to be accepted.
func bootable() []treetest.Entry {
	return []treetest.Entry{treetest.Dir("usr"), treetest.File("usr/lib/systemd/systemd", "init"), treetest.File("usr/lib/os-release", "ID=test")}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(data, nil)
}

// layer is a layer of an image, compressed with gzip.
func layer(t testing.TB, entries ...treetest.Entry) v1.Layer {
	t.Helper()
	return static.NewLayer(gzipped(t, treetest.Archive(t, entries...)), types.OCILayer)
}

// imageOf is an image for an architecture.
func imageOf(t testing.TB, arch string, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1), &v1.ConfigFile{
		OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.AppendLayers(img, layers...); err != nil {
		t.Fatal(err)
	}
	return img
}

// simple is an image of one layer.
func simple(t testing.TB, more ...treetest.Entry) v1.Image {
	t.Helper()
	return imageOf(t, "amd64", layer(t, append(bootable(), more...)...))
}

func digestOf(t testing.TB, what interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	h, err := what.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// host is a builder with its cache, its log and its surroundings.
type host struct {
	*image.Builder
	cache   *cache.Cache
	dir     string // of the cache, in a directory with other things
	outside string // what the other things are
	log     *bytes.Buffer
	opts    image.Options
}

func newHost(t testing.TB, opts image.Options) *host {
	t.Helper()
	base := t.TempDir()
	if err := os.MkdirAll(filepath.Join(base, "outside"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "outside/file"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := &host{dir: filepath.Join(base, "cache"), log: new(bytes.Buffer), opts: opts}
	h.outside = treetest.Describe(t, filepath.Join(base, "outside"))
	h.restart(t)
	return h
}

// restart opens the cache again, as another process would.
func (h *host) restart(t testing.TB) {
	t.Helper()
	opts := h.opts
	opts.Log = slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if opts.Arch == "" {
		opts.Arch = "amd64"
	}
	opts.Limits = extract.Limits{MinFree: 1}
	c, err := cache.Open(t.Context(), h.dir, cache.Options{MaxShare: 100, MinFree: 1, Log: opts.Log})
	if err != nil {
		t.Fatal(err)
	}
	h.cache, h.Builder = c, image.New(c, opts)
}

// ensure returns the paths of files in the image's root, with their content.
func (h *host) ensure(t testing.TB, src image.Source) (string, error) {
	t.Helper()
	img, err := h.Ensure(t.Context(), src, nil)
	h.check(t, err)
	if err != nil {
		return "", err
	}
	defer img.Root.Close()
	var all []string
	err = filepath.WalkDir(img.Root.Path(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(path, "/usr/lib/") {
			data, err := os.ReadFile(path)
			all = append(all, strings.TrimPrefix(path, img.Root.Path()+"/")+"="+string(data))
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " "), nil
}

// check looks at what must hold whatever happens: nothing outside of the cache changed, the
// marked bytes are in no file, log or error, and every root is sealed.
func (h *host) check(t testing.TB, err error) {
	t.Helper()
	if got := treetest.Describe(t, filepath.Join(filepath.Dir(h.dir), "outside")); got != h.outside {
		t.Errorf("outside of the cache\n%s\nbefore\n%s", got, h.outside)
	}
	if err != nil && strings.Contains(err.Error()+fmt.Sprintf("%+v", err), marked) {
		t.Errorf("an error has what is secret: %v", err)
	}
	if strings.Contains(h.log.String(), marked) || strings.Contains(h.log.String(), encodedMark) {
		t.Errorf("the log has what is secret:\n%s", h.log)
	}
	walkErr := filepath.WalkDir(h.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(marked)) || bytes.Contains(data, []byte(encodedMark)) {
			t.Errorf("%s has what is secret", path)
		}
		return err
	})
	if walkErr != nil {
		t.Fatal(walkErr)
	}
	roots, globErr := filepath.Glob(filepath.Join(h.dir, "roots/*"))
	if globErr != nil {
		t.Fatal(globErr)
	}
	for _, r := range roots {
		if _, err := os.Stat(filepath.Join(r, "sealed.json")); err != nil {
			t.Errorf("a root is not sealed: %v", err)
		}
	}
}

// encodedMark is how the marked bytes look in a header.
var encodedMark = strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(marked)), "=")

// secretFor is a pull secret for a registry.
func secretFor(t testing.TB, logins map[string]authn.AuthConfig) image.PullSecret {
	t.Helper()
	data, err := json.Marshal(map[string]any{"auths": logins})
	if err != nil {
		t.Fatal(err)
	}
	s, err := image.ParsePullSecret(data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func oci(s *server, repoTag string, more ...func(*image.OCI)) image.Source {
	src := &image.OCI{Reference: s.host() + "/" + repoTag}
	for _, m := range more {
		m(src)
	}
	return image.Source{OCI: src}
}

func pinned(digest string) func(*image.OCI) { return func(o *image.OCI) { o.Digest = digest } }

func mirrored(host string, mirrors ...image.Mirror) func(*image.OCI) {
	return func(o *image.OCI) { o.Registries = append(o.Registries, image.Registry{Host: host, Mirrors: mirrors}) }
}

func withSecret(s image.PullSecret) func(*image.OCI) { return func(o *image.OCI) { o.Secret = s } }

// ending is a context that ends at the first request for a layer.
func ending(t testing.TB, s *server) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	})
	t.Cleanup(cancel)
	return ctx
}
