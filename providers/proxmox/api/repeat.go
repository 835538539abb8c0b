package api

import (
	"context"
	"errors"
	"net/url"
)

// tries is how often a call is made whose connection breaks.
const tries = 3

// repeatBroken makes a call, and makes it again if its connection breaks. Refusals are for
// the server to deal with.
func repeatBroken(ctx context.Context, call func() error) (err error) {
	for range tries {
		if err = call(); !Broken(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// unwrapHTTP takes away what the HTTP client says around the API's own words.
func unwrapHTTP(err error) error {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
