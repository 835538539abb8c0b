package images

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/protos/pullsecret"
)

// maxManifest bounds manifests, as registries do.
const maxManifest = 4 << 20

// accepted are the media types of manifests.
var accepted = strings.Join([]string{
	string(types.OCIImageIndex), string(types.DockerManifestList), string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
}, ", ")

// place has a repository: a mirror, or the registry itself.
type place struct {
	name       string // for people, without anything secret
	registry   name.Registry
	repository string
	login      authn.Authenticator
	timeout    time.Duration
	base       *http.Transport
	// below is the path of a mirror's API, and mirrors the host of the registry that it is one of; empty: it is the
	// registry itself.
	below, mirrors string
}

// places are where an image is asked for, in this order.
func (r *Resolver) places(t *hostsv1.Template, tag name.Tag, with logins) ([]*place, error) {
	host, repository := tag.RegistryStr(), tag.RepositoryStr()
	var all []*place
	for _, registry := range registries(t) {
		if pullsecret.Canonical(registry.Host) != pullsecret.Canonical(host) {
			continue
		}
		for _, m := range registry.Mirrors {
			p, err := r.mirror(m, registry.Host, repository, with)
			if err != nil {
				return nil, fmt.Errorf("mirror of %s: %w", registry.Host, err)
			}
			all = append(all, p)
		}
	}
	return append(all, &place{
		name: host, registry: tag.Registry, repository: repository, login: loginAt(with, host, repository), timeout: registryTimeout, base: secured(r.opts.Roots),
	}), nil
}

func registries(t *hostsv1.Template) []hostsv1.Registry {
	if t.Machine == nil {
		return nil
	}
	return t.Machine.Registries
}

func (r *Resolver) mirror(m hostsv1.Mirror, host, repository string, with logins) (*place, error) {
	address, err := url.Parse(string(m.URL))
	if err != nil || address.Scheme != "https" || address.Host == "" || address.User != nil {
		return nil, errors.New("its address must be https:// and a host, without a user") // the address may hold a password
	}
	address.Host = strings.ToLower(address.Host)
	registry, err := name.NewRegistry(address.Host)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not a registry", address.Host)
	}
	roots := r.opts.Roots
	if m.CABundle != "" {
		if roots != nil {
			roots = roots.Clone()
		} else if roots, err = x509.SystemCertPool(); err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM([]byte(m.CABundle)) {
			return nil, errors.New("caBundle holds no certificate in PEM")
		}
	}
	below := strings.TrimSuffix(address.Path, "/")
	p := &place{
		name: address.Host + below, registry: registry, repository: repository, login: loginAt(with, address.Host, repository), timeout: mirrorTimeout,
		base: secured(roots), below: below, mirrors: host,
	}
	if below != "/v2" && !strings.HasPrefix(below, "/v2/") {
		p.below += "/v2"
	}
	return p, nil
}

// secured verifies servers with these roots.
func secured(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true, // what comes is hashed
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots},
	}
}

// RoundTrip sends a request: nothing goes out without TLS, and a mirror gets it at its own path, with the name of the
// registry that it stands for.
func (p *place) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		return nil, errors.New("a registry is not spoken to without TLS")
	}
	rest, is := strings.CutPrefix(req.URL.Path, "/v2/")
	if p.mirrors != "" && is && req.URL.Host == p.registry.RegistryStr() && (rest != "" || !strings.HasPrefix(p.below, "/v2/")) {
		req = req.Clone(req.Context())
		req.URL.Path, req.URL.RawPath = p.below+"/"+rest, ""
		query := req.URL.Query()
		query.Set("ns", p.mirrors)
		req.URL.RawQuery = query.Encode()
	}
	return p.base.RoundTrip(req)
}

// digest asks for the digest of a tag. It is that of what comes: no header is believed.
func (p *place) digest(ctx context.Context, tag string) (hostsv1.SHA256, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	defer p.base.CloseIdleConnections()
	logged, err := transport.NewWithContext(ctx, p.registry, p.login, p, []string{p.registry.Repo(p.repository).Scope(transport.PullScope)})
	if err != nil {
		return "", plain(ctx, err)
	}
	address := url.URL{Scheme: "https", Host: p.registry.RegistryStr(), Path: "/v2/" + p.repository + "/manifests/" + tag}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return "", errors.New("the reference makes no address")
	}
	req.Header.Set("Accept", accepted)
	answer, err := (&http.Client{Transport: logged}).Do(req)
	if err != nil {
		return "", plain(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", answers(answer.StatusCode)
	}
	manifest, err := io.ReadAll(io.LimitReader(answer.Body, maxManifest+1))
	switch {
	case err != nil:
		return "", plain(ctx, err)
	case len(manifest) > maxManifest:
		return "", fmt.Errorf("the manifest has more than %d bytes", maxManifest)
	case !isManifest(manifest):
		return "", errors.New("the answer is not the manifest of an image")
	}
	sum := sha256.Sum256(manifest)
	return hostsv1.SHA256("sha256:" + hex.EncodeToString(sum[:])), nil
}

// isManifest tells a manifest from what else a server says with 200: what is locked once stays.
func isManifest(data []byte) bool {
	type part struct {
		Digest string `json:"digest"`
	}
	var m struct {
		SchemaVersion int    `json:"schemaVersion"`
		Config        part   `json:"config"`
		Layers        []part `json:"layers"`
		Manifests     []part `json:"manifests"`
	}
	return json.Unmarshal(data, &m) == nil && m.SchemaVersion == 2 && (len(m.Manifests) > 0 || m.Config.Digest != "" && len(m.Layers) > 0)
}

func answers(code int) error {
	return fmt.Errorf("the registry answers %d %s", code, http.StatusText(code))
}

// plain is what went wrong. What servers answer is not repeated: it may be what they were sent, and so
// may be what stands in an address.
func plain(ctx context.Context, err error) error {
	var answer *transport.Error
	var request *url.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errors.New("the registry does not answer in time")
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &answer):
		return answers(answer.StatusCode)
	case errors.As(err, &request):
		for errors.As(err, &request) {
			err = request.Err
		}
		return err
	}
	return errors.New("the registry's answer cannot be understood")
}
