package enroll

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"nstance.dev/agent/credentials"
	"nstance.dev/agent/link"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// What a caller acts on.
var (
	// ErrRefused: the server will never admit this machine with this nonce. To try again,
	// or to start again, is of no use; the server replaces the machine.
	ErrRefused = errors.New("registration refused")
	// ErrNonceExpired: no server has answered during the nonce's life.
	ErrNonceExpired = errors.New("nonce expired before any server answered")
)

const callTimeout = 15 * time.Second

// Host is what a machine says about itself at registration. Zero fields are left out.
type Host struct {
	Hostname   string
	IPv4, IPv6 netip.Addr
}

// Options are the settings of [Run].
type Options struct {
	// Credentials holds the nonce, and gets key, certificate and configuration hash.
	Credentials *credentials.Dir
	// Book has the addresses of the registration service.
	Book *link.Book
	// Dialer connects to them. Run sets its server name.
	Dialer link.Dialer
	// Host is told to the server.
	Host Host
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Random returns numbers in [0, 1); nil: rand.Float64.
	Random func() float64
}

// Run registers, and returns the identity once it is stored. It goes on until it is
// answered. The error matches [ErrRefused], [ErrNonceExpired], the reason of ctx, or is
// one of this machine's own files.
func Run(ctx context.Context, o Options, log *slog.Logger) (credentials.Identity, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	request, claims, err := prepare(o.Credentials, o.Host)
	if err != nil {
		return credentials.Identity{}, err
	}
	o.Dialer.ServerName = identity.ServerName(claims.Shard, claims.ClusterID)

	certificate, err := o.persist(ctx, request, o.Now().Add(lifetime(claims)), log)
	if err != nil {
		return credentials.Identity{}, err
	}
	id, err := o.Credentials.StoreCertificate(certificate)
	if err != nil {
		return credentials.Identity{}, err
	}
	return id, o.Credentials.DiscardNonce()
}

// lifetime is how long it can be of use to go on with a nonce that has just arrived.
func lifetime(c identity.NonceClaims) time.Duration {
	return time.Duration(c.ExpiresAt-c.IssuedAt)*time.Second + identity.NonceLeeway
}

// prepare reads the nonce and signs it with the machine's key. It also notes the
// configuration that the machine was made from, which the nonce names.
func prepare(dir *credentials.Dir, host Host) (*nstancev1.RegisterClientRequest, identity.NonceClaims, error) {
	token, claims, err := dir.Nonce()
	if errors.Is(err, identity.ErrNonceForm) {
		return nil, claims, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return nil, claims, err
	}
	if err := dir.ForgetOther(); err != nil {
		return nil, claims, err
	}
	if err := dir.StoreConfigHash(claims.ConfigHash); err != nil {
		return nil, claims, err
	}
	key, err := dir.Key()
	if err != nil {
		return nil, claims, err
	}
	publicKey, err := credentials.PublicKeyPEM(key)
	if err != nil {
		return nil, claims, err
	}
	return &nstancev1.RegisterClientRequest{
		RegistrationNonceJwt: token,
		PublicKeyPem:         publicKey,
		PrivateIpv4:          addrString(host.IPv4),
		PrivateIpv6:          addrString(host.IPv6),
		Hostname:             host.Hostname,
		Proof:                ed25519.Sign(key, []byte(token)),
	}, claims, nil
}

func addrString(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// persist asks until there is an answer that counts, or until deadline.
func (o Options) persist(ctx context.Context, request *nstancev1.RegisterClientRequest, deadline time.Time, log *slog.Logger) ([]byte, error) {
	for failures := 0; ; {
		certificate, leader, err := o.attempt(ctx, request)
		switch {
		case err == nil:
			return certificate, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case Final(err):
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		case o.Book.Failed(leader):
			continue
		}
		failures++
		pause := link.Enrol(failures, o.Random())
		if o.Now().Add(pause).After(deadline) {
			return nil, fmt.Errorf("%w; the last error was: %w", ErrNonceExpired, err)
		}
		log.WarnContext(ctx, "registration failed", "error", err, "retry_in", pause.String())
		if err := link.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// attempt asks one server once. leader is the address that it names as the leader's.
func (o Options) attempt(ctx context.Context, request *nstancev1.RegisterClientRequest) (certificate []byte, leader string, err error) {
	addr, err := o.Book.Next()
	if err != nil {
		return nil, "", err
	}
	conn, err := o.Dialer.Dial(addr)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = conn.Close() }() // nothing waits on it any more

	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var trailer metadata.MD
	reply, err := nstancev1.NewRegistrationServiceClient(conn).RegisterAgent(ctx, request, grpc.Trailer(&trailer))
	if err != nil {
		return nil, link.Leader(trailer), fmt.Errorf("register at %s: %w", addr, err)
	}
	return reply.GetClientCertificatePem(), "", nil
}

// Final reports whether a server's answer means that no attempt can succeed: the nonce,
// the key or the instance is not accepted. Everything else may pass.
func Final(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.AlreadyExists, codes.Unauthenticated:
		return true
	default:
		return false
	}
}
