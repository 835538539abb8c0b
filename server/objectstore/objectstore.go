// Package objectstore is the contract with the object storage that holds the
// truth: a flat set of small objects, each written under a condition.
//
// A [Store] never overwrites blindly. Every write names what it expects to
// find - nothing, or a version by its etag - so two servers that both believe
// they lead can't both succeed. The rules of this package:
//
//   - An etag is opaque and belongs to one key of one store. A backend may
//     derive it from the content alone, so an object that goes from A to B and
//     back to A may have its first etag again. Documents whose versions matter
//     carry a counter or a time.
//   - Methods are safe for concurrent use and linearizable per key. Nothing
//     holds over two keys.
//   - A key is never a folder of another key: where "a/b" exists, "a" doesn't.
//   - An error matches one of the sentinels below, or the context's error, or
//     is permanent (a bad key, no permission). [Retryable] tells.
//
// [Put] and [Delete] carry out conditional writes over an unreliable network:
// they retry, and recognise their own write whose answer was lost. Backends
// live in the folders below; each passes the suite in storetest.
package objectstore

import (
	"context"
	"errors"
	"time"
)

// MaxPage is the largest page that List returns, and its size for limit 0.
const MaxPage = 1000

// Errors that a caller acts on. Backends wrap them with the operation and key.
var (
	// ErrNotFound says that no object has this key.
	ErrNotFound = errors.New("object not found")

	// ErrPrecondition says that the condition did not hold and nothing was
	// written (HTTP 412). After a call whose outcome was unknown it may mean
	// that the earlier call had succeeded: [Put] finds out.
	ErrPrecondition = errors.New("precondition failed")

	// ErrConflict says that another conditional write to the key was in
	// progress (HTTP 409): nothing was written and nothing is lost yet. Retry.
	ErrConflict = errors.New("conflicting write in progress")

	// ErrThrottled says that the store asks for a slower pace (HTTP 429, or 503
	// slow down); nothing was written.
	ErrThrottled = errors.New("throttled")

	// ErrUnavailable says that the outcome is unknown: a time-out, a 5xx, a
	// lost connection. The write may have happened or may still happen.
	ErrUnavailable = errors.New("store unavailable, outcome unknown")
)

// Store keeps objects and writes them conditionally.
//
// Every method checks the key with [ValidateKey] before anything else. A call
// whose context ends returns the context's error; where the request may have
// been sent, the error matches ErrUnavailable too.
type Store interface {
	// Get returns an object with its content and etag, or ErrNotFound.
	Get(ctx context.Context, key string) (Object, error)

	// PutIfAbsent creates an object and returns its etag. It returns
	// ErrPrecondition where the key exists, even with the same content.
	PutIfAbsent(ctx context.Context, key string, data []byte) (etag string, err error)

	// PutIfMatch replaces the version that has etag and returns the new one's.
	// It returns ErrPrecondition where the object is absent or has another
	// etag. An empty etag is an error.
	PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error)

	// DeleteIfMatch removes the version that has etag. It returns ErrPrecondition
	// where the object has another etag. Where it is absent it returns
	// ErrNotFound, or nil where the store does not tell: nil says that the object
	// is gone, not that this call removed it. An empty etag is an error.
	DeleteIfMatch(ctx context.Context, key, etag string) error

	// List returns the objects whose key begins with prefix, in byte order of
	// their keys, from pageToken on: "" for the first page, then the Next of
	// the page before. A page has at most limit objects, and MaxPage for limit
	// 0 or more than that. An object that exists throughout a listing is in it
	// exactly once; one written or deleted meanwhile may or may not be.
	List(ctx context.Context, prefix, pageToken string, limit int) (Page, error)
}

// Object is one version of an object. Its Data belongs to the caller.
type Object struct {
	Key  string
	Data []byte
	ETag string

	// Modified is when the version was written, by the store's clock. It is for
	// people to read: no decision may depend on it.
	Modified time.Time
}

// Info is what a listing says about an object; Size counts bytes.
type Info struct {
	Key, ETag string
	Size      int64
	Modified  time.Time
}

// Page is a part of a listing. Next is empty on the last page.
type Page struct {
	Objects []Info
	Next    string
}

// Retryable reports whether the same call may succeed when repeated after a
// pause: conflicts, throttling, and unknown outcomes. After an unknown outcome
// a repeated write can answer ErrPrecondition because of the first: use [Put].
func Retryable(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrThrottled) || errors.Is(err, ErrUnavailable)
}
