package registration

import (
	"errors"
	"time"
)

// Timings of renewal.
const (
	retryInterval = time.Hour
	warnInterval  = 6 * time.Hour
)

// Due returns when the certificate that is good from a time until another is to be
// renewed: at two thirds of its life, and up to a fiftieth later, so that operators that
// were registered together do not come together. random is in [0, 1).
func Due(from, until time.Time, random float64) time.Time {
	life := until.Sub(from)
	return from.Add(life/3*2 + time.Duration(random*float64(life/50)))
}

// Retry returns how long to wait after a renewal that failed: an hour, with a tenth of
// jitter to either side, or less for a certificate that lives for hours only.
func Retry(from, until time.Time, random float64) time.Duration {
	most := min(retryInterval, until.Sub(from)/20)
	return time.Duration(float64(most) * (0.9 + 0.2*random))
}

// Critical reports whether the certificate is in the last tenth of its life, or past it:
// time to warn, and to register anew if there is a nonce.
func Critical(from, until, now time.Time) bool {
	return !now.Before(until.Add(-until.Sub(from) / 10))
}

// Final reports whether an error of this package cannot pass by itself: to try again is of
// no use before somebody has changed a Secret or the configuration. A refusal can: the
// server may be of a shard that does not have the tenant, and another one lead tomorrow.
func Final(err error) bool {
	for _, final := range []error{ErrNoNonce, ErrNonceUsed, ErrTenant, ErrUnusable} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}
