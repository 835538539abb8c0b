package images_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/images"
)

// marked are bytes that must be seen nowhere.
const marked = "MARKED-71c2"

// server is a registry over TLS. between stands before it and may answer itself.
type server struct {
	*httptest.Server
	t     *testing.T
	roots *x509.CertPool

	mu       sync.Mutex
	between  func(w http.ResponseWriter, r *http.Request) bool
	requests []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, roots: x509.NewCertPool()}
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
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	s.StartTLS()
	t.Cleanup(s.Close)
	s.roots.AddCert(s.Certificate())
	return s
}

func (s *server) host() string { return s.Listener.Addr().String() }

// ca is the certificate of the server, in PEM.
func (s *server) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// stand puts something before the registry.
func (s *server) stand(between func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.between, s.requests = between, nil
}

func (s *server) asked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.requests, "\n")
}

// push pushes an image to a tag, and returns its digest.
func (s *server) push(tag string, image remote.Taggable) hostsv1.SHA256 {
	s.t.Helper()
	ref, err := name.NewTag(s.host() + "/" + tag)
	if err != nil {
		s.t.Fatal(err)
	}
	client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS13}}
	defer client.CloseIdleConnections()
	switch of := image.(type) {
	case v1.Image:
		err = remote.Write(ref, of, remote.WithTransport(client))
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, of, remote.WithTransport(client))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	digest, err := image.(interface{ Digest() (v1.Hash, error) }).Digest()
	if err != nil {
		s.t.Fatal(err)
	}
	return hostsv1.SHA256(digest.String())
}

func newImage(t *testing.T) v1.Image {
	t.Helper()
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// world is a resolver that trusts a registry, its clock, and what it logs.
type world struct {
	*images.Resolver
	secrets map[string]string
	mu      sync.Mutex
	now     time.Time
	log     bytes.Buffer
}

func newWorld(s *server) *world {
	w := &world{secrets: map[string]string{}, now: time.Unix(1000, 0)}
	w.Resolver = images.New(images.Options{
		Roots: s.roots, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
		Secret: func(_ context.Context, name string) ([]byte, error) {
			content, is := w.secrets[name]
			if !is {
				return nil, errors.New("secret " + name + " does not exist")
			}
			return []byte(content), nil
		},
	})
	return w
}

func (w *world) after(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func template(reference string) *hostsv1.Template {
	return &hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: reference}},
		Kubernetes: hostsv1.Kubernetes{Version: "v1.36.3"},
	}
}
