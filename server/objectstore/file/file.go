// Package file is an object store in a folder: for a single box, and for tests
// with several processes.
//
// A key is a path below the folder, its content the file's. Writers exclude
// each other, within a process and between processes, by file locks that end
// with the process that holds them; a file appears whole by rename, after it
// reached the disk. A killed writer leaves neither a lock nor half an object.
//
// An etag is the SHA-256 of the content and nothing else, so files may be put
// in place by hand, and an object that returns to an earlier content returns to
// its etag. The folder's own files have names that begin with a dot; listings
// pass over all such names. Two servers on two boxes can't share the folder
// unless the file system carries flock between them.
package file

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"nstance.dev/server/objectstore"
)

// Store is an objectstore.Store in a folder. It is safe for concurrent use, in
// one process and in several.
type Store struct {
	dir   string
	locks *locks
}

var _ objectstore.Store = (*Store)(nil)

// New opens the store in dir, which it creates if need be. Nothing has to be
// closed: the store holds no file open between calls.
func New(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open file store %s: %w", dir, err)
	}
	for _, d := range []string{dir, filepath.Join(dir, lockDir), filepath.Join(dir, tempDir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("open file store %s: %w", dir, err)
		}
	}
	return &Store{dir: dir, locks: newLocks(filepath.Join(dir, lockDir))}, nil
}

// Get implements objectstore.Store. It takes no lock: a rename is atomic.
func (s *Store) Get(ctx context.Context, key string) (objectstore.Object, error) {
	if err := objectstore.ValidateKey(key); err != nil {
		return objectstore.Object{}, err
	}
	if err := ctx.Err(); err != nil {
		return objectstore.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	o, err := s.read(key)
	if err != nil {
		return objectstore.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	return o, nil
}

// PutIfAbsent implements objectstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	return s.put(ctx, key, data, func(current string, exists bool) bool { return !exists })
}

// PutIfMatch implements objectstore.Store.
func (s *Store) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	if etag == "" {
		return "", fmt.Errorf("put %s: the etag is empty", key)
	}
	return s.put(ctx, key, data, func(current string, exists bool) bool { return exists && current == etag })
}

func (s *Store) put(ctx context.Context, key string, data []byte, holds func(current string, exists bool) bool) (string, error) {
	if err := objectstore.ValidateKey(key); err != nil {
		return "", err
	}
	held, err := s.locks.acquire(ctx, key)
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	defer held.release()
	current, err := s.read(key)
	if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	if !holds(current.ETag, err == nil) {
		return "", fmt.Errorf("put %s: %w", key, objectstore.ErrPrecondition)
	}
	temp := filepath.Join(s.dir, tempDir, held.name)
	if err := replace(s.dir, s.path(key), temp, data); err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return etagOf(data), nil
}

// DeleteIfMatch implements objectstore.Store. Folders stay when they get empty.
func (s *Store) DeleteIfMatch(ctx context.Context, key, etag string) error {
	if etag == "" {
		return fmt.Errorf("delete %s: the etag is empty", key)
	}
	if err := objectstore.ValidateKey(key); err != nil {
		return err
	}
	held, err := s.locks.acquire(ctx, key)
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	defer held.release()
	current, err := s.read(key)
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	if current.ETag != etag {
		return fmt.Errorf("delete %s: %w", key, objectstore.ErrPrecondition)
	}
	if err := remove(s.path(key)); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

func (s *Store) path(key string) string {
	return filepath.Join(s.dir, filepath.FromSlash(key))
}

// read returns the object of key, or ErrNotFound also where a folder has its
// name or a file has the name of one of its folders.
func (s *Store) read(key string) (objectstore.Object, error) {
	f, err := os.Open(s.path(key))
	if gone(err) {
		return objectstore.Object{}, cmp.Or(s.away(), objectstore.ErrNotFound)
	}
	if err != nil {
		return objectstore.Object{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return objectstore.Object{}, err
	}
	if info.IsDir() {
		return objectstore.Object{}, objectstore.ErrNotFound
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return objectstore.Object{}, err
	}
	return objectstore.Object{Key: key, Data: data, ETag: etagOf(data), Modified: info.ModTime()}, nil
}

// away is the error of every call while the store's folder is not there, moved or
// not mounted: then nothing is known of any key, least of all that it is absent.
func (s *Store) away() error {
	if _, err := os.Stat(s.locks.dir); err != nil {
		return fmt.Errorf("%w: the folder of the store is gone: %w", objectstore.ErrUnavailable, err)
	}
	return nil
}

// gone says that nothing has the path, also because a file stands in its way.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func etagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
