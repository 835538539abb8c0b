package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Class says what a caller can do about a failed call.
type Class string

// The classes of failures.
const (
	Unavailable   Class = "unavailable"    // nobody answered in time; repeat with growing pauses
	Exhausted     Class = "exhausted"      // we are too fast or too slow; repeat after 5s or more
	AuthFailed    Class = "auth-failed"    // the certificate is not accepted; renew or replace it
	TenantUnknown Class = "tenant-unknown" // the shard is not configured for our tenant
	Mismatch      Class = "mismatch"       // another shard or cluster answers at the address
	Denied        Class = "denied"         // this call is not for us
	Conflict      Class = "conflict"       // the object changed meanwhile; read it and plan again
	Locked        Class = "locked"         // the field of a static group; leave it out
	OtherManager  Class = "other-manager"  // somebody else looks after the group
	Elsewhere     Class = "elsewhere"      // only the cluster's leader answers; ask another shard
	Precondition  Class = "precondition"   // the object's state forbids it; repeat when that changes
	Invalid       Class = "invalid"        // no repetition helps until the request changes
	NotFound      Class = "not-found"      // the object is unknown there
	Exists        Class = "exists"         // the id or nonce is in use
	NoRoom        Class = "no-room"        // no machine can be had for the group now; nothing was made, try elsewhere or later
	OverQuota     Class = "over-quota"     // the tenant would have more than its quota there; repeat when that, or what it has, changes
	Unimplemented Class = "unimplemented"  // the server does not have the method
	Broken        Class = "broken"         // a fault of the server; repeat with growing pauses
	Ended         Class = "caller-gave-up" // our own context ended
)

// Answered reports whether the server decided about the call; else whether it took
// effect is unknown.
func (c Class) Answered() bool {
	return c != Unavailable && c != Broken && c != Ended
}

// Error is a call that failed.
type Error struct {
	Shard  string
	Method string // such as UpsertGroup
	Class  Class
	Code   codes.Code
	Reason string // of the server's ErrorInfo, such as LOCKED_FIELD; empty: none
	Err    error
}

// Error names shard, method and the server's words.
func (e *Error) Error() string {
	return fmt.Sprintf("shard %s: %s: %s", e.Shard, e.Method, words(e.Err))
}

// Unwrap returns the gRPC error.
func (e *Error) Unwrap() error { return e.Err }

// GRPCStatus makes status.Code work.
func (e *Error) GRPCStatus() *status.Status { return status.Convert(e.Err) }

// ClassOf returns the class of an error of this package, empty for others.
func ClassOf(err error) Class {
	if e := asError(err); e != nil {
		return e.Class
	}
	return ""
}

// ReasonOf returns the server's reason for an error of this package, such as ON_HOLD; empty: it gave none,
// or the error is another one.
func ReasonOf(err error) string {
	if e := asError(err); e != nil {
		return e.Reason
	}
	return ""
}

func asError(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		return nil
	}
	return e
}

// errorDomain is where the servers' reasons are defined.
const errorDomain = "nstance"

// reasonNotLeader is what a server of the shard says that does not lead it.
const reasonNotLeader = "NOT_LEADER"

// byReason and byCode are the whole of what answers mean; a reason is more exact than
// its code.
var (
	byReason = map[string]Class{
		"UNKNOWN_TENANT":       TenantUnknown,
		"UNKNOWN_OPERATOR":     AuthFailed,
		"WRONG_ROLE":           AuthFailed,
		"NOT_ADMINISTRATOR":    Denied,
		"LOCKED_FIELD":         Locked,
		"MANAGED_BY_OTHER":     OtherManager,
		"NOT_CLUSTER_LEADER":   Elsewhere,
		"ALREADY_REGISTERED":   Exists,
		"REGISTRATION_REFUSED": Denied,
		"NO_CAPACITY":          NoRoom,
		"QUOTA_EXCEEDED":       OverQuota,
		"ETAG_MISMATCH":        Conflict,
		"EDIT_LOST":            Conflict,
	}
	byCode = map[codes.Code]Class{
		codes.Canceled:           Unavailable,
		codes.Unavailable:        Unavailable,
		codes.DeadlineExceeded:   Unavailable,
		codes.Aborted:            Unavailable,
		codes.Unauthenticated:    AuthFailed,
		codes.PermissionDenied:   AuthFailed,
		codes.FailedPrecondition: Precondition,
		codes.InvalidArgument:    Invalid,
		codes.OutOfRange:         Invalid,
		codes.NotFound:           NotFound,
		codes.AlreadyExists:      Exists,
		codes.ResourceExhausted:  Exhausted,
		codes.Unimplemented:      Unimplemented,
		codes.Internal:           Broken,
		codes.Unknown:            Broken,
		codes.DataLoss:           Broken,
	}
)

// Classify says what an error of a gRPC call means, and the server's reason. A code that
// is not known counts as a fault of the server.
func Classify(err error) (Class, string) {
	if errors.Is(err, errMismatch) {
		return Mismatch, ""
	}
	if errors.Is(err, errCertificate) {
		return AuthFailed, ""
	}
	st := status.Convert(err)
	reason := reasonOf(st)
	if class, ok := byReason[reason]; ok {
		return class, reason
	}
	if class, ok := byCode[st.Code()]; ok {
		return class, reason
	}
	return Broken, reason
}

func reasonOf(st *status.Status) string {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			return info.GetReason()
		}
	}
	return ""
}

// refusals are the servers' reasons for which no certificate of ours gets in that they have issued to us before.
var refusals = []string{"UNKNOWN_OPERATOR", "BAD_CERTIFICATE", "CERTIFICATE_EXPIRED", "WRONG_ROLE"}

// refuses reports whether a server that has proved to be one of the shard does not let our certificate in. One
// whose own certificate is wrong says nothing about ours, and neither does a call that is not for us.
func refuses(err error) bool {
	return errors.Is(err, errRejected) || slices.Contains(refusals, reasonOf(status.Convert(err)))
}

// eventOf is what an error of a class says about the connection.
func eventOf(class Class, err error) Event {
	message := words(err)
	switch class {
	case Unavailable, Broken:
		return Failed{Reason: ReasonUnreachable, Message: message}
	case AuthFailed:
		return Failed{Reason: ReasonAuthFailed, Message: message, Refused: refuses(err)}
	case TenantUnknown:
		return Failed{Reason: ReasonTenantUnknown, Message: message}
	case Mismatch:
		return Failed{Reason: ReasonIdentityMismatch, Message: message}
	}
	return Answered{}
}

// class is what made a shard unusable for a reason; silence for none.
func (r Reason) class() Class {
	switch r {
	case ReasonAuthFailed:
		return AuthFailed
	case ReasonTenantUnknown:
		return TenantUnknown
	case ReasonIdentityMismatch:
		return Mismatch
	case ReasonUnreachable:
	}
	return Unavailable
}

// newError classifies what a call came back with at a time. A caller that gave up is not
// the server's fault; the server may have noticed the end of the time first.
func newError(ctx context.Context, now time.Time, shard, method string, err error) *Error {
	class, reason := Classify(err)
	deadline, limited := ctx.Deadline()
	if class == Unavailable && (ctx.Err() != nil || limited && !now.Before(deadline)) {
		class = Ended
	}
	return &Error{Shard: shard, Method: method, Class: class, Code: status.Code(err), Reason: reason, Err: err}
}

// words returns what users need of an error, without gRPC's own decoration.
func words(err error) string {
	if st, ok := status.FromError(err); ok {
		return st.Message()
	}
	return err.Error()
}
