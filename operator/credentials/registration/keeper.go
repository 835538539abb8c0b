package registration

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/shards"
	"nstance.dev/protos/identity"
)

// Renewer asks for a new certificate, PEM, over a public key, PEM.
type Renewer func(ctx context.Context, publicKeyPEM []byte) ([]byte, error)

// RenewVia returns a Renewer over the connections of a set: it asks one shard after the
// other until one leads the cluster.
func RenewVia(set *shards.Set) Renewer {
	return func(ctx context.Context, publicKeyPEM []byte) ([]byte, error) {
		last := fmt.Errorf("%w: none is configured", ErrNoShard)
		for _, shard := range set.Shards() {
			reply, err := shard.RenewCertificate(ctx, publicKeyPEM)
			if err == nil {
				return reply.GetClientCertificatePem(), nil
			}
			last = err
		}
		return nil, last
	}
}

// RenewalResult is what came of a renewal.
type RenewalResult struct {
	// Renewed says that there is a new certificate; else the old one is about to end or
	// has ended, and Err is why there is no new one.
	Renewed bool
	Until   time.Time // end of the present certificate
	Err     error
}

// Keeper keeps an identity fresh.
type Keeper struct {
	Options Options
	Renew   Renewer // required
	// Redial lets connections use a new certificate; nil: they do at their next handshake.
	Redial func(ctx context.Context)
	// Refused names a shard that does not let the certificate in, as where the operator's record was deleted;
	// "", or nil: none is known.
	Refused func() string
	// Report is told of a new certificate, and of a lack of one at most every six hours;
	// required.
	Report func(RenewalResult)

	// rejected is the digest of a nonce that was refused for good.
	rejected string
}

// Run renews the certificate whenever it is due, until ctx ends, and returns the reason.
// In the certificate's last days, after its end, and while a shard refuses it, the operator registers again, with
// a new key, if its Secret has a nonce that was not used before.
func (k *Keeper) Run(ctx context.Context) error {
	o := k.Options.withDefaults()
	o.Patience = time.Nanosecond // one round at a time: the pauses are those between them
	for {
		registered, err := k.untilDue(ctx, o)
		if err != nil {
			return err
		}
		if !registered {
			if err := k.retryUntilRenewed(ctx, o); err != nil {
				return err
			}
		}
		_, until := o.Identity.Validity()
		k.Report(RenewalResult{Renewed: true, Until: until})
		if k.Redial != nil {
			k.Redial(ctx)
		}
	}
}

// lookAgain is how often the operator looks whether it is refused, and has a nonce then.
const lookAgain = time.Minute

// untilDue waits until the certificate is to be renewed, or was replaced because it was refused. The error is the
// reason of ctx.
func (k *Keeper) untilDue(ctx context.Context, o Options) (registered bool, err error) {
	from, until := o.Identity.Validity()
	due := Due(from, until, o.Random())
	for {
		left := due.Sub(o.Now())
		if left <= 0 {
			return false, context.Cause(ctx)
		}
		if err := wait(ctx, min(left, lookAgain)); err != nil {
			return false, err
		}
		shard := k.refusedBy()
		if shard == "" {
			continue
		}
		err := k.registerWithNewNonce(ctx, o)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err == nil:
			o.Log.InfoContext(ctx, "registered again", "reason", "shard refuses the certificate", "shard", shard)
			return true, nil
		case !errors.Is(err, errNoNewNonce):
			o.Log.WarnContext(ctx, "registering again failed", "error", err, "reason", "shard refuses the certificate", "shard", shard)
		}
	}
}

// retryUntilRenewed tries until there is a new certificate. The error is the reason of ctx.
func (k *Keeper) retryUntilRenewed(ctx context.Context, o Options) error {
	from, until := o.Identity.Validity()
	for warned := (time.Time{}); ; {
		err := k.renewOrRegister(ctx, o)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			return nil
		}
		now := o.Now()
		o.Log.WarnContext(ctx, "certificate not renewed", "error", err, "until", until)
		if Critical(from, until, now) && (warned.IsZero() || now.Sub(warned) >= warnInterval) {
			warned = now
			k.Report(RenewalResult{Until: until, Err: err})
		}
		if err := k.pauseUntilRetry(ctx, Retry(from, until, o.Random())); err != nil {
			return err
		}
	}
}

// pauseUntilRetry waits until the next attempt, which is soon where a shard refuses the certificate. The error is the reason of ctx.
func (k *Keeper) pauseUntilRetry(ctx context.Context, pause time.Duration) error {
	for pause > 0 {
		step := min(pause, lookAgain)
		if err := wait(ctx, step); err != nil {
			return err
		}
		if k.refusedBy() != "" {
			return nil
		}
		pause -= step
	}
	return nil
}

// refusedBy names a shard that refuses the certificate.
func (k *Keeper) refusedBy() string {
	if k.Refused == nil {
		return ""
	}
	return k.Refused()
}

// renewOrRegister renews, or, where that fails and it is time, registers again.
func (k *Keeper) renewOrRegister(ctx context.Context, o Options) error {
	err := k.renew(ctx, o)
	from, until := o.Identity.Validity()
	if err == nil || !Critical(from, until, o.Now()) && k.refusedBy() == "" {
		return err
	}
	again := k.registerWithNewNonce(ctx, o)
	switch {
	case again == nil:
		return nil
	case errors.Is(again, errNoNewNonce):
		return err
	}
	return errors.Join(err, again)
}

// renew asks for a new certificate over the present key. A crash after the answer costs
// nothing: the old one is still stored, and good for a third of its life.
func (k *Keeper) renew(ctx context.Context, o Options) error {
	present := o.Identity.get()
	public, err := encodePublic(present.key)
	if err != nil {
		return err
	}
	text, err := k.Renew(ctx, public)
	if err != nil {
		return err
	}
	got, err := o.owner().check(text, present.key, o.Identity.trusted(), o.Now())
	if err != nil {
		return fmt.Errorf("the certificate that was issued: %w", err)
	}
	if err := o.save(ctx, got, ""); err != nil {
		return err
	}
	o.Identity.set(got)
	o.Log.InfoContext(ctx, "certificate renewed", "until", got.leaf.NotAfter)
	return nil
}

// errNoNewNonce says that the nonce in its Secret is the one that was used, has ended, or is none.
var errNoNewNonce = errors.New("there is no unused nonce")

// registerWithNewNonce registers with a nonce that was not used before, and was not refused for good.
func (k *Keeper) registerWithNewNonce(ctx context.Context, o Options) error {
	token, err := o.nonce(ctx)
	if errors.Is(err, ErrNoNonce) {
		return errNoNewNonce
	}
	if err != nil {
		return err
	}
	digest := nonceDigest(token)
	if claims, err := identity.DecodeNonceUnverified(token); err != nil || !claims.Expiry().After(o.Now()) || digest == k.rejected {
		return errNoNewNonce
	}
	err = o.registerAgain(ctx, token, digest)
	if Final(err) {
		k.rejected = digest
	}
	return err
}

// registerAgain registers with a nonce and a new key. The key is stored first: if the answer is lost, the same
// key asks again. A certificate that was stored, and not heard to be, is taken from there.
func (o Options) registerAgain(ctx context.Context, token, digest string) error {
	stored, err := o.Store.Get(ctx, o.Names.Certificate)
	if err != nil && !errors.Is(err, secrets.ErrNotFound) {
		return err
	}
	if string(stored.Data[usedEntry]) == digest {
		found, err := o.stored(ctx)
		if err != nil || found.key.Equal(o.Identity.get().key) {
			return errNoNewNonce
		}
		o.Identity.set(found)
		o.Log.InfoContext(ctx, "certificate taken from its Secret", "until", found.leaf.NotAfter)
		return nil
	}
	key, err := o.prepareKey(ctx)
	if err != nil {
		return err
	}
	return o.register(ctx, key, token)
}

// prepareKey returns a key that has no certificate yet: the stored one if it has none,
// else a new one that takes its place there. The certificate's Secret has its own copy.
func (o Options) prepareKey(ctx context.Context) (ed25519.PrivateKey, error) {
	inUse := o.Identity.get().key
	var key ed25519.PrivateKey
	_, err := secrets.Write(ctx, o.Store, o.Names.Key, func(s secrets.Secret) (secrets.Secret, error) {
		if prepared, err := decodeKey(s.Data[privateEntry]); err == nil && !prepared.Equal(inUse) {
			key = prepared
			return s, nil
		}
		drawn, fresh, err := o.drawKey()
		if err != nil {
			return s, err
		}
		key, s.Labels, s.Data = drawn, fresh.Labels, fresh.Data
		return s, nil
	})
	return key, err
}
