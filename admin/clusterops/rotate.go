package clusterops

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"reflect"
	"time"

	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
)

// RotateEncryption has the first encryption key seal every secret, and reads each
// back. The name of each and whether there was anything to do are told to each.
// One that can't be sealed does not keep the others back; the error names all of
// those. It may be repeated and interrupted at any moment.
func (c *Cluster) RotateEncryption(ctx context.Context, each func(name string, changed bool)) error {
	return c.eachSealed(ctx, (*secrets.Sealed).Reseal, each)
}

// PlanRotateEncryption tells of each secret whether [Cluster.RotateEncryption] would seal it again. It opens all of
// them, and writes nothing.
func (c *Cluster) PlanRotateEncryption(ctx context.Context, each func(name string, changes bool)) error {
	return c.eachSealed(ctx, (*secrets.Sealed).NeedsReseal, each)
}

func (c *Cluster) eachSealed(ctx context.Context, work func(*secrets.Sealed, context.Context, string) (bool, error), each func(name string, changed bool)) error {
	sealed, ok := c.secrets.(*secrets.Sealed)
	if !ok {
		return fmt.Errorf("%w: its secrets service encrypts by itself; there is no encryption key to change", ErrSettings)
	}
	names, err := sealed.List(ctx, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		changed, err := work(sealed, ctx, name)
		switch {
		case errors.Is(err, secrets.ErrNotFound): // gone since
		case err != nil:
			errs = append(errs, err)
		default:
			each(name, changed)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// NonceRotation says how the key of nonces is changed.
type NonceRotation struct {
	// Settle is how long servers have to learn a new key before it signs. They
	// look once a minute.
	Settle time.Duration
	// Keep is how long nonces of an old key may still come: longer than any lives.
	Keep time.Duration
	// PruneOnly removes old keys that are over and changes nothing else.
	PruneOnly bool

	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
	Log   func(step string) // is told of each step, in words for people
}

// RotateNonce puts a new key of nonces in force, without a nonce being refused for
// it: see [pki.AnnounceNonceKey]. It takes as long as r.Settle. When it was
// interrupted, the next call goes on where it stopped. Only one may run at a time.
// Keys returns all keys as they are in the end, that which signs first.
func (c *Cluster) RotateNonce(ctx context.Context, r NonceRotation) ([]pki.NonceKey, error) {
	keys, err := pki.ReadNonceKeys(ctx, c.secrets)
	if err != nil {
		return nil, notSetUp(err)
	}
	next := pki.PruneNonceKeys(keys, r.Now(), r.Keep)
	if gone := len(keys) - len(next); gone > 0 {
		r.Log(fmt.Sprintf("%d old key(s) removed", gone))
	}
	if !r.PruneOnly {
		before := len(next)
		if next, err = pki.AnnounceNonceKey(next, r.Now(), newKey); err != nil {
			return nil, err
		}
		if len(next) > before {
			r.Log("a new key is announced")
		} else {
			r.Log("a key was announced before, and is taken")
		}
	}
	if !reflect.DeepEqual(keys, next) {
		if err := pki.WriteNonceKeys(ctx, c.secrets, next); err != nil {
			return nil, err
		}
	}
	if r.PruneOnly {
		return next, nil
	}
	return c.promote(ctx, r)
}

// PlanRotateNonce tells r.Log what [Cluster.RotateNonce] would do, and writes nothing.
func (c *Cluster) PlanRotateNonce(ctx context.Context, r NonceRotation) error {
	keys, err := pki.ReadNonceKeys(ctx, c.secrets)
	if err != nil {
		return notSetUp(err)
	}
	kept := pki.PruneNonceKeys(keys, r.Now(), r.Keep)
	r.Log(fmt.Sprintf("%d of %d keys would be removed", len(keys)-len(kept), len(keys)))
	if r.PruneOnly {
		return nil
	}
	next, err := pki.AnnounceNonceKey(kept, r.Now(), newKey)
	if err != nil {
		return err
	}
	if len(next) > len(kept) {
		r.Log("a new key would be announced")
	} else {
		r.Log("a key was announced before, and would be taken")
	}
	_, wait := pki.PromoteNonceKey(next, r.Now(), r.Settle)
	r.Log(fmt.Sprintf("it would sign in %v", wait.Round(time.Second)))
	return nil
}

// promote waits until the announced key may sign. What is stored is read again
// after the wait, since another call may have done it meanwhile.
func (c *Cluster) promote(ctx context.Context, r NonceRotation) ([]pki.NonceKey, error) {
	for {
		keys, err := pki.ReadNonceKeys(ctx, c.secrets)
		if err != nil {
			return nil, err
		}
		next, wait := pki.PromoteNonceKey(keys, r.Now(), r.Settle)
		if wait > 0 {
			r.Log(fmt.Sprintf("waiting %v until every server knows it", wait.Round(time.Second)))
			if err := r.Sleep(ctx, wait); err != nil {
				return nil, fmt.Errorf("%w; the new key does not sign yet: call it again to go on", err)
			}
			continue
		}
		if !next[0].Key.Equal(keys[0].Key) {
			if err := pki.WriteNonceKeys(ctx, c.secrets, next); err != nil {
				return nil, err
			}
		}
		r.Log("the new key signs")
		return next, nil
	}
}

func newKey() (ed25519.PrivateKey, error) { return pki.NewPrivateKey(nil) }
