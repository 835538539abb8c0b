package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/driver"
)

// Refusal is an answer that is none: what the API, or a task, says went wrong.
type Refusal struct {
	status int               // of the HTTP answer; 0: the words are a task's
	reason string            // behind the status, or the task's exit status
	params map[string]string // what is wrong with single parameters
	detail string            // the last lines of the task's log
	after  time.Duration     // before which it should not be tried again; 0: not said
}

// Error is the API's own words, with what stands in a task's log in parentheses.
func (r *Refusal) Error() string {
	var b strings.Builder
	if r.status != 0 {
		fmt.Fprintf(&b, "%d ", r.status)
	}
	b.WriteString(r.reason)
	for _, name := range slices.Sorted(maps.Keys(r.params)) {
		fmt.Fprintf(&b, " %s: %s;", name, strings.TrimSpace(r.params[name]))
	}
	if r.detail != "" {
		fmt.Fprintf(&b, " (%s)", r.detail)
	}
	return strings.TrimSuffix(b.String(), ";")
}

// classed is an error whose kind is known where it is made.
type classed struct {
	kind driver.ErrorClass
	err  error
}

// Error is that of what it is about.
func (c *classed) Error() string { return c.err.Error() }

// Unwrap returns what it is about.
func (c *classed) Unwrap() error { return c.err }

// Errorf makes an error of a kind, in the manner of [fmt.Errorf].
func Errorf(kind driver.ErrorClass, format string, args ...any) error {
	return &classed{kind, fmt.Errorf(format, args...)}
}

// ErrNumberTaken says that machine numbers were taken by somebody else again and again. It is of
// kind Transient.
var ErrNumberTaken = errors.New("the machine number is taken")

// statuses are the kinds of answers by their status alone. Those above 590 come from
// the proxy of the node that was asked, about the node that the call was for: see
// the pseudo status codes of AnyEvent::HTTP.
var statuses = map[int]driver.ErrorClass{
	http.StatusBadRequest:         driver.Invalid,
	http.StatusUnauthorized:       driver.Auth,
	http.StatusForbidden:          driver.Auth,
	http.StatusNotFound:           driver.MissingRef,
	http.StatusTooManyRequests:    driver.Throttled,
	http.StatusNotImplemented:     driver.Invalid,
	http.StatusServiceUnavailable: driver.Transient,
	http.StatusBadGateway:         driver.Ambiguous, // these two are of a proxy before the API
	http.StatusGatewayTimeout:     driver.Ambiguous,
	595:                           driver.Transient, // no connection was made
	596:                           driver.Ambiguous, // it broke before the answer
	597:                           driver.Ambiguous, // in the answer
	599:                           driver.Ambiguous, // it took too long
}

// reasons are the kinds of failures by their words, the first that matches; for
// status 500 and for tasks. The words are those of pve-manager, qemu-server,
// pve-storage and pve-cluster.
var reasons = []struct {
	words *regexp.Regexp
	kind  driver.ErrorClass
}{
	{regexp.MustCompile(`(?i)(configuration file '.*' does not exist|unable to find configuration file|VM \d+ does not exist|no such vm)`), driver.NotFound},
	{regexp.MustCompile(`(?i)(no space left|not enough (free )?space|insufficient free space|out of space|free space.*(too small|not enough)|disk full)`), driver.Capacity},
	{regexp.MustCompile(`(?i)(cannot allocate memory|can't allocate memory|cannot set up guest memory|not enough memory|out of memory)`), driver.Capacity},
	{regexp.MustCompile(`(?i)(quota exceeded|over quota|exceed.* quota)`), driver.Quota},
	{regexp.MustCompile(`(?i)(permission check failed|permission denied - invalid|no such token|invalid token)`), driver.Auth},
	{regexp.MustCompile(`(?i)((storage|pool|bridge|sdn vnet|node|volume) '?[^ ]*'? (does not exist|is not available|is disabled)|no such (cluster node|storage|volume|pool|bridge|logical volume)|hostname lookup '.*' failed|does not support vm images)`), driver.MissingRef},
	{regexp.MustCompile(`(?i)(got (lock request )?timeout|is locked|lock file|cfs-lock|no quorum|not ready|try again|file changed by other user|checksum mismatch|interrupted by signal|unexpected status)`), driver.Transient},
	{regexp.MustCompile(`(?i)(linked clone feature is not supported|can't clone|shrinking disks is not supported|not allowed for linked|invalid (bootorder|format)|unable to parse|only root can|options? different from storage)`), driver.Invalid},
	{regexp.MustCompile(`(?i)(already exists|file exists)`), driver.Transient},
	{regexp.MustCompile(`(?i)(no route to host|connection refused)`), driver.Transient},
}

// KindOf says what a caller can do about a failed call or task. What an unknown
// failure has left behind, nobody knows.
func KindOf(err error) driver.ErrorClass {
	var (
		known *classed
		r     *Refusal
		dns   *net.DNSError
		op    *net.OpError
		cert  *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &known):
		return known.kind
	case errors.Is(err, ErrNumberTaken):
		return driver.Transient
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return driver.Ambiguous
	case errors.As(err, &r):
		return r.kind()
	case errors.As(err, &cert):
		return driver.Auth // the credentials of the other side; set ca_file
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		return driver.Transient
	}
	return driver.Ambiguous
}

func (r *Refusal) kind() driver.ErrorClass {
	if kind, ok := statuses[r.status]; ok {
		return kind
	}
	said := r.reason + "\n" + r.detail
	for _, c := range reasons {
		if c.words.MatchString(said) {
			return c.kind
		}
	}
	return driver.Ambiguous
}

var (
	takenWords = regexp.MustCompile(`(?i)(VM \d+ already exists|config file already exists|\.conf\.tmp\.\d+' - File exists)`)
	lockWords  = regexp.MustCompile(`lock-(\d+)\.conf' - got timeout`)
)

// NumberTaken reports whether err says that a clone did not get its number.
func NumberTaken(err error, number int) bool {
	var r *Refusal
	if !errors.As(err, &r) {
		return false
	}
	if m := lockWords.FindStringSubmatch(r.reason); m != nil {
		return m[1] == fmt.Sprint(number)
	}
	said := r.reason
	for _, text := range r.params {
		said += "\n" + text
	}
	return takenWords.MatchString(said)
}

// Unreachable reports whether err says that a node was not asked.
func Unreachable(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && r.status == 595
}

// Broken reports whether a connection ended before the answer, here or behind a proxy.
// Only a call that may be repeated is repeated then.
func Broken(err error) bool {
	var r *Refusal
	if errors.As(err, &r) {
		return statuses[r.status] == driver.Ambiguous
	}
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && KindOf(err) == driver.Ambiguous
}

// Fail makes the error of an operation.
func Fail(op string, err error) error { return FailAs(KindOf(err), op, err) }

// FailAs makes the error of an operation, of a kind that the caller knows better than [KindOf].
func FailAs(kind driver.ErrorClass, op string, err error) error {
	e := &driver.Error{Class: kind, Op: op, Err: err}
	var r *Refusal
	if errors.As(err, &r) {
		e.RetryAfter = r.after
	}
	return e
}
