package jointoken

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/backoff"
)

// Options are the settings of a [Keeper].
type Options struct {
	// Client writes to the workload cluster, without a cache.
	Client client.Writer
	// ClusterID and Tenant are those of the operator: two of them keep two tokens.
	ClusterID, Tenant string
	// Life is how long a token is valid; at least a minute.
	Life time.Duration
	// Groups are those that it authenticates as, beside system:bootstrappers.
	Groups []string
	// Wanted reports whether anything uses a token; nil: something does.
	Wanted func() bool
	// Made hears of each token until when it is valid, of each failure, and with neither that
	// there is no token, since none is wanted; nil: nothing does.
	Made func(until time.Time, err error)
	Log  *slog.Logger
	Now  func() time.Time // nil: time.Now
}

// Keeper keeps the token. Its methods are safe for concurrent use; New makes one.
type Keeper struct {
	opts   Options
	newest atomic.Pointer[token]
}

type token struct {
	id     string // public
	secret string
	until  time.Time
}

// New returns a keeper that has made nothing yet.
func New(o Options) *Keeper {
	if o.Wanted == nil {
		o.Wanted = func() bool { return true }
	}
	if o.Made == nil {
		o.Made = func(time.Time, error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Keeper{opts: o}
}

// ErrNone is what [Keeper.Token] returns before the first token was made.
var ErrNone = errors.New("no join token has been made yet: the operator's log says why")

// Token returns the newest token, and until when it is valid.
func (k *Keeper) Token() (value string, until time.Time, err error) {
	t := k.newest.Load()
	if t == nil {
		return "", time.Time{}, ErrNone
	}
	return t.id + "." + t.secret, t.until, nil
}

// look is how soon it is noticed that a token is wanted now.
const look = time.Second

// Start keeps the token until ctx ends. It implements [manager.Runnable], for the leader alone.
func (k *Keeper) Start(ctx context.Context) error {
	failures := 0
	for {
		wait := look
		if err := k.keep(ctx, k.opts.Now()); err != nil && ctx.Err() == nil {
			failures++
			wait = backoff.Growing("join token", failures, time.Second, time.Minute)
			k.opts.Made(time.Time{}, err)
			k.opts.Log.ErrorContext(ctx, "join token not renewed", "error", err, "retry_in", wait.String())
		} else {
			failures = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// keep does what is due.
func (k *Keeper) keep(ctx context.Context, now time.Time) error {
	t := k.newest.Load()
	switch {
	case k.opts.Wanted() && (t == nil || !now.Before(t.until.Add(-k.opts.Life/2))):
		return k.renew(ctx, now)
	case t != nil && !now.Before(t.until): // nothing wants another one
		k.newest.Store(nil)
		k.opts.Made(time.Time{}, nil)
		k.remove(ctx, t.id)
	}
	return nil
}

// renew makes a token, and deletes those that have ended.
func (k *Keeper) renew(ctx context.Context, now time.Time) error {
	p := period(now, k.opts.Life)
	made, err := k.create(ctx, p, now.Add(k.opts.Life).Truncate(time.Second))
	if err != nil {
		return err
	}
	k.newest.Store(made)
	k.opts.Made(made.until, nil)
	k.opts.Log.InfoContext(ctx, "join token made", "id", made.id, "until", made.until, "reason", "half the life of the one before is over, or none exists")
	for a := range attempts {
		k.remove(ctx, id(k.opts.ClusterID, k.opts.Tenant, p+1, a))
	}
	return nil
}

// create makes a token under the first name of the period that is free. Those that are taken
// are of processes before this one, and machines may be joining by them; only the last is
// replaced.
func (k *Keeper) create(ctx context.Context, p int64, until time.Time) (*token, error) {
	for a := range attempts {
		made := &token{id(k.opts.ClusterID, k.opts.Tenant, p, a), secretOf(rand.Text()), until}
		err := k.opts.Client.Create(ctx, k.object(made))
		if apierrors.IsAlreadyExists(err) && a < attempts-1 {
			continue
		}
		if apierrors.IsAlreadyExists(err) {
			k.remove(ctx, made.id)
			err = k.opts.Client.Create(ctx, k.object(made))
		}
		if err != nil {
			return nil, fmt.Errorf("create join token: %w", err)
		}
		return made, nil
	}
	panic("unreachable: the last attempt returns")
}

// remove deletes a token, if it exists. One that cannot be deleted is of no use after its end: it is said,
// and its name is free again when its turn comes.
func (k *Keeper) remove(ctx context.Context, id string) {
	old := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: namePrefix + id}}
	if err := k.opts.Client.Delete(ctx, old); client.IgnoreNotFound(err) != nil {
		k.opts.Log.WarnContext(ctx, "old join token not deleted", "id", id, "error", err)
	}
}

// secretOf is the private half of a token: 16 letters of 5 random bits each.
func secretOf(random string) string { return strings.ToLower(random[:16]) }

func (k *Keeper) object(t *token) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: namePrefix + t.id},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(t.id), "token-secret": []byte(t.secret),
			"expiration":                     []byte(t.until.UTC().Format(time.RFC3339)),
			"usage-bootstrap-authentication": []byte("true"), "usage-bootstrap-signing": []byte("true"),
			"auth-extra-groups": []byte(strings.Join(k.opts.Groups, ",")),
			"description":       fmt.Appendf(nil, "nstance-operator: machines of cluster %s, tenant %s, join with it", k.opts.ClusterID, k.opts.Tenant),
		},
	}
}
