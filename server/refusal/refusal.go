// Package refusal is how the server says that it does not carry out a call: an
// error with a code, a reason that programs read, and a message for the caller.
//
// Its codes are words of its own, so that packages which decide need not know how
// their callers are connected; package rpc translates them into those of gRPC. What
// an [Error] wraps is for the server's log alone and is never sent.
package refusal

import (
	"errors"
	"fmt"
)

// Code is the kind of a refusal: what a caller can do about it. The values and their
// meaning are those of gRPC (https://grpc.io/docs/guides/status-codes/), by name,
// which is how they stand in messages of the agents' stream.
type Code string

// The codes in use.
const (
	InvalidArgument    Code = "InvalidArgument"    // the call is wrong, whatever the state
	NotFound           Code = "NotFound"           // it does not exist, or belongs to another tenant
	AlreadyExists      Code = "AlreadyExists"      // what the call makes exists
	PermissionDenied   Code = "PermissionDenied"   // the caller is known and may not do that
	Unauthenticated    Code = "Unauthenticated"    // who the caller is is not proved
	ResourceExhausted  Code = "ResourceExhausted"  // a quota or a rate is used up
	FailedPrecondition Code = "FailedPrecondition" // the state has to change first
	Aborted            Code = "Aborted"            // another writer was faster; read and try again
	Unavailable        Code = "Unavailable"        // the same call may succeed in a moment
	Unimplemented      Code = "Unimplemented"      // this server does not offer the call
	DeadlineExceeded   Code = "DeadlineExceeded"   // the caller's time is over
	Canceled           Code = "Canceled"           // the caller has given up
	Internal           Code = "Internal"           // the server is at fault
)

// Error is the answer to a call that is not carried out. It is immutable, and so
// safe for concurrent use.
type Error struct {
	Code    Code
	Reason  string // machine-readable, UPPER_SNAKE_CASE
	Message string // safe to show to the caller
	Field   string // of the request that it is about; may be empty
	Err     error  // the cause, for the log alone; may be nil
}

// New returns a refusal without a cause. The message is built as by [fmt.Sprintf].
func New(code Code, reason, format string, args ...any) *Error {
	return &Error{Code: code, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// About returns the same refusal, about a field of the request.
func (e *Error) About(field string) *Error {
	about := *e
	about.Field = field
	return &about
}

// Error is the message, followed by the cause for the log.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Because returns a copy of the refusal with a cause.
func (e *Error) Because(err error) *Error {
	copied := *e
	copied.Err = err
	return &copied
}

const reasonNotLeader = "NOT_LEADER"

// ErrTermOver answers a call that was under way when the server ceased to lead.
var ErrTermOver = &Error{Code: Unavailable, Reason: reasonNotLeader, Message: "this server no longer leads the shard"}

const reasonExpired = "CERTIFICATE_EXPIRED"

// ErrCertificateExpired answers a caller whose certificate has run out meanwhile.
var ErrCertificateExpired = New(Unauthenticated, reasonExpired, "the certificate has expired")

const reasonInternal = "INTERNAL"

// ErrInternal answers where the server is at fault, and the caller is not told how.
var ErrInternal = New(Internal, reasonInternal, "internal error; the server's log says more")

const reasonDamaged = "STORAGE_DAMAGED"

const reasonUnavailable = "STORAGE_UNAVAILABLE"

// Storage answers for trouble with storage or the provider, whose words are for the log.
// Damage are the errors of what somebody has damaged or removed, which no repeat will mend.
func Storage(err error, damage ...error) *Error {
	for _, one := range damage {
		if errors.Is(err, one) {
			return &Error{Code: FailedPrecondition, Reason: reasonDamaged, Err: err,
				Message: "its object in storage is gone or cannot be read and has to be restored first; the server's log says which"}
		}
	}
	return &Error{Code: Unavailable, Reason: reasonUnavailable, Message: "the change could not be made durable; try again", Err: err}
}
