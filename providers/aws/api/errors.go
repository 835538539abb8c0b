package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"nstance.dev/server/driver"
)

// Effect says whether a call changes anything: if so, one without an answer may
// have been done.
type Effect bool

// Whether a call changes anything.
const (
	Reads   Effect = false
	Changes Effect = true
)

// Fail gives the error of a call its kind, unless it has one.
func Fail(op string, e Effect, err error) error {
	var own *driver.Error
	if errors.As(err, &own) {
		return err
	}
	return driver.Fail(KindOf(err, e), op, err)
}

// Begin refuses a call that was given up before it began.
func Begin(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return driver.Fail(driver.Transient, op, err)
	}
	return nil
}

// KindOf reads the kind of a failure off what the SDK returned.
func KindOf(err error, e Effect) driver.ErrorClass {
	var api smithy.APIError
	var credentials *credentialsError
	switch {
	case errors.As(err, &credentials):
		return credentials.kind()
	case errors.As(err, &api):
		return kindOfCode(api.ErrorCode(), statusOf(err), e)
	case neverSent(err):
		return driver.Transient
	default:
		return unanswered(e)
	}
}

// kindOfCode is the meaning of a code of the EC2 or the Elastic Load Balancing
// API. Families of codes are told by their form, and only what does not follow
// the form stands in the table.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
func kindOfCode(code string, status int, e Effect) driver.ErrorClass {
	if kind, known := kindOfCodes[code]; known {
		return kind
	}
	switch {
	case strings.HasPrefix(code, "Insufficient"):
		return driver.Capacity
	case strings.HasSuffix(code, "LimitExceeded"), strings.HasSuffix(code, "CountExceeded"):
		return driver.Quota
	case strings.HasSuffix(code, "NotFound"), strings.HasSuffix(code, "NotFoundException"), strings.HasSuffix(code, ".Unknown"):
		return driver.MissingRef
	case status == http.StatusTooManyRequests:
		return driver.Throttled
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return driver.Auth
	case status >= http.StatusInternalServerError:
		return unanswered(e)
	default:
		return driver.Invalid
	}
}

var kindOfCodes = map[string]driver.ErrorClass{
	"EC2ThrottledException":     driver.Throttled,
	"RequestLimitExceeded":      driver.Throttled,
	"RequestThrottled":          driver.Throttled,
	"RequestThrottledException": driver.Throttled,
	"SlowDown":                  driver.Throttled,
	"Throttling":                driver.Throttled,
	"ThrottlingException":       driver.Throttled,
	"TooManyRequestsException":  driver.Throttled,

	"InvalidCapacityReservationId.NotFound": driver.Capacity, // it has ended
	"InvalidCapacityReservationState":       driver.Capacity,

	"ReservationCapacityExceeded": driver.Capacity,
	"SpotMaxPriceTooLow":          driver.Capacity,
	"UnfulfillableCapacity":       driver.Capacity, // of spot machines
	"Unsupported":                 driver.Capacity, // this type is not offered in this zone now

	"TooManyRegistrationsForTargetId": driver.Quota,
	"TooManyTargets":                  driver.Quota,

	"AccessDenied":                driver.Auth,
	"AccessDeniedException":       driver.Auth,
	"AuthFailure":                 driver.Auth,
	"Blocked":                     driver.Auth,
	"ExpiredToken":                driver.Auth,
	"ExpiredTokenException":       driver.Auth,
	"IncompleteSignature":         driver.Auth,
	"InvalidClientTokenId":        driver.Auth,
	"MissingAuthenticationToken":  driver.Auth,
	"NotAuthorized":               driver.Auth,
	"OptInRequired":               driver.Auth,
	"PendingVerification":         driver.Auth,
	"RequestExpired":              driver.Auth,
	"SignatureDoesNotMatch":       driver.Auth,
	"UnauthorizedOperation":       driver.Auth,
	"UnrecognizedClientException": driver.Auth,

	"InvalidInstanceID.NotFound": driver.NotFound,

	"InvalidAMIID.Unavailable": driver.MissingRef,

	"IncorrectInstanceState":        driver.Transient, // it is on the way to another state
	"IncorrectState":                driver.Transient,
	"InvalidNetworkInterface.InUse": driver.Transient, // somebody was faster
	"ResourceInUse":                 driver.Transient,
}

// unanswered is the kind of a call of which nobody knows what became.
func unanswered(e Effect) driver.ErrorClass {
	if e == Changes {
		return driver.Ambiguous
	}
	return driver.Transient
}

func statusOf(err error) int {
	var resp *smithyhttp.ResponseError
	if errors.As(err, &resp) {
		return resp.HTTPStatusCode()
	}
	return 0
}

// neverSent reports whether a call ended before the cloud could hear of it: there
// was no connection to send it on.
func neverSent(err error) bool {
	var dial *net.OpError
	var name *net.DNSError
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &name) || errors.As(err, &untrusted) || errors.As(err, &dial) && dial.Op == "dial"
}

// HasCode reports whether the cloud answered with one of the codes.
func HasCode(err error, codes ...string) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	for _, code := range codes {
		if api.ErrorCode() == code {
			return true
		}
	}
	return false
}

// credentialsError is that of a call which could not be signed, and so was not
// sent.
type credentialsError struct{ err error }

// Error names the credentials.
func (e *credentialsError) Error() string { return fmt.Sprintf("credentials: %v", e.err) }

// Unwrap returns why there are none.
func (e *credentialsError) Unwrap() error { return e.err }

// kind tells credentials that cannot be had from a source that does not answer now,
// and from a caller that gave up.
func (e *credentialsError) kind() driver.ErrorClass {
	var api smithy.APIError
	var again *retry.MaxAttemptsError // the SDK itself found it worth repeating
	var unsent *smithyhttp.RequestSendError
	var network net.Error
	status := statusOf(e.err)
	switch {
	case errors.Is(e.err, context.Canceled), errors.Is(e.err, context.DeadlineExceeded):
		return driver.Transient
	case errors.As(e.err, &again), status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return driver.Transient
	case errors.As(e.err, &api) && kindOfCodes[api.ErrorCode()] == driver.Throttled:
		return driver.Transient
	case status == 0 && (errors.As(e.err, &unsent) || errors.As(e.err, &network) || broken(e.err) == sdk.TrueTernary):
		return driver.Transient
	}
	return driver.Auth
}

// IgnoreNotFound takes a machine that does not exist for one that has ended.
func IgnoreNotFound(err error) error {
	if driver.IsNotFound(err) {
		return nil
	}
	return err
}
