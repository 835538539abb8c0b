package rpc

import (
	"context"
	"errors"
	"log/slog"
	"path"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"nstance.dev/protos/identity"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/refusal"
)

// errorDomain is where the reasons of ErrorInfo are defined.
const errorDomain = "nstance"

var (
	errNotLeader   = refusal.New(refusal.Unavailable, reasonNotLeader, "not shard leader")
	errNotCluster  = refusal.New(refusal.FailedPrecondition, "NOT_CLUSTER_LEADER", "%v", operatorauth.ErrNotLeader)
	errRateLimited = refusal.New(refusal.ResourceExhausted, "RATE_LIMITED", "too many registrations; try again in a moment")
	errBadNonce    = refusal.New(refusal.PermissionDenied, "REGISTRATION_REFUSED", "%v", operatorauth.ErrRefused)
)

// reasonNotLeader marks the refusals to which the leader's address is added.
const reasonNotLeader = "NOT_LEADER"

// outward turns an error into what the caller is told, and logs what it is not.
// It is the only way out for errors.
func (g *guard) outward(ctx context.Context, trailer func(metadata.MD), method string, err error) error {
	if st, ok := err.(interface{ GRPCStatus() *status.Status }); ok { // a wrapped one would carry foreign text
		if st.GRPCStatus().Code() != codes.Unimplemented {
			return err // the framework's own
		}
		err = refusal.New(refusal.Unimplemented, "NOT_OFFERED", "%s is not offered by this server; GetServerInfo says what is", path.Base(method))
	}
	r := refusalFor(ctx, err)
	g.note(ctx, method, r, err)
	if r.Reason == reasonNotLeader {
		if addr := g.addr(g.opts.Leader()); addr != "" {
			trailer(metadata.Pairs(identity.LeaderTrailer, addr))
		}
	}
	return statusOf(r)
}

// refusals is how the errors of package operators look.
var refusals = []struct {
	err    error
	code   refusal.Code
	reason string
}{
	{operatorauth.ErrNotLeader, refusal.FailedPrecondition, "NOT_CLUSTER_LEADER"},
	{operatorauth.ErrRefused, refusal.PermissionDenied, "REGISTRATION_REFUSED"},
	{operatorauth.ErrUsed, refusal.AlreadyExists, "ALREADY_REGISTERED"},
	{operatorauth.ErrUnknown, refusal.PermissionDenied, "UNKNOWN_OPERATOR"},
	{operatorauth.ErrUnavailable, refusal.Unavailable, "STORAGE_UNAVAILABLE"},
}

// refusalFor says how an error looks outside.
func refusalFor(ctx context.Context, err error) *refusal.Error {
	var refused *refusal.Error
	var invalid *operatorauth.InvalidError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &invalid):
		return refusal.New(refusal.InvalidArgument, "INVALID_FIELD", "%v", invalid)
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return ended(ctx.Err())
	}
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			return &refusal.Error{Code: known.code, Reason: known.reason, Message: known.err.Error(), Err: err}
		}
	}
	switch {
	case errors.Is(err, lease.ErrNotLeader):
		return errNotLeader.Because(err)
	case objectstore.Retryable(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &refusal.Error{Code: refusal.Unavailable, Reason: "UNAVAILABLE", Message: "temporarily unavailable; try again", Err: err}
	}
	return refusal.ErrInternal.Because(err)
}

// ended answers a caller that has given up.
func ended(err error) *refusal.Error {
	if errors.Is(err, context.DeadlineExceeded) {
		return refusal.New(refusal.DeadlineExceeded, "DEADLINE_EXCEEDED", "the call took longer than the caller allowed")
	}
	return refusal.New(refusal.Canceled, "CANCELED", "the caller gave up")
}

// grpcCodes are the codes of gRPC by those of refusals.
var grpcCodes = map[refusal.Code]codes.Code{
	refusal.InvalidArgument:    codes.InvalidArgument,
	refusal.NotFound:           codes.NotFound,
	refusal.AlreadyExists:      codes.AlreadyExists,
	refusal.PermissionDenied:   codes.PermissionDenied,
	refusal.Unauthenticated:    codes.Unauthenticated,
	refusal.ResourceExhausted:  codes.ResourceExhausted,
	refusal.FailedPrecondition: codes.FailedPrecondition,
	refusal.Aborted:            codes.Aborted,
	refusal.Unavailable:        codes.Unavailable,
	refusal.Unimplemented:      codes.Unimplemented,
	refusal.DeadlineExceeded:   codes.DeadlineExceeded,
	refusal.Canceled:           codes.Canceled,
	refusal.Internal:           codes.Internal,
}

func grpcCode(code refusal.Code) codes.Code {
	if known, ok := grpcCodes[code]; ok {
		return known
	}
	return codes.Internal
}

func statusOf(r *refusal.Error) error {
	st := status.New(grpcCode(r.Code), r.Message)
	info := &errdetails.ErrorInfo{Reason: r.Reason, Domain: errorDomain}
	if r.Field != "" {
		info.Metadata = map[string]string{"field": r.Field}
	}
	detailed, err := st.WithDetails(info)
	if err != nil { // cannot be: the detail is a valid message
		return st.Err()
	}
	return detailed.Err()
}

// note logs a refusal: loudly where the server is at fault, and with what was
// kept from the caller. Of refusals that any stranger can cause there is one line a
// second and source.
func (g *guard) note(ctx context.Context, method string, r *refusal.Error, err error) {
	level := slog.LevelDebug
	switch r.Code {
	case refusal.Internal:
		level = slog.LevelError
	case refusal.Unavailable:
		if r.Reason != reasonNotLeader {
			level = slog.LevelWarn
		}
	case refusal.PermissionDenied, refusal.Unauthenticated, refusal.AlreadyExists, refusal.ResourceExhausted:
		level = slog.LevelInfo
	}
	source, missed := sourceOf(ctx), 0
	if level <= slog.LevelInfo {
		logged, before := g.refusals.log(source)
		if !logged {
			return
		}
		missed = before
	}
	args := []any{"method", method, "code", string(r.Code), "reason", r.Reason, "source", source, "error", err}
	if missed > 0 {
		args = append(args, "not_logged", missed)
	}
	g.opts.Log.Log(ctx, level, "call refused", args...)
}
