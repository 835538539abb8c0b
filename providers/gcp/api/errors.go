package api

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/googleapi"

	"nstance.dev/server/driver"
)

// Effect says what a call may leave behind whose answer is lost.
type Effect bool

// What a call may leave behind.
const (
	Reads  Effect = false // nothing
	Writes Effect = true  // a change
)

// reasons are what the API says in the reason of an error, or the code of an
// operation's, and what a caller can do about it. Where both forms exist they
// stand side by side. See https://cloud.google.com/compute/docs/troubleshooting.
var reasons = map[string]driver.ErrorClass{
	"rateLimitExceeded":                driver.Throttled,
	"userRateLimitExceeded":            driver.Throttled,
	"concurrentLimitExceeded":          driver.Throttled,
	"RATE_LIMIT_EXCEEDED":              driver.Throttled,
	"RESOURCE_OPERATION_RATE_EXCEEDED": driver.Throttled,
	"operationRateExceeded":            driver.Throttled,

	"ZONE_RESOURCE_POOL_EXHAUSTED":                driver.Capacity,
	"ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS":   driver.Capacity,
	"REGION_RESOURCE_POOL_EXHAUSTED":              driver.Capacity,
	"REGION_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": driver.Capacity,
	"RESOURCE_POOL_EXHAUSTED":                     driver.Capacity,
	"stockout":                                    driver.Capacity,
	"STOCKOUT":                                    driver.Capacity,
	"ZONE_RESOURCE_STOCKOUT":                      driver.Capacity,
	"IP_SPACE_EXHAUSTED":                          driver.Capacity,
	"IP_SPACE_EXHAUSTED_WITH_DETAILS":             driver.Capacity,

	"quotaExceeded":      driver.Quota,
	"QUOTA_EXCEEDED":     driver.Quota,
	"limitExceeded":      driver.Quota,
	"LIMIT_EXCEEDED":     driver.Quota,
	"dailyLimitExceeded": driver.Quota,

	"notFound":           driver.MissingRef,
	"RESOURCE_NOT_FOUND": driver.MissingRef,

	"invalid":               driver.Invalid,
	"badRequest":            driver.Invalid,
	"required":              driver.Invalid,
	"invalidUsage":          driver.Invalid,
	"INVALID_FIELD_VALUE":   driver.Invalid,
	"INVALID_USAGE":         driver.Invalid,
	"UNSUPPORTED_OPERATION": driver.Invalid,
	"alreadyExists":         driver.Invalid,

	"forbidden":               driver.Auth,
	"insufficientPermissions": driver.Auth,
	"accessNotConfigured":     driver.Auth,
	"authError":               driver.Auth,
	"SERVICE_DISABLED":        driver.Auth,
	"PERMISSIONS_ERROR":       driver.Auth,

	"conditionNotMet":                     driver.Transient,
	"CONDITION_NOT_MET":                   driver.Transient,
	"resourceNotReady":                    driver.Transient,
	"RESOURCE_NOT_READY":                  driver.Transient,
	"resourceInUseByAnotherResource":      driver.Transient,
	"RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": driver.Transient,
	"IP_IN_USE_BY_ANOTHER_RESOURCE":       driver.Transient,
}

// Reasons that a caller in this package acts on.
const (
	ReasonExists        = "alreadyExists"
	ReasonMember        = "memberAlreadyExists"
	ReasonNotReady      = "resourceNotReady"
	ReasonFingerprint   = "conditionNotMet"
	CodeExists          = "RESOURCE_ALREADY_EXISTS"
	CodeConditionNotMet = "CONDITION_NOT_MET"
)

// statusCancelled is that of a call which somebody on the way has given up; see
// https://cloud.google.com/apis/design/errors#handling_errors.
const statusCancelled = 499

// kindOfStatus is what an HTTP status means where no reason is known. Nobody
// knows what became of a change that the API failed over.
func kindOfStatus(status int, e Effect) driver.ErrorClass {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return driver.Auth
	case status == http.StatusNotFound:
		return driver.MissingRef
	case status == http.StatusConflict || status == http.StatusPreconditionFailed:
		return driver.Transient
	case status == http.StatusTooManyRequests:
		return driver.Throttled
	case status == http.StatusRequestTimeout || status == statusCancelled:
		return unanswered(e)
	case status >= 400 && status < 500:
		return driver.Invalid
	}
	return unanswered(e)
}

func unanswered(e Effect) driver.ErrorClass {
	if e == Writes {
		return driver.Ambiguous
	}
	return driver.Transient
}

// Fail makes a [driver.Error] of what a call came to.
func Fail(op string, e Effect, err error) error {
	if known := (*driver.Error)(nil); errors.As(err, &known) {
		return err
	}
	return &driver.Error{Class: KindOf(e, err), Op: op, RetryAfter: retryAfter(err), Err: discreet(err)}
}

// KindOf is what an error of the SDK means to a caller, for a call of that effect.
func KindOf(e Effect, err error) driver.ErrorClass {
	if answer := (*googleapi.Error)(nil); errors.As(err, &answer) {
		if kind, known := reasons[ReasonOf(err)]; known {
			return ofPolicy(kind, answer.Message)
		}
		return kindOfStatus(answer.Code, e)
	}
	if unsent(err) {
		return driver.Transient
	}
	if refused := (*auth.Error)(nil); errors.As(err, &refused) && !refused.Temporary() {
		return driver.Auth
	}
	return unanswered(e)
}

// ofPolicy tells a constraint of the organization from a condition that may pass: both
// have one reason, and the text names the constraint; see
// https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints.
func ofPolicy(kind driver.ErrorClass, message string) driver.ErrorClass {
	if kind == driver.Transient && (strings.Contains(message, "constraints/") || strings.HasPrefix(message, "Constraint ")) {
		return driver.Invalid
	}
	return kind
}

// unsent reports whether the request certainly never left: there was no
// connection, or no token for it.
func unsent(err error) bool {
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	token := (*auth.Error)(nil)
	return errors.As(err, &token) && token.Temporary()
}

// ReasonOf is the API's own word for an error, or "".
func ReasonOf(err error) string {
	answer := (*googleapi.Error)(nil)
	if !errors.As(err, &answer) {
		return ""
	}
	for _, item := range answer.Errors {
		if item.Reason != "" {
			return item.Reason
		}
	}
	if detailed, ok := apierror.FromError(err); ok {
		return detailed.Reason()
	}
	return ""
}

// retryAfter is the API's advice, or 0.
func retryAfter(err error) time.Duration {
	answer := (*googleapi.Error)(nil)
	if !errors.As(err, &answer) {
		return 0
	}
	if s, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	if detailed, ok := apierror.FromError(err); ok {
		return detailed.Details().RetryInfo.GetRetryDelay().AsDuration()
	}
	return 0
}

// discreet keeps the API's words back where they may quote the user data, which
// holds a nonce.
func discreet(err error) error {
	answer := (*googleapi.Error)(nil)
	if !errors.As(err, &answer) || !strings.Contains(err.Error(), "resource.metadata") {
		return err
	}
	return fmt.Errorf("error %d: a metadata value is refused; the API's words are kept back, for they may quote the user data", answer.Code)
}

// OperationError is an operation that is done and has failed.
type OperationError struct {
	Code    string // the first error's
	message string
}

// Error is the code and the message.
func (e *OperationError) Error() string { return e.Code + ": " + e.message }

// failed returns the error of an operation that is done, or nil.
func failed(op *computepb.Operation) *OperationError {
	for _, e := range op.GetError().GetErrors() {
		return &OperationError{Code: e.GetCode(), message: discreetText(e.GetMessage())}
	}
	if status := op.GetHttpErrorStatusCode(); status >= 400 {
		return &OperationError{Code: strconv.Itoa(int(status)), message: discreetText(op.GetHttpErrorMessage())}
	}
	return nil
}

func discreetText(message string) string {
	if strings.Contains(message, "resource.metadata") {
		return "a metadata value is refused"
	}
	return message
}

// kindOfFailure is what a failed operation means. It is over: sent again, the
// same call is answered with the same failure, so one that was throttled is not
// worth repeating as it is. Ambiguous is what nobody has explained.
func kindOfFailure(err *OperationError) driver.ErrorClass {
	kind, known := reasons[err.Code]
	switch {
	case !known && strings.HasPrefix(err.Code, "QUOTA"):
		return driver.Quota
	case !known:
		return driver.Ambiguous
	case kind == driver.Throttled:
		return driver.Transient
	}
	return ofPolicy(kind, err.message)
}
