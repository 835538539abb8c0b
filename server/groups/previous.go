package groups

import (
	"context"
	"errors"
	"time"

	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
)

// copyEvery is the least time between two copies of the group file.
const copyEvery = time.Minute

// previous keeps a copy of the group file as it was before the last edits, in case that the
// file is lost.
type previous struct {
	opts Options

	kept    time.Time     // when the last copy was begun
	writing chan struct{} // closed when it is done; nil: none was begun
	etag    string        // of the copy; for the one who writes it
	known   bool          // whether etag is
}

// keep copies the group file as it was before an edit, once a minute at
// most. Nobody waits for it.
func (p *previous) keep(text []byte) {
	now := p.opts.Now()
	if text == nil || !p.kept.IsZero() && now.Sub(p.kept) < copyEvery {
		return
	}
	if p.writing != nil {
		select {
		case <-p.writing:
		default:
			return // a slow store: the next edit is in time
		}
	}
	done := make(chan struct{})
	p.kept, p.writing = now, done
	p.opts.Go(func(ctx context.Context) {
		defer close(done)
		if err := p.write(ctx, text); err != nil && ctx.Err() == nil {
			p.known = false
			p.opts.Over(err)
			p.opts.Log.Warn("copy of the group file not kept", "error", err)
		}
	})
}

func (p *previous) write(ctx context.Context, text []byte) error {
	key := layout.PreviousGroupsKey(p.opts.Shard)
	if !p.known {
		old, err := p.opts.Objects.Get(ctx, key)
		if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
			return err
		}
		p.etag, p.known = old.ETag, true
	}
	etag, err := objectstore.Put(ctx, p.opts.Objects, key, text, p.etag, p.opts.Writes)
	p.etag = etag
	return err
}

// readable is the copy of the group file that was kept last; nil without one.
func (p *previous) readable(ctx context.Context) (*groupfile.File, error) {
	key := layout.PreviousGroupsKey(p.opts.Shard)
	obj, err := p.opts.Objects.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	file, err := groupfile.Decode(key, obj.Data)
	if err != nil {
		p.opts.Log.ErrorContext(ctx, "copy of the group file cannot be read", "error", err)
		return nil, nil // the records serve without it
	}
	if uint64(file.Term) > p.opts.Term {
		return nil, &lease.SupersededError{Document: key, Term: uint64(file.Term)}
	}
	return file, nil
}
