package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/api/googleapi"

	"nstance.dev/server/objectstore"
)

// explain turns an error of the client into one of the contract. ctx is the
// caller's, which does not have the time-out of this store.
func explain(ctx context.Context, err error) error {
	var answer *googleapi.Error
	if !errors.As(err, &answer) {
		return unknown(ctx, err)
	}
	switch kind := meaning(answer.Code); {
	case kind == nil:
		return err
	case errors.Is(kind, objectstore.ErrUnavailable):
		return unknown(ctx, err)
	default:
		return fmt.Errorf("%w: %w", kind, err)
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

// meaning returns the sentinel for an answer, nil for one that no retry helps. That
// something was not found is one of these: it may be the bucket.
func meaning(code int) error {
	switch {
	case code == http.StatusPreconditionFailed:
		return objectstore.ErrPrecondition
	case code == http.StatusConflict:
		return objectstore.ErrConflict
	case code == http.StatusTooManyRequests:
		return objectstore.ErrThrottled
	case code == http.StatusNotImplemented: // of a condition, for one
		return nil
	case code >= 500, code == http.StatusRequestTimeout:
		return objectstore.ErrUnavailable
	default:
		return nil
	}
}
