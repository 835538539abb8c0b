package gcpfake

import (
	"encoding/json"
	"fmt"
	"net/http"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// apiError is a refusal as the service words it: a status, a reason that programs
// read, and a message for people.
// https://docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-api-errors
type apiError struct {
	Code    int
	Reason  string
	Message string
	Domain  string // "global" if empty
}

// Error implements error.
func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message) }

func invalidField(field, value, format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "invalid",
		fmt.Sprintf("Invalid value for field '%s': '%s'. %s", field, value, fmt.Sprintf(format, args...)), ""}
}

func required(field string) error {
	return &apiError{http.StatusBadRequest, "required", fmt.Sprintf("Required field '%s' not specified", field), ""}
}

func badRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, "badRequest", fmt.Sprintf(format, args...), ""}
}

func notFound(resource string) error {
	return &apiError{http.StatusNotFound, "notFound", fmt.Sprintf("The resource '%s' was not found", resource), ""}
}

func alreadyExists(resource string) error {
	return &apiError{http.StatusConflict, "alreadyExists", fmt.Sprintf("The resource '%s' already exists", resource), ""}
}

// notReady is the answer to a change of something that is just changing.
func notReady(resource string) error {
	return &apiError{http.StatusBadRequest, "resourceNotReady", fmt.Sprintf("The resource '%s' is not ready", resource), ""}
}

func conditionNotMet(what string) error {
	return &apiError{http.StatusPreconditionFailed, "conditionNotMet", what, ""}
}

func unauthenticated(reason, message string) error {
	return &apiError{http.StatusUnauthorized, reason, message, ""}
}

func forbidden(permission, resource string) error {
	return &apiError{http.StatusForbidden, "forbidden", fmt.Sprintf("Required '%s' permission for '%s'", permission, resource), ""}
}

// statusNames are the canonical codes that go with a status.
var statusNames = map[int]string{
	http.StatusBadRequest:          "INVALID_ARGUMENT",
	http.StatusUnauthorized:        "UNAUTHENTICATED",
	http.StatusForbidden:           "PERMISSION_DENIED",
	http.StatusNotFound:            "NOT_FOUND",
	http.StatusConflict:            "ALREADY_EXISTS",
	http.StatusPreconditionFailed:  "FAILED_PRECONDITION",
	http.StatusInternalServerError: "INTERNAL",
	http.StatusServiceUnavailable:  "UNAVAILABLE",
}

// write answers with the error.
func (e *apiError) write(w http.ResponseWriter) {
	domain := e.Domain
	if domain == "" {
		domain = "global"
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(e.Code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": e.Code, "message": e.Message, "status": statusNames[e.Code],
		"errors": []map[string]string{{"message": e.Message, "domain": domain, "reason": e.Reason}},
	}})
}

// refusal words a fault's kind. What the service says only when an operation ends
// ([Cloud.ServeHTTP] sees to that where a call starts one) is worded here for the
// calls that start none.
func refusal(f wire.Fault, op string) *apiError {
	switch f.Kind {
	case driver.Throttled:
		return &apiError{http.StatusForbidden, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute per region' " +
			"of service 'compute.googleapis.com'.", "usageLimits"}
	case driver.Capacity:
		return &apiError{http.StatusServiceUnavailable, stockout, "The zone does not have enough resources available to fulfill the request.", ""}
	case driver.Quota:
		return &apiError{http.StatusForbidden, "quotaExceeded", "Quota 'CPUS' exceeded.  Limit: 24.0 in region.", "usageLimits"}
	case driver.Invalid, driver.Unsupported:
		return &apiError{http.StatusBadRequest, "invalid", "Invalid value for field 'resource': ''.", ""}
	case driver.Auth:
		return &apiError{http.StatusForbidden, "forbidden", fmt.Sprintf("Required 'compute.%s' permission for 'projects'", op), ""}
	case driver.MissingRef, driver.NotFound:
		return &apiError{http.StatusNotFound, "notFound", "The resource was not found", ""}
	case driver.Transient:
		return &apiError{http.StatusServiceUnavailable, "backendError", "The service is currently unavailable.", ""}
	case driver.Ambiguous:
		return &apiError{http.StatusInternalServerError, "internalError", "Internal error. Please try again or contact Google Support.", ""}
	default:
		panic(fmt.Sprintf("a fault of kind %q has no words here", f.Kind))
	}
}

// The codes that end an operation.
// https://docs.cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability
const (
	stockout    = "ZONE_RESOURCE_POOL_EXHAUSTED"
	noAddresses = "IP_SPACE_EXHAUSTED"
	addressUsed = "IP_IN_USE_BY_ANOTHER_RESOURCE"
	overQuota   = "QUOTA_EXCEEDED"
)

// failure is how an operation ends that could not be carried out.
type failure struct {
	status        int // of HTTP, in the operation
	code, message string
}

// Error implements error.
func (f *failure) Error() string { return f.code + ": " + f.message }

func (f *failure) set(op *computepb.Operation) {
	op.HttpErrorStatusCode = proto.Int32(int32(f.status)) //nolint:gosec // a status has three digits
	op.HttpErrorMessage = proto.String(httpMessages[f.status])
	op.Error = &computepb.Error{Errors: []*computepb.Errors{{Code: &f.code, Message: &f.message}}}
}

// httpMessages are the reason phrases, which the service writes in capitals.
var httpMessages = map[int]string{
	http.StatusBadRequest:         "BAD REQUEST",
	http.StatusForbidden:          "FORBIDDEN",
	http.StatusNotFound:           "NOT FOUND",
	http.StatusPreconditionFailed: "PRECONDITION FAILED",
	http.StatusServiceUnavailable: "SERVICE UNAVAILABLE",
}
