package driver

import (
	"errors"
	"fmt"
	"time"
)

// ErrorClass says what a caller can do about a failed call.
type ErrorClass string

// The classes, by what follows from them.
const (
	Throttled   ErrorClass = "throttled"     // the call rate was exceeded: slow that bucket down
	Capacity    ErrorClass = "capacity"      // no room for this type or subnet: try the next
	Quota       ErrorClass = "quota"         // the account's limit: only a human can raise it
	Invalid     ErrorClass = "invalid"       // the request can never succeed as it is
	Auth        ErrorClass = "auth"          // credentials or permissions are missing
	MissingRef  ErrorClass = "not-found-ref" // something the request names does not exist
	Transient   ErrorClass = "transient"     // definitely not done; may succeed later
	Ambiguous   ErrorClass = "ambiguous"     // may or may not have been done
	NotFound    ErrorClass = "not-found"     // the machine does not exist
	Unsupported ErrorClass = "unsupported"   // this provider has no such ability
)

// Error is a failed provider call.
type Error struct {
	Class      ErrorClass
	Op         string        // create, get, list, delete, …
	RetryAfter time.Duration // the provider's own advice; 0: none
	Err        error         // the provider's own words
}

// Error names the operation and the class before the provider's words.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Op, e.Class)
	}
	return fmt.Sprintf("%s: %s: %v", e.Op, e.Class, e.Err)
}

// Unwrap returns the provider's error.
func (e *Error) Unwrap() error { return e.Err }

// Fail makes an [*Error] of the given class.
func Fail(class ErrorClass, op string, err error) error {
	return &Error{Class: class, Op: op, Err: err}
}

// ClassOf returns the class of err. An error that carries none is [Ambiguous],
// and so is a time-out: nobody knows what the cloud made of the call.
func ClassOf(err error) ErrorClass {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
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
	switch ClassOf(err) {
	case Auth, Transient, Ambiguous:
		return false
	default:
		return true
	}
}

// IsNotFound reports whether err says that the machine does not exist.
func IsNotFound(err error) bool { return err != nil && ClassOf(err) == NotFound }
