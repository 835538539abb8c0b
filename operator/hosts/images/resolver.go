package images

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
)

const (
	// Again is for how long a question that had no answer is not asked again.
	Again = 15 * time.Second
	// keptFor is for how long it is known that a question had no answer.
	keptFor = time.Hour
	// Timeouts of one place. A mirror that hangs must not keep the registry from being asked.
	mirrorTimeout   = 5 * time.Second
	registryTimeout = 15 * time.Second
)

// ErrUnresolved is matched by errors about a tag whose digest is not known.
var ErrUnresolved = errors.New("tag of the image not resolved")

// errAsking: the same question is being asked.
var errAsking = errors.New("the registry is being asked")

// Options are the surroundings of a Resolver.
type Options struct {
	// Secret returns the content of a pull secret.
	Secret func(ctx context.Context, name string) ([]byte, error)
	// Roots that servers are verified with; nil: those of the system.
	Roots *x509.CertPool
	Log   *slog.Logger
	Now   func() time.Time
}

// Resolver asks registries. New makes one; it is safe for concurrent use.
type Resolver struct {
	opts Options

	mu     sync.Mutex
	failed map[hostsv1.SHA256]failure // by template
}

// failure is why a question had no answer, and since when; while it is asked again that is still so.
type failure struct {
	why   error
	at    time.Time
	asked bool // it is being asked
}

// New returns a resolver.
func New(o Options) *Resolver { return &Resolver{opts: o, failed: map[hostsv1.SHA256]failure{}} }

// Tagged reports whether a template names its image by a tag alone.
func Tagged(t *hostsv1.Template) bool {
	oci := t.Image.OCI
	return oci != nil && oci.Digest == "" && !strings.Contains(oci.Reference, "@")
}

// Digest returns the digest that the tag of a template's image has now. The template must be one that
// [Tagged] reports true of. Errors match ErrUnresolved, and the call may be repeated.
func (r *Resolver) Digest(ctx context.Context, t *hostsv1.Template) (hostsv1.SHA256, error) {
	question := versions.Hash(t)
	err := r.begin(question)
	var digest hostsv1.SHA256
	if err == nil {
		digest, err = r.ask(ctx, t)
		r.end(question, err, ctx.Err() != nil)
	}
	if err != nil {
		return "", fmt.Errorf("%w: image %s: %w", ErrUnresolved, t.Image.OCI.Reference, err)
	}
	return digest, nil
}

// begin returns why a question is not to be asked now; nil: it is.
func (r *Resolver) begin(question hostsv1.SHA256) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opts.Now()
	maps.DeleteFunc(r.failed, func(_ hostsv1.SHA256, f failure) bool { return !f.asked && now.Sub(f.at) >= keptFor })
	f, is := r.failed[question]
	switch {
	case !is:
		f.why = errAsking
	case f.asked || now.Sub(f.at) < Again:
		return f.why
	}
	f.asked = true
	r.failed[question] = f
	return nil
}

// end takes in what came of a question. One that the caller has given up may be asked again at once.
func (r *Resolver) end(question hostsv1.SHA256, err error, left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || left {
		delete(r.failed, question)
		return
	}
	r.failed[question] = failure{why: err, at: r.opts.Now()}
}

// ask asks one place after another until one has an answer.
func (r *Resolver) ask(ctx context.Context, t *hostsv1.Template) (hostsv1.SHA256, error) {
	oci := t.Image.OCI
	tag, err := name.NewTag(oci.Reference)
	if repository := "/" + tag.RepositoryStr() + "/"; err != nil || strings.Contains(repository, "/./") || strings.Contains(repository, "/../") {
		return "", errors.New("the reference cannot be read")
	}
	logins, err := r.logins(ctx, string(oci.PullSecret))
	if err != nil {
		return "", err
	}
	places, err := r.places(t, tag, logins)
	if err != nil {
		return "", err
	}
	var failed []string
	for _, p := range places {
		digest, err := p.digest(ctx, tag.TagStr())
		if err == nil {
			r.opts.Log.InfoContext(ctx, "resolved tag of image", "image", tag.Context().Name(), "tag", tag.TagStr(), "digest", string(digest), "registry", p.name)
			return digest, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		failed = append(failed, fmt.Sprintf("%s: %v", p.name, err))
	}
	return "", errors.New(strings.Join(failed, "; "))
}

// logins are those of a pull secret; empty: none.
func (r *Resolver) logins(ctx context.Context, secret string) (logins, error) {
	if secret == "" {
		return logins{}, nil
	}
	content, err := r.opts.Secret(ctx, secret)
	if err != nil {
		return logins{}, err
	}
	all, err := parseLogins(content)
	if err != nil {
		return logins{}, fmt.Errorf("pull secret %s: %w", secret, err)
	}
	return all, nil
}
