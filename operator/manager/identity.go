package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nstance.dev/operator/backoff"
	"nstance.dev/operator/config"
	"nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/credentials/registration"
	"nstance.dev/operator/credentials/secrets"
)

// Pauses between rounds of registration, and how often it is looked whether the nonce has
// changed meanwhile.
const (
	firstRegistrationPause   = 5 * time.Second
	longestRegistrationPause = 5 * time.Minute
	nonceInterval            = 5 * time.Second
)

// identify gives the process its identity. It tries until there is one, and says meanwhile
// on the NstanceCluster why there is none. The error is the reason of ctx, or that the
// identity is another cluster's or tenant's, which only a new start mends.
func (p *process) identify(ctx context.Context) error {
	for failures := 1; ; failures++ {
		if err := p.reload(ctx); err != nil {
			p.opts.Log.WarnContext(ctx, "configuration not read, keeping the previous one", "error", err)
		}
		err := p.obtain(ctx)
		switch {
		case err == nil:
			p.metrics.Certificate(p.identity.Validity())
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, registration.ErrTenant):
			return fmt.Errorf("identity of the operator: %w", err)
		}
		wait := backoff.Growing(p.cluster, failures, firstRegistrationPause, longestRegistrationPause)
		p.progress.unregistered.Store(&cluster.Problem{Reason: unregistered(err), Message: err.Error()})
		p.opts.Log.WarnContext(ctx, "operator not registered", "reason", unregistered(err), "error", err, "retry_in", wait.Round(time.Second).String())
		if err := p.awaitNonce(ctx, wait); err != nil {
			return err
		}
	}
}

// obtain makes one attempt: one round over the shards, where a registration is needed.
func (p *process) obtain(ctx context.Context) error {
	bundle, err := caBundle(ctx, p.live, p.settings.Namespace, p.settings.CAConfigMap)
	if err != nil {
		return err
	}
	identity, err := registration.NewIdentity(bundle)
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", p.settings.CAConfigMap, err)
	}
	p.identity = identity
	o := p.registration()
	o.Patience = time.Nanosecond // the pauses between rounds are those of identify
	return registration.Obtain(ctx, o)
}

// unregistered is the reason of a condition for an attempt that failed.
func unregistered(err error) string {
	switch {
	case errors.Is(err, registration.ErrNoNonce):
		return "NonceMissing"
	case errors.Is(err, registration.ErrNonceUsed):
		return "NonceUsed"
	case errors.Is(err, registration.ErrRefused):
		return "NonceRefused"
	case errors.Is(err, registration.ErrNoShard):
		return "NoShardAnswers"
	}
	return "RegistrationFailed"
}

// awaitNonce waits, and returns before the time if the Secret with the nonce has changed.
func (p *process) awaitNonce(ctx context.Context, most time.Duration) error {
	name := p.settings.NonceSecret
	before := p.nonce(ctx, name)
	for left := most; left > 0; left -= nonceInterval {
		if err := pause(ctx, min(nonceInterval, left)); err != nil {
			return err
		}
		if now := p.nonce(ctx, name); now != before {
			return nil
		}
	}
	return nil
}

// nonce is what stands in the Secret of the nonce; empty where it is missing or cannot be read.
func (p *process) nonce(ctx context.Context, name string) string {
	stored, err := p.store.Get(ctx, name)
	if err != nil {
		if !errors.Is(err, secrets.ErrNotFound) {
			p.opts.Log.DebugContext(ctx, "nonce not read", "secret", name, "error", err)
		}
		return ""
	}
	return string(stored.Data[p.settings.NonceKey])
}

// reload reads the configuration again, as a process that has waited for long does not know
// what has changed meanwhile, and puts it in force. One that is of another cluster or tenant
// than the present one is left alone: a new start applies it.
func (p *process) reload(ctx context.Context) error {
	next, listed, err := load(ctx, p.settings, p.live)
	if err != nil {
		return err
	}
	if _, err := config.Diff(p.config(), next); err != nil {
		return err
	}
	p.liveConfig.set(next)
	p.liveConfig.listed = listed
	p.shardState.feed.Inventory().Configure(next.Names())
	return nil
}
