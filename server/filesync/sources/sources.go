package sources

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/render"
	"nstance.dev/server/secrets"
)

// MaxSize is the length of the largest file, in bytes.
const MaxSize = render.MaxFile

// Options are what a [Sources] reads from. All but Now are required.
type Options struct {
	// Objects is the shard's bucket.
	Objects objectstore.Store
	// Secrets returns the secrets store that is in use now.
	Secrets func() secrets.Store
	// From says which objects files may come from now.
	From func() layout.FileSources
	Now  func() time.Time // time.Now
}

// Content is what a file contains. Data is shared, and not to be changed.
type Content struct {
	Data     []byte
	Digest   string    // SHA-256 of Data, 32 bytes
	Modified time.Time // when this server first had it
}

// Sources makes contents. It is safe for concurrent use.
type Sources struct {
	opts Options

	mu     sync.Mutex
	texts  map[textKey]Content
	remote map[reference]*entry
	held   int // bytes of all contents

	epoch atomic.Uint64
}

// New returns sources that know nothing yet.
func New(opts Options) *Sources {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Sources{opts: opts, texts: map[textKey]Content{}, remote: map[reference]*entry{}}
}

// Request names a file and the machine that it is for.
type Request struct {
	Name string
	File document.File
	// Hash is that of the configuration which Data.Vars and File come from.
	Hash string
	Data render.Data
}

// Content returns what the file contains now. An error is about this file
// alone, and another try may succeed. More than [MaxSize] bytes are an error.
func (s *Sources) Content(ctx context.Context, r Request) (Content, error) {
	switch r.File.Kind {
	case document.FileEnv, document.FileJSON, document.FileString:
		return s.text(r)
	case document.FileSecret, document.FileStorage:
		ref, err := s.reference(r)
		if err != nil {
			return Content{}, err
		}
		e := s.entry(ref)
		return s.content(ctx, ref, e, fresh)
	}
	return Content{}, fmt.Errorf("file %s: kind %q has no content of its own", r.Name, r.File.Kind)
}

// Version returns the digest of a secret's or an object's content as it was
// last read; it is read if it never was. It is "" for the other kinds, and for
// what cannot be watched because there is too much of it.
func (s *Sources) Version(ctx context.Context, r Request) (string, error) {
	if r.File.Kind != document.FileSecret && r.File.Kind != document.FileStorage {
		return "", nil
	}
	ref, err := s.reference(r)
	if err != nil {
		return "", err
	}
	e := s.entry(ref)
	if !e.watched {
		return "", nil
	}
	c, err := s.content(ctx, ref, e, forever)
	return c.Digest, err
}

// Epoch grows whenever the digest of a watched source has become another one.
// As long as it stays, no version has changed.
func (s *Sources) Epoch() uint64 { return s.epoch.Load() }

func newContent(data []byte, now time.Time) Content {
	sum := sha256.Sum256(data)
	return Content{Data: data, Digest: string(sum[:]), Modified: now}
}

func tooLarge(what string) error {
	return fmt.Errorf("%s is larger than %d bytes", what, MaxSize)
}

// reference names what a file is read from.
func (s *Sources) reference(r Request) (reference, error) {
	if r.File.Kind == document.FileStorage {
		key, err := render.StorageKey(r.Name, r.File, r.Data, s.opts.From())
		return reference{document.FileStorage, key}, err
	}
	if slices.Contains(document.ClusterSecrets, r.File.Source) {
		return reference{}, fmt.Errorf("file %s: secret %q is a key of the cluster itself", r.Name, r.File.Source)
	}
	return reference{document.FileSecret, r.File.Source}, nil
}
