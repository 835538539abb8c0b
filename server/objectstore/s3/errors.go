package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"nstance.dev/server/objectstore"
)

// explain turns an error of the SDK into one of the contract. ctx is the
// caller's, which does not have the time-out of this store.
func explain(ctx context.Context, err error) error {
	var response *smithyhttp.ResponseError
	if !errors.As(err, &response) || response.Response == nil {
		return unanswered(ctx, err)
	}
	code := ""
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	switch kind := meaning(response.HTTPStatusCode(), code); {
	case kind == nil:
		return err
	case errors.Is(kind, objectstore.ErrUnavailable):
		return unknown(ctx, err)
	default:
		return fmt.Errorf("%w: %w", kind, err)
	}
}

// unanswered explains an error without an answer. What the SDK refused to send,
// a malformed bucket name for one, no retry helps.
func unanswered(ctx context.Context, err error) error {
	var send *smithyhttp.RequestSendError
	switch {
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.As(err, &send):
		return unknown(ctx, err)
	default: // says itself whether it may pass, if it is about credentials
		return err
	}
}

// unknown is the error of a call that may have taken effect. It matches the end
// of the caller's context, and not that of our own time-out.
func unknown(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w: %w", objectstore.ErrUnavailable, ended)
	}
	return fmt.Errorf("%w: %v", objectstore.ErrUnavailable, err) //nolint:errorlint // our own time-out is not the caller's
}

// throttling are the codes of answers with status 503 that promise that nothing
// was done. ServiceUnavailable does not.
var throttling = map[string]bool{
	"SlowDown": true, "SlowDownRead": true, "SlowDownWrite": true, "TooManyRequests": true,
	"Throttling": true, "ThrottlingException": true, "RequestLimitExceeded": true,
}

// meaning returns the sentinel for an answer, nil for one that no retry helps.
func meaning(status int, code string) error {
	switch {
	case status == http.StatusNotFound && code == "NoSuchKey": // and not NoSuchBucket
		return objectstore.ErrNotFound
	case status == http.StatusPreconditionFailed:
		return objectstore.ErrPrecondition
	case status == http.StatusConflict:
		return objectstore.ErrConflict
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && throttling[code]:
		return objectstore.ErrThrottled
	case status == http.StatusNotImplemented: // of a condition, for one
		return nil
	case status >= 500, status == http.StatusRequestTimeout, code == "RequestTimeout", status < 300:
		return objectstore.ErrUnavailable
	case code == "RequestTimeTooSkewed": // the SDK has learnt the store's time from the answer
		return objectstore.ErrUnavailable
	default:
		return nil
	}
}
