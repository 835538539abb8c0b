package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"nstance.dev/server/driver"
)

func TestKindsOfErrors(t *testing.T) {
	answer := func(status int, code string) error {
		api := &smithy.GenericAPIError{Code: code, Message: "in the cloud's words"}
		resp := &smithyhttp.Response{Response: &http.Response{StatusCode: status}}
		return &smithy.OperationError{ServiceID: "EC2", Err: &smithyhttp.ResponseError{Response: resp, Err: api}}
	}
	sent := func(err error) error { return &smithy.OperationError{Err: &smithyhttp.RequestSendError{Err: err}} }
	for _, c := range []struct {
		name             string
		err              error
		reading, changed driver.ErrorClass
	}{
		{"throttled", answer(503, "RequestLimitExceeded"), driver.Throttled, driver.Throttled},
		{"throttled by the balancers", answer(400, "Throttling"), driver.Throttled, driver.Throttled},
		{"throttled in an unknown form", answer(429, "UnknownError"), driver.Throttled, driver.Throttled},
		{"no room for the type", answer(500, "InsufficientInstanceCapacity"), driver.Capacity, driver.Capacity},
		{"no address", answer(400, "InsufficientFreeAddressesInSubnet"), driver.Capacity, driver.Capacity},
		{"a type that this zone has not", answer(400, "Unsupported"), driver.Capacity, driver.Capacity},
		{"no room for spot machines", answer(400, "UnfulfillableCapacity"), driver.Capacity, driver.Capacity},
		{"a bid too low", answer(400, "SpotMaxPriceTooLow"), driver.Capacity, driver.Capacity},
		{"processors used up", answer(400, "VcpuLimitExceeded"), driver.Quota, driver.Quota},
		{"too many spot machines", answer(400, "MaxSpotInstanceCountExceeded"), driver.Quota, driver.Quota},
		{"too many targets", answer(400, "TooManyTargets"), driver.Quota, driver.Quota},
		{"a wrong parameter", answer(400, "InvalidParameterValue"), driver.Invalid, driver.Invalid},
		{"a token used for something else", answer(400, "IdempotentParameterMismatch"), driver.Invalid, driver.Invalid},
		{"a token whose machine has ended", answer(400, "IdempotentInstanceTerminated"), driver.Invalid, driver.Invalid},
		{"a code that nobody knows", answer(400, "SomethingNew"), driver.Invalid, driver.Invalid},
		{"no permission", answer(403, "UnauthorizedOperation"), driver.Auth, driver.Auth},
		{"credentials that have expired", answer(400, "RequestExpired"), driver.Auth, driver.Auth},
		{"no entrance, with a new code", answer(403, "SomethingNew"), driver.Auth, driver.Auth},
		{"an image that is not there", answer(400, "InvalidAMIID.NotFound"), driver.MissingRef, driver.MissingRef},
		{"a placement group that is not there", answer(400, "InvalidPlacementGroup.Unknown"), driver.MissingRef, driver.MissingRef},
		{"a target group that is not there", answer(400, "TargetGroupNotFound"), driver.MissingRef, driver.MissingRef},
		{"a machine that is not there", answer(400, "InvalidInstanceID.NotFound"), driver.NotFound, driver.NotFound},
		{"a machine between two states", answer(400, "IncorrectInstanceState"), driver.Transient, driver.Transient},
		{"the cloud is ill", answer(500, "InternalError"), driver.Transient, driver.Ambiguous},
		{"the cloud is overloaded", answer(503, "Unavailable"), driver.Transient, driver.Ambiguous},
		{"the answer was cut off", sent(io.ErrUnexpectedEOF), driver.Transient, driver.Ambiguous},
		{"the time was up", sent(context.DeadlineExceeded), driver.Transient, driver.Ambiguous},
		{"nothing can be reached", sent(&net.OpError{Op: "dial", Err: errors.New("refused")}), driver.Transient, driver.Transient},
		{"the connection broke", sent(&net.OpError{Op: "read", Err: errors.New("reset")}), driver.Transient, driver.Ambiguous},
		{"the name is not known", sent(&net.DNSError{Name: "ec2"}), driver.Transient, driver.Transient},
		{"somebody else answers", sent(&tls.CertificateVerificationError{Err: errors.New("unknown authority")}), driver.Transient, driver.Transient},
		{"nothing to sign with", fmt.Errorf("get identity: %w", &credentialsError{errors.New("no role")}), driver.Auth, driver.Auth},
		{"given up while signing", fmt.Errorf("get identity: %w", &credentialsError{context.Canceled}), driver.Transient, driver.Transient},
	} {
		if got := KindOf(c.err, Reads); got != c.reading {
			t.Errorf("%s: a read is %s, want %s", c.name, got, c.reading)
		}
		if got := KindOf(c.err, Changes); got != c.changed {
			t.Errorf("%s: a change is %s, want %s", c.name, got, c.changed)
		}
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	own := driver.Fail(driver.NotFound, "get", errors.New("not there"))
	if got := Fail("power", Changes, fmt.Errorf("i-1: %w", own)); driver.ClassOf(got) != driver.NotFound {
		t.Errorf("fail made %v of %v", got, own)
	}
}
