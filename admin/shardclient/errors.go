package shardclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrHandshake says that one side did not accept the other's certificate, which
// no repetition mends.
var ErrHandshake = errors.New("certificate not accepted")

// Attempt is one address and why it did not serve.
type Attempt struct {
	Address string
	Err     error
}

// UnavailableError says that no server of a shard served the call in time. Its
// gRPC code is Unavailable.
type UnavailableError struct {
	Shard    string
	Attempts []Attempt // one per address, the last answer of each
	Err      error     // what ended the attempts, such as a deadline; may be nil
	// Unknown says that the call may have taken effect nevertheless.
	Unknown bool
}

// Error names every address and its answer.
func (e *UnavailableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no server of shard %s answered", e.Shard)
	if e.Unknown {
		b.WriteString(", and the call may have taken effect")
	}
	for i, a := range e.Attempts {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		fmt.Fprintf(&b, "%s: %s", a.Address, message(a.Err))
	}
	if len(e.Attempts) == 0 && e.Err != nil {
		b.WriteString(": " + message(e.Err))
	}
	return b.String()
}

// Unwrap returns the causes.
func (e *UnavailableError) Unwrap() []error {
	var errs []error
	for _, a := range e.Attempts {
		errs = append(errs, a.Err)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// GRPCStatus makes status.Code return Unavailable.
func (e *UnavailableError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, e.Error())
}

// note keeps the last answer of each address.
func (e *UnavailableError) note(address string, err error) {
	for i := range e.Attempts {
		if e.Attempts[i].Address == address {
			e.Attempts[i].Err = err
			return
		}
	}
	e.Attempts = append(e.Attempts, Attempt{address, err})
}

// message returns what a person needs of an error: not the code of a status.
func message(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
