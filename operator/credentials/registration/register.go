package registration

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/operator/shards"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// callTimeout is how long one server gets to answer.
const callTimeout = 30 * time.Second

// register turns a nonce into a certificate, stores it and makes it the identity's.
func (o Options) register(ctx context.Context, key ed25519.PrivateKey, token string) error {
	public, err := encodePublic(key)
	if err != nil {
		return err
	}
	reply, err := o.ask(ctx, &nstancev1.RegisterClientRequest{
		RegistrationNonceJwt: token, PublicKeyPem: public, Proof: identity.SignProof(key, token),
	})
	if err != nil {
		return err
	}
	got, err := o.owner().check(reply.GetClientCertificatePem(), key, o.Identity.trusted(), o.Now())
	if err != nil {
		return fmt.Errorf("the certificate that was issued: %w", err)
	}
	if err := o.save(ctx, got, nonceDigest(token)); err != nil {
		return err
	}
	o.Identity.set(got)
	o.Log.InfoContext(ctx, "registered", "until", got.leaf.NotAfter)
	return nil
}

// ask goes round the shards until the leader of the cluster answers.
func (o Options) ask(ctx context.Context, request *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	end := o.Now().Add(o.Patience)
	for failures := 1; ; failures++ {
		reply, err := o.round(ctx, request)
		if err == nil || Final(err) || ctx.Err() != nil {
			return reply, err
		}
		pause := shards.Pause(shards.Unavailable, failures, o.Random())
		if o.Now().Add(pause).After(end) {
			if errors.Is(err, ErrRefused) || errors.Is(err, ErrNoShard) {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w", ErrNoShard, err)
		}
		o.Log.WarnContext(ctx, "registration failed", "error", err, "retry_in", pause.String())
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// round asks each server once. The error is the one that ends it all, else the last
// refusal, which says more than that others do not answer or lead, else the last one.
func (o Options) round(ctx context.Context, request *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	last := fmt.Errorf("%w: none is configured", ErrNoShard)
	for _, target := range o.Shards() {
		for _, address := range target.Addresses {
			reply, err := o.attempt(ctx, target.Shard, address, request)
			if err == nil || Final(err) || ctx.Err() != nil {
				return reply, err
			}
			if !errors.Is(last, ErrRefused) || errors.Is(err, ErrRefused) {
				last = err
			}
		}
	}
	return nil, last
}

// attempt asks one server. It shows the nonce to nobody who has not proved to be a server
// of the shard.
func (o Options) attempt(ctx context.Context, shard, address string, request *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	cc, why, err := shards.Dial(address, identity.ServerName(shard, o.Cluster), withoutCertificate{o.Identity}, o.Dial)
	if err != nil {
		return nil, err
	}
	defer cc.Close()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := nstancev1.NewRegistrationServiceClient(cc).RegisterOperator(call, request)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, meaning(fmt.Errorf("shard %s at %s: %w", shard, address, why.Of(err)))
	}
	return reply, nil
}

// meaning adds to an error what a caller acts on.
func meaning(err error) error {
	switch status.Code(err) {
	case codes.AlreadyExists:
		return fmt.Errorf("%w: %w", ErrNonceUsed, err)
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// wait sleeps, or returns the reason of ctx.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
