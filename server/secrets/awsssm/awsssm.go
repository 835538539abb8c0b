// Package awsssm keeps secrets in the Parameter Store of AWS Systems Manager, as
// parameters of type SecureString: Amazon encrypts them, and whoever may read the
// parameter and use its key sees the text as it is.
//
// A secret is one parameter, the prefix and its name; the prefix is a folder such
// as "/prod/". The store takes UTF-8 text of up to 4 KiB, the size of the standard
// tier, and refuses the rest before anything is sent. Credentials, region and
// end point are those of the client.
package awsssm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"nstance.dev/server/secrets"
)

// Limits are those of a parameter in the standard tier.
var Limits = secrets.Limits{Size: 4 << 10, Text: true, NotEmpty: true}

// ErrPrefix is about a prefix that is not a folder of parameters.
var ErrPrefix = errors.New("invalid prefix of parameters")

// API is what of [ssm.Client] is used.
type API interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
	PutParameter(context.Context, *ssm.PutParameterInput, ...func(*ssm.Options)) (*ssm.PutParameterOutput, error)
	DeleteParameter(context.Context, *ssm.DeleteParameterInput, ...func(*ssm.Options)) (*ssm.DeleteParameterOutput, error)
	GetParametersByPath(context.Context, *ssm.GetParametersByPathInput, ...func(*ssm.Options)) (*ssm.GetParametersByPathOutput, error)
}

// Store is a [secrets.Store] of parameters below one folder.
type Store struct {
	api    API
	prefix string
}

var _ secrets.Store = (*Store)(nil)

var folder = regexp.MustCompile(`^/([A-Za-z0-9_.-]+/){0,14}$`)

// New returns the store of the parameters in the folder that prefix names, "/"
// at both ends. Errors match [ErrPrefix].
func New(api API, prefix string) (*Store, error) {
	lower := strings.ToLower(prefix)
	switch {
	case !folder.MatchString(prefix) || len(prefix) > 800:
		return nil, fmt.Errorf("%w %.64q: it must be folders of letters, digits, \".\", \"_\" and \"-\", with \"/\" at both ends", ErrPrefix, prefix)
	case strings.HasPrefix(lower, "/aws") || strings.HasPrefix(lower, "/ssm"):
		return nil, fmt.Errorf("%w %.64q: what begins with \"/aws\" or \"/ssm\" belongs to Amazon", ErrPrefix, prefix)
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

func get(ctx context.Context, api API, parameter string) (secrets.Secret, error) {
	out, err := api.GetParameter(ctx, &ssm.GetParameterInput{Name: &parameter, WithDecryption: aws.Bool(true)})
	if _, absent := errors.AsType[*types.ParameterNotFound](err); absent {
		return nil, fmt.Errorf("get parameter %s: %w", parameter, secrets.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get parameter %s: %w", parameter, err)
	}
	if out.Parameter == nil || out.Parameter.Value == nil {
		return nil, fmt.Errorf("get parameter %s: the answer has no value", parameter)
	}
	return secrets.Secret(*out.Parameter.Value), nil
}

// Put implements [secrets.Store].
func (s *Store) Put(ctx context.Context, name string, value secrets.Secret, mode secrets.Mode) error {
	if err := secrets.ValidateName(name); err != nil {
		return err
	}
	if err := Limits.Check(name, value); err != nil {
		return err
	}
	repeated := false
	_, err := s.api.PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(s.prefix + name), Value: aws.String(string(value)), Type: types.ParameterTypeSecureString,
		Tier: types.ParameterTierStandard, Overwrite: aws.Bool(mode == secrets.Overwrite),
	}, noticeRepeats(&repeated))
	if _, exists := errors.AsType[*types.ParameterAlreadyExists](err); exists {
		if repeated && s.holds(ctx, name, value) {
			return nil // an earlier try had succeeded, and its answer was lost
		}
		err = secrets.ErrExists
	}
	if err != nil {
		return fmt.Errorf("put parameter %s%s: %w", s.prefix, name, secrets.Scrub(err, value))
	}
	return nil
}

func (s *Store) holds(ctx context.Context, name string, value secrets.Secret) bool {
	stored, err := s.Get(ctx, name)
	return err == nil && slices.Equal(stored, value)
}

// Delete implements [secrets.Store].
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := secrets.ValidateName(name); err != nil {
		return err
	}
	_, err := s.api.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: aws.String(s.prefix + name)})
	if _, absent := errors.AsType[*types.ParameterNotFound](err); absent || err == nil {
		return nil
	}
	return fmt.Errorf("delete parameter %s%s: %w", s.prefix, name, err)
}

// List implements [secrets.Store]. Parameters of other folders, and those that
// are no secrets by their name, are left out.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	if prefix != "" {
		if err := secrets.ValidateName(prefix); err != nil {
			return nil, err
		}
	}
	path := s.prefix
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	pages := ssm.NewGetParametersByPathPaginator(s.api, &ssm.GetParametersByPathInput{Path: &path})
	var names []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list parameters in %s: %w", path, err)
		}
		for _, p := range page.Parameters {
			name, ours := strings.CutPrefix(aws.ToString(p.Name), s.prefix)
			if ours && strings.HasPrefix(name, prefix) && secrets.ValidateName(name) == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}
