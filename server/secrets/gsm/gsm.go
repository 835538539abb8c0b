// Package gsm keeps secrets in Google Secret Manager.
//
// A secret is one of the manager's in one project. Its id is the prefix and the
// name with hyphens for dots, because an id may have no dots; the name itself
// stands in the annotation "nstance-name". Two names that differ only by dots and
// hyphens would be one secret: the second is refused. Each write adds a version,
// and the latest is read; older versions stay until somebody destroys them.
//
// Values have 1 byte to 64 KiB; what the store can't hold is refused before
// anything is sent. Credentials and end point are those of the client.
package gsm

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
	"time"

	secretmanager "cloud.google.com/go/secretmanager/apiv1"
	pb "cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/server/secrets"
)

// Limits are those of a version of a secret.
var Limits = secrets.Limits{Size: 64 << 10, NotEmpty: true}

// Errors of [New].
var (
	// ErrPrefix is about a prefix that no id can have.
	ErrPrefix = errors.New("invalid prefix of secrets")
	// ErrProject is about a project that is missing or malformed.
	ErrProject = errors.New("invalid project of secrets")
)

// Names of annotations.
const (
	nameAnnotation  = "nstance-name"  // the secret's name, with its dots
	claimAnnotation = "nstance-claim" // random: who created it
)

// Store is a [secrets.Store] of the secrets in a project whose ids begin with one
// prefix.
type Store struct {
	api             *secretmanager.Client
	project, prefix string
	now             func() time.Time
}

var _ secrets.Store = (*Store)(nil)

var (
	prefixPattern  = regexp.MustCompile(`^[A-Za-z0-9_-]{0,127}$`)
	projectPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9.:-]{0,99}$`)
)

// New returns the store of the secrets in project whose ids begin with prefix. A
// nil now means time.Now. Errors match [ErrPrefix] or [ErrProject].
func New(api *secretmanager.Client, project, prefix string, now func() time.Time) (*Store, error) {
	if !projectPattern.MatchString(project) {
		return nil, fmt.Errorf("%w %.64q: it must be the id or number of a project", ErrProject, project)
	}
	if !prefixPattern.MatchString(prefix) {
		return nil, fmt.Errorf("%w %.64q: it must be at most 127 letters, digits, \"_\" and \"-\"", ErrPrefix, prefix)
	}
	if now == nil {
		now = time.Now
	}
	return &Store{api: api, project: project, prefix: prefix, now: now}, nil
}

func (s *Store) parent() string { return "projects/" + s.project }

func (s *Store) id(name string) string { return s.prefix + strings.ReplaceAll(name, ".", "-") }

func (s *Store) resource(name string) string { return s.parent() + "/secrets/" + s.id(name) }

// Get implements [secrets.Store].
func (s *Store) Get(ctx context.Context, name string) (secrets.Secret, error) {
	if err := secrets.ValidateName(name); err != nil {
		return nil, err
	}
	return latest(ctx, s.api, s.resource(name))
}

// patience has every call repeated while the manager is away or asks for a slower
// pace. All of them may be: see [Store.create] for the one that is not harmless by
// itself.
var patience = gax.WithRetry(func() gax.Retryer {
	return gax.OnCodes([]codes.Code{codes.Unavailable, codes.ResourceExhausted},
		gax.Backoff{Initial: 200 * time.Millisecond, Max: 5 * time.Second, Multiplier: 2})
})

// limit bounds a call with its repetitions, where the context does not.
var limit = gax.WithTimeout(30 * time.Second)

// latest reads the newest version of a secret.
func latest(ctx context.Context, api *secretmanager.Client, resource string) (secrets.Secret, error) {
	out, err := api.AccessSecretVersion(ctx, &pb.AccessSecretVersionRequest{Name: resource + "/versions/latest"}, patience, limit)
	if status.Code(err) == codes.NotFound {
		return nil, fmt.Errorf("get %s: %w", resource, secrets.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", resource, err)
	}
	payload := out.GetPayload()
	if payload.DataCrc32C != nil && *payload.DataCrc32C != checksum(payload.Data) {
		return nil, fmt.Errorf("get %s: the value was damaged on its way", resource)
	}
	return payload.GetData(), nil
}

func checksum(data []byte) int64 {
	return int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// Delete implements [secrets.Store].
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := secrets.ValidateName(name); err != nil {
		return err
	}
	err := s.api.DeleteSecret(ctx, &pb.DeleteSecretRequest{Name: s.resource(name)}, patience, limit)
	if err == nil || status.Code(err) == codes.NotFound {
		return nil
	}
	return fmt.Errorf("delete %s: %w", s.resource(name), err)
}

// List implements [secrets.Store]. A secret that somebody made by hand is listed
// by what its id says, with hyphens. One without a version is listed too.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	if prefix != "" {
		if err := secrets.ValidateName(prefix); err != nil {
			return nil, err
		}
	}
	request := &pb.ListSecretsRequest{Parent: s.parent()}
	if begin := s.id(prefix); begin != "" {
		request.Filter = "name:" + begin
	}
	var names []string
	for all := s.api.ListSecrets(ctx, request, patience, limit); ; {
		secret, err := all.Next()
		if errors.Is(err, iterator.Done) {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list secrets of project %s: %w", s.project, err)
		}
		if name, ours := s.nameOf(secret); ours && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
}

// nameOf returns the name of a secret that is one of this store. The prefix of
// another cluster may begin with that of this one, so an annotated name must fit.
func (s *Store) nameOf(secret *pb.Secret) (string, bool) {
	id := secret.Name[strings.LastIndexByte(secret.Name, '/')+1:]
	if name, annotated := secret.Annotations[nameAnnotation]; annotated {
		return name, secrets.ValidateName(name) == nil && s.id(name) == id
	}
	name, ours := strings.CutPrefix(id, s.prefix)
	return name, ours && secrets.ValidateName(name) == nil
}
