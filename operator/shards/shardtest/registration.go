package shardtest

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// registrar admits operators, where its shard leads the cluster.
type registrar struct {
	nstancev1.UnimplementedRegistrationServiceServer
	shard *Shard
}

var errNotClusterLeader = Refusal(codes.FailedPrecondition, "NOT_CLUSTER_LEADER", "not the cluster's leader")

// RegisterOperator implements the registration API: one key for each nonce, and the same
// identity again for the same key.
func (r registrar) RegisterOperator(_ context.Context, req *nstancev1.RegisterClientRequest) (*nstancev1.RegisterClientResponse, error) {
	c := r.shard.cluster
	if !c.leads(r.shard.name) {
		return nil, errNotClusterLeader
	}
	token := req.GetRegistrationNonceJwt()
	claims, err := c.verify(token)
	if err != nil {
		return nil, Refusal(codes.PermissionDenied, "REGISTRATION_REFUSED", "registration refused")
	}
	key := publicKey(req.GetPublicKeyPem())
	if err := identity.VerifyProof(key, token, req.GetProof()); err != nil {
		return nil, Refusal(codes.InvalidArgument, "INVALID_FIELD", err.Error())
	}
	id, err := c.spend(claims.TokenID, key)
	if err != nil {
		return nil, err
	}
	cert := c.Issue(key, claims.Tenant, id)
	return &nstancev1.RegisterClientResponse{ClientCertificatePem: cert, ExpiresAt: timestamppb.New(expiry(cert))}, nil
}

func (c *Cluster) spend(token string, key ed25519.PublicKey) (identity.ID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if used, ok := c.spent[token]; ok {
		if !used.key.Equal(key) {
			return "", Refusal(codes.AlreadyExists, "ALREADY_REGISTERED", "the nonce is used")
		}
		return used.id, nil
	}
	id, err := identity.NewID(identity.OperatorPrefix)
	if err != nil {
		return "", Refusal(codes.Internal, "INTERNAL", err.Error())
	}
	c.spent[token] = spent{key, id}
	return id, nil
}

// RenewCertificate implements the operator API.
func (s *Shard) RenewCertificate(ctx context.Context, r *nstancev1.RenewCertificateRequest) (*nstancev1.RenewCertificateResponse, error) {
	if !s.cluster.leads(s.name) {
		return nil, errNotClusterLeader
	}
	key := publicKey(r.GetPublicKeyPem())
	if key == nil {
		return nil, Refusal(codes.InvalidArgument, "INVALID_FIELD", "public_key_pem is not an Ed25519 key")
	}
	who := peerOf(ctx)
	cert := s.cluster.Issue(key, who.Tenant, who.ID)
	return &nstancev1.RenewCertificateResponse{ClientCertificatePem: cert, ExpiresAt: timestamppb.New(expiry(cert))}, nil
}

// publicKey reads an Ed25519 key, PEM in PKIX form; nil for anything else.
func publicKey(text []byte) ed25519.PublicKey {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil
	}
	public, _ := key.(ed25519.PublicKey)
	return public
}

func expiry(cert []byte) (end time.Time) {
	if block, _ := pem.Decode(cert); block != nil {
		if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
			end = leaf.NotAfter
		}
	}
	return end
}
