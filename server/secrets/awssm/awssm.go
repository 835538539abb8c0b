// Package awssm keeps secrets in AWS Secrets Manager.
//
// A secret is one of the manager's, called by the prefix and its name. Text is
// kept as text, so that other tools can use it, and anything else as bytes; up to
// 64 KiB, and what the store can't hold is refused before anything is sent.
// Deleting is for good: there is no window in which a secret could be restored,
// because its name could not be used again in it. Listings of the manager may lag
// behind by some seconds. Credentials, region and end point are those of the
// client.
package awssm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"nstance.dev/server/secrets"
)

// Limits are those of a secret of the manager.
var Limits = secrets.Limits{Size: 64 << 10, NotEmpty: true}

// ErrPrefix is about a prefix that no secret's name can have.
var ErrPrefix = errors.New("invalid prefix of secrets")

// attempts bounds how often a write starts over because the secret was created
// or deleted meanwhile.
const attempts = 5

// API is what of [secretsmanager.Client] is used.
type API interface {
	GetSecretValue(context.Context, *secretsmanager.GetSecretValueInput, ...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error)
	CreateSecret(context.Context, *secretsmanager.CreateSecretInput, ...func(*secretsmanager.Options)) (*secretsmanager.CreateSecretOutput, error)
	PutSecretValue(context.Context, *secretsmanager.PutSecretValueInput, ...func(*secretsmanager.Options)) (*secretsmanager.PutSecretValueOutput, error)
	DeleteSecret(context.Context, *secretsmanager.DeleteSecretInput, ...func(*secretsmanager.Options)) (*secretsmanager.DeleteSecretOutput, error)
	ListSecrets(context.Context, *secretsmanager.ListSecretsInput, ...func(*secretsmanager.Options)) (*secretsmanager.ListSecretsOutput, error)
}

// Store is a [secrets.Store] of the secrets whose names begin with one prefix.
type Store struct {
	api    API
	prefix string
}

var _ secrets.Store = (*Store)(nil)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9/_+=.@-]{0,300}$`)

// New returns the store of the secrets whose names begin with prefix. Errors
// match [ErrPrefix].
func New(api API, prefix string) (*Store, error) {
	if !namePattern.MatchString(prefix) {
		return nil, fmt.Errorf("%w %.64q: it must be at most 300 letters, digits and \"/_+=.@-\"", ErrPrefix, prefix)
	}
	return &Store{api: api, prefix: prefix}, nil
}

// Get implements [secrets.Store].
func (s *Store) Get(ctx context.Context, name string) (secrets.Secret, error) {
	if err := secrets.ValidateName(name); err != nil {
		return nil, err
	}
	return get(ctx, s.api, s.prefix+name)
}

func get(ctx context.Context, api API, id string) (secrets.Secret, error) {
	out, err := api.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &id})
	switch {
	case isAbsent(err):
		return nil, fmt.Errorf("get secret %s: %w", id, secrets.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("get secret %s: %w", id, err)
	case out.SecretString != nil:
		return secrets.Secret(*out.SecretString), nil
	case out.SecretBinary != nil:
		return out.SecretBinary, nil
	}
	return nil, fmt.Errorf("get secret %s: the answer has no value", id)
}

// Put implements [secrets.Store].
func (s *Store) Put(ctx context.Context, name string, value secrets.Secret, mode secrets.Mode) error {
	if err := secrets.ValidateName(name); err != nil {
		return err
	}
	if err := Limits.Check(name, value); err != nil {
		return err
	}
	if err := s.put(ctx, s.prefix+name, value, mode); err != nil {
		return fmt.Errorf("put secret %s%s: %w", s.prefix, name, secrets.Scrub(err, value))
	}
	return nil
}

func (s *Store) put(ctx context.Context, id string, value secrets.Secret, mode secrets.Mode) error {
	if mode == secrets.CreateOnly {
		return s.create(ctx, id, value)
	}
	var err error
	for range attempts {
		if err = s.update(ctx, id, value); !isAbsent(err) {
			return err
		}
		if err = s.create(ctx, id, value); !errors.Is(err, secrets.ErrExists) {
			return err
		}
	}
	return fmt.Errorf("others keep creating and deleting it: %w", err)
}

// create leaves lost answers to the SDK, which sends the same token with each
// repetition of a call: the manager knows the one that had succeeded.
func (s *Store) create(ctx context.Context, id string, value secrets.Secret) error {
	in := &secretsmanager.CreateSecretInput{Name: &id}
	in.SecretString, in.SecretBinary = form(value)
	_, err := s.api.CreateSecret(ctx, in)
	if _, exists := errors.AsType[*types.ResourceExistsException](err); exists {
		return secrets.ErrExists
	}
	return err
}

func (s *Store) update(ctx context.Context, id string, value secrets.Secret) error {
	in := &secretsmanager.PutSecretValueInput{SecretId: &id}
	in.SecretString, in.SecretBinary = form(value)
	_, err := s.api.PutSecretValue(ctx, in)
	return err
}

// form is how a value is kept: one of the two is nil.
func form(value secrets.Secret) (text *string, bytes []byte) {
	if utf8.Valid(value) {
		return aws.String(string(value)), nil
	}
	return nil, value
}

// Delete implements [secrets.Store].
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := secrets.ValidateName(name); err != nil {
		return err
	}
	_, err := s.api.DeleteSecret(ctx, &secretsmanager.DeleteSecretInput{
		SecretId: aws.String(s.prefix + name), ForceDeleteWithoutRecovery: aws.Bool(true),
	})
	if err == nil || isAbsent(err) {
		return nil
	}
	return fmt.Errorf("delete secret %s%s: %w", s.prefix, name, err)
}

// List implements [secrets.Store]. What is no secret by its name is left out.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	if prefix != "" {
		if err := secrets.ValidateName(prefix); err != nil {
			return nil, err
		}
	}
	in := &secretsmanager.ListSecretsInput{MaxResults: aws.Int32(100)}
	if begin := s.prefix + prefix; begin != "" {
		in.Filters = []types.Filter{{Key: types.FilterNameStringTypeName, Values: []string{begin}}}
	}
	pages := secretsmanager.NewListSecretsPaginator(s.api, in)
	var names []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list secrets %s: %w", s.prefix, err)
		}
		for _, entry := range page.SecretList {
			name, ours := strings.CutPrefix(aws.ToString(entry.Name), s.prefix)
			if ours && strings.HasPrefix(name, prefix) && secrets.ValidateName(name) == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

func isAbsent(err error) bool {
	_, absent := errors.AsType[*types.ResourceNotFoundException](err)
	return absent
}
