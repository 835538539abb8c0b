// Package backends opens the object store that a command line names. Programs
// that use storage link all of its kinds, whatever provider their machines are
// from.
package backends

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/file"
	"nstance.dev/server/objectstore/gcs"
	"nstance.dev/server/objectstore/s3"
)

// Kinds of stores.
const (
	S3   = "s3"   // Amazon S3, and stores that speak its protocol
	GCS  = "gcs"  // Google Cloud Storage
	File = "file" // a directory of this box
)

// Errors about what was named. They do not say by which flags.
var (
	ErrKind   = errors.New("unknown kind of storage")
	ErrBucket = errors.New("bucket")
)

// Location says where a store is.
type Location struct {
	Kind   string // one of the kinds above
	Bucket string // its name; for File a directory, which must exist
	Prefix string // of every key, slashes around it don't matter; empty: none
}

// CheckKind returns an error that matches ErrKind and names the kinds, where kind
// is none of them.
func CheckKind(kind string) error {
	kinds := []string{S3, GCS, File}
	if slices.Contains(kinds, kind) {
		return nil
	}
	return fmt.Errorf("%w %q: it is one of %s", ErrKind, kind, strings.Join(kinds, ", "))
}

// Open opens the store at l. Credentials and endpoints come from where the SDK of
// its kind looks for them. It sends no request to the store: whether the bucket
// is there, and heeds conditions, the first calls show. An error about l matches
// ErrKind, ErrBucket or objectstore.ErrKey.
func Open(ctx context.Context, l Location) (objectstore.Store, error) {
	if err := CheckKind(l.Kind); err != nil {
		return nil, err
	}
	if l.Bucket == "" {
		return nil, fmt.Errorf("%w: it has no name", ErrBucket)
	}
	if prefix := strings.Trim(l.Prefix, "/"); prefix != "" {
		if err := objectstore.ValidatePrefix(prefix + "/"); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
	}
	store, err := open(ctx, l.Kind, l.Bucket)
	if err != nil {
		return nil, err
	}
	return objectstore.WithPrefix(store, l.Prefix), nil
}

func open(ctx context.Context, kind, bucket string) (objectstore.Store, error) {
	switch kind {
	case S3:
		return s3.New(ctx, s3.Options{Bucket: bucket})
	case GCS:
		return gcs.New(ctx, gcs.Options{Bucket: bucket})
	default:
		return openFile(bucket)
	}
}

// openFile opens a directory. One that is not there is an error: a mistyped path
// must not look like an empty cluster.
func openFile(dir string) (objectstore.Store, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBucket, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is not a directory", ErrBucket, dir)
	}
	return file.New(dir)
}
