package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/auth"
	compute "cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"

	"nstance.dev/server/driver"
)

// answer is an error of the API.
func answer(status int, reason string) error {
	e := &googleapi.Error{Code: status, Message: "words"}
	if reason != "" {
		e.Errors = []googleapi.ErrorItem{{Reason: reason, Message: "words"}}
	}
	return e
}

func TestKindOf(t *testing.T) {
	sent := func(err error) error { return &url.Error{Op: "Post", URL: "https://x", Err: err} }
	token := func(status int) error { return &auth.Error{Response: &http.Response{StatusCode: status}} }
	for name, tt := range map[string]struct {
		err           error
		read, written driver.ErrorClass
	}{
		"rate":                    {answer(403, "rateLimitExceeded"), driver.Throttled, driver.Throttled},
		"429":                     {answer(429, ""), driver.Throttled, driver.Throttled},
		"quota":                   {answer(403, "quotaExceeded"), driver.Quota, driver.Quota},
		"no permission":           {answer(403, "forbidden"), driver.Auth, driver.Auth},
		"401":                     {answer(401, ""), driver.Auth, driver.Auth},
		"invalid":                 {answer(400, "invalid"), driver.Invalid, driver.Invalid},
		"400 with another reason": {answer(400, "wrongWeather"), driver.Invalid, driver.Invalid},
		"not ready":               {answer(400, "resourceNotReady"), driver.Transient, driver.Transient},
		"missing":                 {answer(404, "notFound"), driver.MissingRef, driver.MissingRef},
		"stale":                   {answer(412, "conditionNotMet"), driver.Transient, driver.Transient},
		"no room":                 {answer(503, "ZONE_RESOURCE_POOL_EXHAUSTED"), driver.Capacity, driver.Capacity},
		"503":                     {answer(503, "backendError"), driver.Transient, driver.Ambiguous},
		"504":                     {answer(504, ""), driver.Transient, driver.Ambiguous},
		"408 of a proxy":          {answer(408, ""), driver.Transient, driver.Ambiguous},
		"499":                     {answer(499, "cancelled"), driver.Transient, driver.Ambiguous},
		"500":                     {answer(500, ""), driver.Transient, driver.Ambiguous},
		"time-out":                {sent(context.DeadlineExceeded), driver.Transient, driver.Ambiguous},
		"lost answer":             {sent(io.ErrUnexpectedEOF), driver.Transient, driver.Ambiguous},
		"no connection":           {sent(&net.OpError{Op: "dial", Err: errors.New("refused")}), driver.Transient, driver.Transient},
		"broken connection":       {sent(&net.OpError{Op: "read", Err: errors.New("reset")}), driver.Transient, driver.Ambiguous},
		"no token":                {sent(token(400)), driver.Auth, driver.Auth},
		"no token for the moment": {sent(token(503)), driver.Transient, driver.Transient},
		"anything else":           {errors.New("?"), driver.Transient, driver.Ambiguous},
		"wrapped":                 {fmt.Errorf("x: %w", answer(403, "rateLimitExceeded")), driver.Throttled, driver.Throttled},
	} {
		if got := KindOf(Reads, tt.err); got != tt.read {
			t.Errorf("%s, reading: %s, want %s", name, got, tt.read)
		}
		if got := KindOf(Writes, tt.err); got != tt.written {
			t.Errorf("%s, writing: %s, want %s", name, got, tt.written)
		}
	}
}

func TestKindOfFailure(t *testing.T) {
	for code, want := range map[string]driver.ErrorClass{
		"ZONE_RESOURCE_POOL_EXHAUSTED": driver.Capacity, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": driver.Capacity,
		"IP_SPACE_EXHAUSTED": driver.Capacity, "QUOTA_EXCEEDED": driver.Quota, "QUOTA_FOR_INSTANCES": driver.Quota,
		"RESOURCE_NOT_FOUND": driver.MissingRef, "PERMISSIONS_ERROR": driver.Auth, "INVALID_USAGE": driver.Invalid,
		"RESOURCE_OPERATION_RATE_EXCEEDED": driver.Transient, // the same call gets the same failure
		"INTERNAL_ERROR":                   driver.Ambiguous, "503": driver.Ambiguous,
	} {
		if got := kindOfFailure(&OperationError{Code: code}); got != want {
			t.Errorf("an operation that ends with %s is %s, want %s", code, got, want)
		}
	}
}

func TestFailed(t *testing.T) {
	first := &compute.Error{Errors: []*compute.Errors{{Code: new("QUOTA_EXCEEDED"), Message: new("words")}, {Code: new("OTHER")}}}
	for name, tt := range map[string]struct {
		op   *compute.Operation
		want string
	}{
		"well":                 {&compute.Operation{}, ""},
		"the first counts":     {&compute.Operation{Error: first, HttpErrorStatusCode: new(int32(403))}, "QUOTA_EXCEEDED: words"},
		"nothing but a status": {&compute.Operation{HttpErrorStatusCode: new(int32(503)), HttpErrorMessage: new("UNAVAILABLE")}, "503: UNAVAILABLE"},
	} {
		got := ""
		if err := failed(tt.op); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	err := &googleapi.Error{Code: 429}
	err.Header = http.Header{"Retry-After": {"7"}}
	if got := retryAfter(err); got != 7*time.Second {
		t.Errorf("the API's advice is %v, want 7s", got)
	}
	for _, err := range []error{answer(429, ""), errors.New("x")} {
		if got := retryAfter(err); got != 0 {
			t.Errorf("%v: advice of %v where there is none", err, got)
		}
	}
}

// The API quotes a value that it refuses, and the user data holds a nonce.
func TestErrorsDoNotQuoteUserData(t *testing.T) {
	quoting := &googleapi.Error{Code: 400, Message: "Invalid value for field 'resource.metadata.items[0].value': 's3cret'."}
	op := &compute.Operation{Error: &compute.Error{Errors: []*compute.Errors{{Code: new("INVALID_FIELD_VALUE"), Message: &quoting.Message}}}}
	for _, err := range []error{Fail("create", Writes, quoting), failed(op)} {
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error quotes the user data: %v", err)
		}
	}
	if kind := driver.ClassOf(Fail("create", Writes, quoting)); kind != driver.Invalid {
		t.Errorf("the kind is %s", kind)
	}
}
