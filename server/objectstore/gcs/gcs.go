// Package gcs is an object store in a bucket of Google Cloud Storage.
//
// Credentials are the application default ones; STORAGE_EMULATOR_HOST names an
// emulator instead. An etag is the object's generation, which no two versions
// share: an object that returns to an earlier content has a new etag.
//
// One object takes about one write a second; more are answered ErrThrottled.
//
// A write is one request. The client's retries, which would hide that an earlier
// try took effect, are off for writes: [objectstore.Put] repeats them and knows
// its own. Reads are repeated here, a few times within one time-out.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/iterator"

	"nstance.dev/server/objectstore"
)

// Options say where a store is.
type Options struct {
	// Bucket is the bucket's name; required. Nothing is created: a bucket that
	// is not there is an error of every call.
	Bucket string

	// Timeout ends a call that has no answer, with ErrUnavailable; 30s.
	Timeout time.Duration
}

// Store is an objectstore.Store in a bucket. It is safe for concurrent use and
// needs no closing.
type Store struct {
	bucket  *storage.BucketHandle
	timeout time.Duration
	exists  atomic.Bool // the bucket does: what absent found out
}

var _ objectstore.Store = (*Store)(nil)

const (
	readAttempts = 3
	readMaxPause = 200 * time.Millisecond
)

// New returns the store that the options and the environment name. It sends no
// request to it, so a missing bucket or permission is not found here; missing
// credentials are.
func New(ctx context.Context, opts Options) (*Store, error) {
	if opts.Bucket == "" {
		return nil, errors.New("open GCS store: the bucket has no name")
	}
	client, err := storage.NewClient(ctx)
	if err != nil {
		return nil, fmt.Errorf("open GCS store: %w", err)
	}
	client.SetRetry(storage.WithMaxAttempts(readAttempts),
		storage.WithBackoff(gax.Backoff{Initial: readMaxPause / 4, Max: readMaxPause, Multiplier: 2}))
	s := &Store{bucket: client.Bucket(opts.Bucket), timeout: opts.Timeout}
	if s.timeout <= 0 {
		s.timeout = 30 * time.Second
	}
	return s, nil
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string) (objectstore.Object, error) {
	if err := check(ctx, key); err != nil {
		return objectstore.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := s.bucket.Object(key).ReadCompressed(true).NewReader(callCtx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		return objectstore.Object{}, fmt.Errorf("get %s: %w", key, s.absent(ctx))
	}
	if err != nil {
		return objectstore.Object{}, fmt.Errorf("get %s: %w", key, explain(ctx, err))
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return objectstore.Object{}, fmt.Errorf("get %s: read: %w", key, unknown(ctx, err))
	}
	return objectstore.Object{
		Key: key, Data: data, ETag: etagOf(r.Attrs.Generation), Modified: r.Attrs.LastModified,
	}, nil
}

// absent is the error of an object that was not found. The answer does not tell a
// missing object from a missing bucket, which must not look like an empty one: the
// first time, a listing does.
func (s *Store) absent(ctx context.Context) error {
	if !s.exists.Load() {
		if _, err := s.List(ctx, "", "", 1); err != nil {
			return err
		}
		s.exists.Store(true)
	}
	return objectstore.ErrNotFound
}

// PutIfAbsent implements objectstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	if err := check(ctx, key); err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	etag, err := s.put(ctx, key, data, storage.Conditions{DoesNotExist: true})
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return etag, nil
}

// PutIfMatch implements objectstore.Store.
func (s *Store) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	if err := check(ctx, key); err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	if etag == "" {
		return "", fmt.Errorf("put %s: the etag is empty", key)
	}
	generation, ok := generationOf(etag)
	if !ok {
		return "", fmt.Errorf("put %s: %w", key, objectstore.ErrPrecondition)
	}
	next, err := s.put(ctx, key, data, storage.Conditions{GenerationMatch: generation})
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return next, nil
}

func (s *Store) put(ctx context.Context, key string, data []byte, condition storage.Conditions) (string, error) {
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	w := s.bucket.Object(key).If(condition).Retryer(storage.WithPolicy(storage.RetryNever)).NewWriter(callCtx)
	w.ChunkSize = 0 // one request instead of an upload in parts
	_, err := w.Write(data)
	if closed := w.Close(); err == nil || closed != nil {
		err = closed // says why the writing ended
	}
	if err != nil {
		return "", explain(ctx, err)
	}
	return etagOf(w.Attrs().Generation), nil
}

// DeleteIfMatch implements objectstore.Store.
func (s *Store) DeleteIfMatch(ctx context.Context, key, etag string) error {
	if err := check(ctx, key); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	if etag == "" {
		return fmt.Errorf("delete %s: the etag is empty", key)
	}
	err := objectstore.ErrPrecondition
	if generation, ok := generationOf(etag); ok {
		err = s.delete(ctx, key, generation)
	}
	if errors.Is(err, objectstore.ErrPrecondition) {
		// The answer does not tell another version from none.
		if _, readErr := s.Get(ctx, key); readErr != nil {
			return fmt.Errorf("delete %s: the condition was refused: %w", key, readErr)
		}
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key string, generation int64) error {
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	condition := storage.Conditions{GenerationMatch: generation}
	err := s.bucket.Object(key).If(condition).Retryer(storage.WithPolicy(storage.RetryNever)).Delete(callCtx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		return s.absent(ctx)
	}
	if err != nil {
		return explain(ctx, err)
	}
	return nil
}

// List implements objectstore.Store. The token is the store's own.
func (s *Store) List(ctx context.Context, prefix, pageToken string, limit int) (objectstore.Page, error) {
	if err := objectstore.ValidatePrefix(prefix); err != nil {
		return objectstore.Page{}, fmt.Errorf("list %q: %w", prefix, err)
	}
	if err := ctx.Err(); err != nil {
		return objectstore.Page{}, fmt.Errorf("list %q: %w", prefix, err)
	}
	if limit <= 0 || limit > objectstore.MaxPage {
		limit = objectstore.MaxPage
	}
	query := &storage.Query{Prefix: prefix, Projection: storage.ProjectionNoACL}
	if err := query.SetAttrSelection([]string{"Name", "Generation", "Size", "Updated"}); err != nil {
		return objectstore.Page{}, fmt.Errorf("list %q: %w", prefix, err)
	}
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var objects []*storage.ObjectAttrs
	next, err := iterator.NewPager(s.bucket.Objects(callCtx, query), limit, pageToken).NextPage(&objects)
	if err != nil {
		return objectstore.Page{}, fmt.Errorf("list %q: %w", prefix, explain(ctx, err))
	}
	return objectstore.Page{Objects: infos(objects), Next: next}, nil
}

// infos passes over what no call can reach: folders that a console made, and
// names that are no keys.
func infos(objects []*storage.ObjectAttrs) []objectstore.Info {
	var all []objectstore.Info
	for _, o := range objects {
		if objectstore.ValidateKey(o.Name) != nil {
			continue
		}
		all = append(all, objectstore.Info{
			Key: o.Name, ETag: etagOf(o.Generation), Size: o.Size,
			// Whole seconds, as in the header that Get reads.
			Modified: o.Updated.Truncate(time.Second),
		})
	}
	return all
}

// check is what every call on an object begins with.
func check(ctx context.Context, key string) error {
	if err := objectstore.ValidateKey(key); err != nil {
		return err
	}
	return ctx.Err()
}

func etagOf(generation int64) string { return strconv.FormatInt(generation, 10) }

// generationOf returns the generation that an etag stands for. No version has
// generation 0, which as a condition would mean that there is none.
func generationOf(etag string) (int64, bool) {
	generation, err := strconv.ParseInt(etag, 10, 64)
	return generation, err == nil && generation > 0
}
