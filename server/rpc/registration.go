package rpc

import (
	"context"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/pki"
)

// registrationService lets newcomers in. Before the limit nothing is parsed: a token is
// looked up by its hash, and who shows a nonce that is outstanding is never limited.
type registrationService struct {
	nstancev1.UnimplementedRegistrationServiceServer
	opts     Options
	attempts *attempts
}

func newRegistration(opts Options) *registrationService {
	return &registrationService{opts: opts, attempts: newAttempts(opts.Now)}
}

// RegisterAgent implements [nstancev1.RegistrationServiceServer].
func (s *registrationService) RegisterAgent(ctx context.Context, req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	term, err := s.opts.Shard.Term()
	if err != nil {
		return nil, err
	}
	source := sourceOf(ctx)
	switch token := req.RegistrationNonceJwt; {
	case term.Agents().OutstandingNonce(token):
		clientOf(ctx).own("nonce " + pki.HashNonce(token))
	case !s.attempts.allow(source):
		return nil, errRateLimited
	}
	if err := s.checkForm(req); err != nil {
		return nil, err
	}
	return term.Agents().Register(ctx, source, req)
}

// RegisterOperator implements [nstancev1.RegistrationServiceServer]. A server
// that leads the cluster answers whether or not it leads a shard.
func (s *registrationService) RegisterOperator(ctx context.Context, req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	if !s.opts.Operators.Leading() {
		if _, err := s.opts.Shard.Term(); err != nil {
			return nil, err
		}
		return nil, errNotCluster
	}
	if !s.attempts.allow(sourceOf(ctx)) {
		return nil, errRateLimited
	}
	if err := s.checkForm(req); err != nil {
		return nil, err
	}
	return s.opts.Operators.Register(ctx, req)
}

// checkForm sorts out tokens that this cluster cannot have signed.
func (s *registrationService) checkForm(req *nstancev1.RegisterClientRequest) error {
	verifier := s.opts.Verifier()
	if verifier == nil {
		return errNotLeader
	}
	if err := verifier.CheckForm(req.RegistrationNonceJwt); err != nil {
		return errBadNonce.Because(pki.NonceReason(err))
	}
	return nil
}
