package driver

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what a caller can do about a failed call.
type Kind string

// The kinds, by what follows from them.
const (
	Throttled  Kind = "throttled"     // the call rate was exceeded: slow that bucket down
	Capacity   Kind = "capacity"      // no room for this type or subnet: try the next
	Quota      Kind = "quota"         // the account's limit: only a human can raise it
	Invalid    Kind = "invalid"       // the request can never succeed as it is
	Auth       Kind = "auth"          // credentials or permissions are missing
	MissingRef Kind = "not-found-ref" // something the request names does not exist
	Transient  Kind = "transient"     // definitely not done; may succeed later
	Ambiguous  Kind = "ambiguous"     // may or may not have been done
	NotFound   Kind = "not-found"     // the machine does not exist
	Unsupport  Kind = "unsupported"   // this provider has no such ability
)

// Error is a failed provider call.
type Error struct {
	Kind       Kind
	Op         string        // create, get, list, delete, …
	RetryAfter time.Duration // the provider's own advice; 0: none
	Err        error         // the provider's own words
}

// Error names the operation and the kind before the provider's words.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Op, e.Kind)
	}
	return fmt.Sprintf("%s: %s: %v", e.Op, e.Kind, e.Err)
}

// Unwrap returns the provider's error.
func (e *Error) Unwrap() error { return e.Err }

// Fail makes an [*Error] of the given kind.
func Fail(kind Kind, op string, err error) error { return &Error{Kind: kind, Op: op, Err: err} }

// KindOf returns the kind of err. An error that carries none is [Ambiguous],
// and so is a time-out: nobody knows what the cloud made of the call.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Ambiguous
}

// Reached reports whether the outcome of a call, nil included, shows that the
// provider can be reached and lets this server in. A refusal of the request
// itself does; a time-out or missing permissions don't.
func Reached(err error) bool {
	if err == nil {
		return true
	}
	switch KindOf(err) {
	case Auth, Transient, Ambiguous:
		return false
	default:
		return true
	}
}

// IsNotFound reports whether err says that the machine does not exist.
func IsNotFound(err error) bool { return err != nil && KindOf(err) == NotFound }
