package gsm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	pb "cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/server/secrets"
)

// attempts bounds how often a write starts over because the secret was created
// or deleted meanwhile.
const attempts = 5

// A secret is created first and gets its value after that. Who created it has
// valueTime to give it one. A secret that is abandonedAfter old and still has
// none was left by somebody who crashed, and may be removed.
const (
	valueTime      = 30 * time.Second
	abandonedAfter = 5 * time.Minute
)

var errStartOver = errors.New("others keep creating and deleting it")

// Put implements [secrets.Store].
func (s *Store) Put(ctx context.Context, name string, value secrets.Secret, mode secrets.Mode) error {
	if err := secrets.ValidateName(name); err != nil {
		return err
	}
	if err := Limits.Check(name, value); err != nil {
		return err
	}
	put := s.overwrite
	if mode == secrets.CreateOnly {
		put = s.create
	}
	claim, err := rand.Text(), errStartOver
	for range attempts {
		if err = put(ctx, name, value, claim); !errors.Is(err, errStartOver) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", s.resource(name), secrets.Scrub(err, value))
	}
	return nil
}

func (s *Store) overwrite(ctx context.Context, name string, value secrets.Secret, claim string) error {
	secret, err := s.api.GetSecret(ctx, &pb.GetSecretRequest{Name: s.resource(name)}, patience, limit)
	switch status.Code(err) {
	case codes.OK:
		if err := s.checkName(name, secret); err != nil {
			return err
		}
	case codes.NotFound:
		if _, err := s.claim(ctx, name, claim); err != nil {
			return err
		}
	default:
		return err
	}
	return s.addVersion(ctx, name, value)
}

// create adds a value only to a secret that this call itself has created: of
// several callers the manager lets one create it, and the claim tells the one whose
// answer was lost.
func (s *Store) create(ctx context.Context, name string, value secrets.Secret, claim string) error {
	began := s.now()
	claimed, err := s.claim(ctx, name, claim)
	if err != nil {
		return err
	}
	if !claimed {
		return s.taken(ctx, name, claim, value)
	}
	return s.addOwn(ctx, name, value, began)
}

// addOwn adds the first value, in time: after that somebody may have taken the
// secret for abandoned.
func (s *Store) addOwn(ctx context.Context, name string, value secrets.Secret, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, valueTime)
	defer cancel()
	if s.now().Sub(began) > valueTime {
		return fmt.Errorf("creating it took longer than %v", valueTime)
	}
	return s.addVersion(ctx, name, value)
}

// claim creates a secret that has no value yet, and reports whether it did.
func (s *Store) claim(ctx context.Context, name, claim string) (bool, error) {
	_, err := s.api.CreateSecret(ctx, &pb.CreateSecretRequest{
		Parent: s.parent(), SecretId: s.id(name),
		Secret: &pb.Secret{
			Replication: &pb.Replication{Replication: &pb.Replication_Automatic_{Automatic: &pb.Replication_Automatic{}}},
			Annotations: map[string]string{nameAnnotation: name, claimAnnotation: claim},
		},
	}, patience, limit)
	if status.Code(err) == codes.AlreadyExists {
		return false, nil
	}
	return err == nil, err
}

// taken finds out what stands where a secret was to be created.
func (s *Store) taken(ctx context.Context, name, claim string, value secrets.Secret) error {
	secret, err := s.api.GetSecret(ctx, &pb.GetSecretRequest{Name: s.resource(name)}, patience, limit)
	switch {
	case status.Code(err) == codes.NotFound:
		return errStartOver
	case err != nil:
		return err
	case s.checkName(name, secret) != nil:
		return s.checkName(name, secret)
	}
	_, err = s.Get(ctx, name)
	switch {
	case err == nil:
		return secrets.ErrExists
	case !errors.Is(err, secrets.ErrNotFound):
		return err
	case secret.Annotations[claimAnnotation] == claim:
		return s.addOwn(ctx, name, value, s.now()) // created by this call, whose answer was lost
	case s.now().Sub(secret.GetCreateTime().AsTime()) < abandonedAfter:
		return fmt.Errorf("%w: another client is creating it at this moment", secrets.ErrExists)
	}
	err = s.api.DeleteSecret(ctx, &pb.DeleteSecretRequest{Name: s.resource(name), Etag: secret.Etag}, patience, limit)
	switch status.Code(err) {
	case codes.OK, codes.NotFound, codes.FailedPrecondition, codes.Aborted:
		return errStartOver
	}
	return fmt.Errorf("remove what a crash has left of it: %w", err)
}

// checkName keeps two names that have one id apart.
func (s *Store) checkName(name string, secret *pb.Secret) error {
	if other, annotated := secret.Annotations[nameAnnotation]; annotated && other != name {
		return fmt.Errorf("%w %q: its place is taken by secret %q; rename one of them", secrets.ErrName, name, other)
	}
	return nil
}

func (s *Store) addVersion(ctx context.Context, name string, value secrets.Secret) error {
	sum := checksum(value)
	_, err := s.api.AddSecretVersion(ctx, &pb.AddSecretVersionRequest{
		Parent: s.resource(name), Payload: &pb.SecretPayload{Data: value, DataCrc32C: &sum},
	}, patience, limit)
	if status.Code(err) == codes.NotFound {
		return errStartOver
	}
	return err
}
