package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/operators"
	"nstance.dev/server/shard"
)

// errorDomain is where the reasons of ErrorInfo are defined.
const errorDomain = "nstance"

func refuse(code codes.Code, reason, format string, args ...any) *shard.Refusal {
	return &shard.Refusal{Code: code, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

var (
	errInternal    = refuse(codes.Internal, "INTERNAL", "internal error; the server's log says more")
	errExpired     = refuse(codes.Unauthenticated, "CERTIFICATE_EXPIRED", "the certificate has expired")
	errNotLeader   = refuse(codes.Unavailable, reasonNotLeader, "not shard leader")
	errNotCluster  = refuse(codes.FailedPrecondition, "NOT_CLUSTER_LEADER", "%v", operators.ErrNotLeader)
	errRevoked     = refuse(codes.PermissionDenied, "UNKNOWN_OPERATOR", "%v", operators.ErrUnknown)
	errStalled     = refuse(codes.ResourceExhausted, "WATCHER_TOO_SLOW", "the watcher does not read; connect again for a new snapshot")
	errRateLimited = refuse(codes.ResourceExhausted, "RATE_LIMITED", "too many registrations; try again in a moment")
	errBadNonce    = refuse(codes.PermissionDenied, "REGISTRATION_REFUSED", "%v", operators.ErrRefused)
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
		err = refuse(codes.Unimplemented, "NOT_OFFERED", "%s is not offered by this server; GetServerInfo says what is", path.Base(method))
	}
	r := refusalFor(ctx, err)
	g.note(ctx, method, r, err)
	if r.Reason == reasonNotLeader {
		if addr := g.addr(g.opts.Leader()); addr != "" {
			trailer(metadata.Pairs(LeaderTrailer, addr))
		}
	}
	return statusOf(r)
}

// refusals is how the errors of package operators look.
var refusals = []struct {
	err    error
	code   codes.Code
	reason string
}{
	{operators.ErrNotLeader, codes.FailedPrecondition, "NOT_CLUSTER_LEADER"},
	{operators.ErrRefused, codes.PermissionDenied, "REGISTRATION_REFUSED"},
	{operators.ErrUsed, codes.AlreadyExists, "ALREADY_REGISTERED"},
	{operators.ErrUnknown, codes.PermissionDenied, "UNKNOWN_OPERATOR"},
	{operators.ErrUnavailable, codes.Unavailable, "STORAGE_UNAVAILABLE"},
}

// refusalFor says how an error looks outside.
func refusalFor(ctx context.Context, err error) *shard.Refusal {
	var refusal *shard.Refusal
	var invalid *operators.InvalidError
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &invalid):
		return refuse(codes.InvalidArgument, "INVALID_FIELD", "%v", invalid)
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return ended(ctx.Err())
	}
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			return &shard.Refusal{Code: known.code, Reason: known.reason, Message: known.err.Error(), Err: err}
		}
	}
	switch {
	case errors.Is(err, lease.ErrNotLeader):
		return &shard.Refusal{Code: codes.Unavailable, Reason: reasonNotLeader, Message: errNotLeader.Message, Err: err}
	case objectstore.Retryable(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &shard.Refusal{Code: codes.Unavailable, Reason: "UNAVAILABLE", Message: "temporarily unavailable; try again", Err: err}
	}
	return &shard.Refusal{Code: errInternal.Code, Reason: errInternal.Reason, Message: errInternal.Message, Err: err}
}

// ended answers a caller that has given up.
func ended(err error) *shard.Refusal {
	if errors.Is(err, context.DeadlineExceeded) {
		return refuse(codes.DeadlineExceeded, "DEADLINE_EXCEEDED", "the call took longer than the caller allowed")
	}
	return refuse(codes.Canceled, "CANCELED", "the caller gave up")
}

func statusOf(r *shard.Refusal) error {
	st := status.New(r.Code, r.Message)
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: r.Reason, Domain: errorDomain})
	if err != nil { // cannot be: the detail is a valid message
		return st.Err()
	}
	return detailed.Err()
}

// note logs a refusal: loudly where the server is at fault, and with what was
// kept from the caller. Of refusals that any stranger can cause there is one line a
// second and source.
func (g *guard) note(ctx context.Context, method string, r *shard.Refusal, err error) {
	level := slog.LevelDebug
	switch r.Code {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		level = slog.LevelError
	case codes.Unavailable:
		if r.Reason != reasonNotLeader {
			level = slog.LevelWarn
		}
	case codes.PermissionDenied, codes.Unauthenticated, codes.AlreadyExists, codes.ResourceExhausted:
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
	args := []any{"method", method, "code", r.Code.String(), "reason", r.Reason, "source", source, "error", err}
	if missed > 0 {
		args = append(args, "not_logged", missed)
	}
	g.opts.Log.Log(ctx, level, "call refused", args...)
}
