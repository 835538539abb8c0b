package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/admin/kubeclient"
	"nstance.dev/admin/shardclient"
)

// usageError is about the command line itself.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// failures are what went wrong with several targets, to be printed one by one.
type failures []error

func (f failures) Error() string { return errors.Join(f...).Error() }

func (f failures) Unwrap() []error { return f }

// add adds an error, or those of a list of failures; nil adds nothing.
func (f *failures) add(err error) {
	if list, ok := errors.AsType[failures](err); ok {
		*f = append(*f, list...)
	} else if err != nil {
		*f = append(*f, err)
	}
}

// err is nil without failures.
func (f failures) err() error {
	switch len(f) {
	case 0:
		return nil
	case 1:
		return f[0]
	}
	return f
}

// explain prints an error, and what may help against it.
func explain(w io.Writer, err error, debug bool) {
	if list, ok := errors.AsType[failures](err); ok {
		for _, err := range list {
			explain(w, err, debug)
		}
		return
	}
	if invalid, ok := errors.AsType[*invalidConfigError](err); ok {
		fmt.Fprintf(w, "%s\nerror: %s is invalid\n", invalid.err, invalid.path)
		return
	}
	fmt.Fprintf(w, "error: %s\n", text(err))
	if hint := hint(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
	if debug {
		fmt.Fprintf(w, "code: %s%s\n", status.Code(err), reason(err))
	}
}

// grpcError is an error that carries a status.
type grpcError interface {
	error
	GRPCStatus() *status.Status
}

// text is an error without the words that gRPC puts around a message.
func text(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	inner, ok := errors.AsType[grpcError](err)
	if !ok {
		return err.Error()
	}
	return strings.Replace(err.Error(), inner.Error(), inner.GRPCStatus().Message(), 1)
}

// reason returns the machine-readable reason of a server's error.
func reason(err error) string {
	info := infoOf(err)
	if info == nil {
		return ""
	}
	return ", reason " + info.GetReason() + " of " + info.GetDomain()
}

// infoOf returns what a server's error says for programs; nil: nothing.
func infoOf(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

func hint(err error) string {
	if errors.Is(err, shardclient.ErrHandshake) {
		return "check that the identity (--identity-dir), the shard and its addresses belong to the same cluster"
	}
	if text := kubeclient.Hint(err); text != "" {
		return text
	}
	if _, ok := errors.AsType[grpcError](err); !ok {
		return ""
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return "check that a server of the shard is running, and its addresses in --servers or the context"
	case codes.PermissionDenied:
		return "the operator's certificate decides about role and tenant; take an identity of the right tenant"
	case codes.Unauthenticated:
		return "make a new identity with 'nstance-admin cluster register-operator'"
	case codes.NotFound:
		return "see what there is with 'nstance-admin group list' or 'nstance-admin instance list'"
	case codes.FailedPrecondition:
		switch infoOf(err).GetReason() {
		case "", "LOCKED_FIELD", "MANAGED_BY_OTHER":
		default:
			return "" // the message says what has to be otherwise first
		}
		return "a static group is changed in the configuration of its shard, and a managed one by its manager"
	case codes.Aborted:
		return "another client keeps changing it; look at it again and repeat the command"
	case codes.ResourceExhausted:
		return "the server limits how fast it may be asked; repeat the command later"
	case codes.Unimplemented:
		return "the server is older than this program, or lacks the module"
	}
	return ""
}

func quote(s string) string { return strconv.Quote(s) }
