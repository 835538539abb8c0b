package image

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"nstance.dev/agent/paver/download"
	"nstance.dev/protos/pullsecret"
)

// endpoint is a place that has a repository: a mirror, or the registry itself.
type endpoint struct {
	name     string // for people, without anything secret
	registry name.Registry
	path     string // of the repository
	auth     authn.Authenticator
	base     *http.Transport
	rewrite  func(*http.Request) *http.Request // for mirrors; nil: none
	attempts int

	mu     sync.Mutex
	client *http.Client // logged in
}

// repository is where an image is looked for, in this order.
type repository struct {
	endpoints []*endpoint
	note      func(endpoint, what string, err error) // of an endpoint that failed
}

// open prepares the places of an image's repository. Mirrors that allow does not let be used
// are left out.
func (o Options) open(src *OCI, ref resolved) (*repository, error) {
	host, repo := ref.repository.RegistryStr(), ref.repository.RepositoryStr()
	r := &repository{note: func(endpoint, what string, err error) {
		o.Log.Info("registry failed, the next one is tried", "registry", endpoint, "what", what, "err", err)
	}}
	for _, registry := range src.Registries {
		if pullsecret.Canonical(registry.Host) != pullsecret.Canonical(host) {
			continue
		}
		for _, m := range registry.Mirrors {
			e, err := o.mirror(m, registry.Host, repo, src.Secret)
			if err != nil {
				return nil, err
			}
			if e != nil {
				r.endpoints = append(r.endpoints, e)
			}
		}
	}
	r.endpoints = append(r.endpoints, &endpoint{
		name: host, registry: ref.repository.Registry, path: repo, auth: src.Secret.For(host, repo),
		base: download.Transport(o.Roots), attempts: 6,
	})
	return r, nil
}

// mirror is an endpoint for a mirror, or nil if it must not be used.
func (o Options) mirror(m Mirror, host, repo string, secret PullSecret) (*endpoint, error) {
	address, err := Address(m.URL)
	if err != nil {
		return nil, fmt.Errorf("mirror of %s: %w", host, err)
	}
	if address.Scheme != "https" {
		return nil, fmt.Errorf("%w: the mirror %s of %s must be reached by https", ErrInvalid, address.Host, host)
	}
	place := strings.TrimSuffix(address.Path, "/")
	if !o.Allow("https://" + address.Host + place + "/" + repo) {
		o.Log.Info("leaving out a mirror", "mirror", address.Host+place, "registry", host, "reason", "the policy of this host does not allow it")
		return nil, nil
	}
	registry, err := name.NewRegistry(address.Host)
	if err != nil {
		return nil, fmt.Errorf("%w: the mirror %.200q of %s is not a registry", ErrInvalid, address.Host, host)
	}
	roots, err := o.roots(m.CABundle)
	if err != nil {
		return nil, fmt.Errorf("mirror %s of %s: %w", address.Host, host, err)
	}
	return &endpoint{
		name: address.Host + place, registry: registry, path: repo, auth: secret.For(address.Host, repo),
		base: download.Transport(roots), attempts: 2,
		rewrite: func(req *http.Request) *http.Request { return toMirror(req, address.Host, api(place), host) },
	}, nil
}

// roots are those that servers are verified with, and those of a bundle.
func (o Options) roots(bundle string) (*x509.CertPool, error) {
	if bundle == "" {
		return o.Roots, nil
	}
	roots := x509.NewCertPool()
	if o.Roots != nil {
		roots = o.Roots.Clone()
	} else if system, err := x509.SystemCertPool(); err == nil {
		roots = system
	}
	if !roots.AppendCertsFromPEM([]byte(bundle)) {
		return nil, fmt.Errorf("%w: caBundle holds no certificate in PEM", ErrInvalid)
	}
	return roots, nil
}

// api is the path of a mirror's API: below the path of its address, or that path where it is
// one of an API already, as for a mirror of several registries.
func api(place string) string {
	if strings.HasPrefix(place+"/", "/v2/") || strings.HasSuffix(place, "/v2") {
		return place
	}
	return place + "/v2"
}

// toMirror is a request to a registry as its mirror wants it: at the mirror's API, and with the
// name of the registry that it stands for.
func toMirror(req *http.Request, host, api, registry string) *http.Request {
	rest, ok := strings.CutPrefix(req.URL.Path, "/v2/")
	if req.URL.Host != host || !ok || rest == "" && strings.HasPrefix(api, "/v2/") {
		return req // of another host, or the question how to log in
	}
	req = req.Clone(req.Context())
	req.URL.Path = api + "/" + rest
	req.URL.RawPath = ""
	query := req.URL.Query()
	query.Set("ns", registry)
	req.URL.RawQuery = query.Encode()
	return req
}

// RoundTrip sends a request of an endpoint: nothing goes out without TLS.
func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		return nil, errors.New("a registry is not spoken to without TLS")
	}
	if e.rewrite != nil {
		req = e.rewrite(req)
	}
	return e.base.RoundTrip(req)
}

// login returns a client that is logged in at the endpoint.
func (e *endpoint) login(ctx context.Context) (*http.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client != nil {
		return e.client, nil
	}
	scope := e.registry.Repo(e.path).Scope(transport.PullScope)
	logged, err := transport.NewWithContext(ctx, e.registry, e.auth, e, []string{scope})
	if err != nil {
		return nil, plain(ctx, err)
	}
	e.client = download.Client(logged)
	return e.client, nil
}

// plain is what went wrong with a login. What servers answer is not repeated: it may be what
// they were sent.
func plain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var answer *transport.Error
	var request *url.Error
	switch {
	case errors.As(err, &answer):
		return fmt.Errorf("log in: the registry answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	case errors.As(err, &request):
		return fmt.Errorf("log in: %w", download.Cause(err))
	}
	return errors.New("log in: the registry's answer cannot be understood")
}

// url is the address of something of the repository.
func (e *endpoint) url(kind, what string) *url.URL {
	return &url.URL{Scheme: "https", Host: e.registry.RegistryStr(), Path: "/v2/" + e.path + "/" + kind + "/" + what}
}

// each asks the endpoints one after another until one has an answer.
func (r *repository) each(ctx context.Context, what string, ask func(*endpoint, *http.Client) error) error {
	var errs []error
	for i, e := range r.endpoints {
		client, err := e.login(ctx)
		if err == nil {
			err = ask(e, client)
		}
		if err == nil {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		errs = append(errs, fmt.Errorf("%s of %s: %w", what, e.name, err))
		if i < len(r.endpoints)-1 {
			r.note(e.name, what, err)
		}
	}
	return errors.Join(errs...)
}

// close ends the connections that nothing uses.
func (r *repository) close() {
	for _, e := range r.endpoints {
		e.base.CloseIdleConnections()
	}
}
