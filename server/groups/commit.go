package groups

import (
	"context"
	"errors"
	"time"

	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
)

// maxMerges bounds how often an edit that lost a race is made again.
const maxMerges = 5

// commit applies a batch to the stored file and answers each request. The error
// is that of the write; an edit's own error goes to its caller alone.
func (w *writer) commit(ctx context.Context, batch []*request) error {
	for range maxMerges {
		pending, err := w.tryCommit(ctx, batch)
		if errors.Is(err, objectstore.ErrPrecondition) {
			if err = w.reread(ctx); err == nil {
				batch = pending
				continue
			}
		}
		if errors.Is(err, groupfile.ErrTooLarge) && len(pending) > 1 {
			return w.commitEach(ctx, pending)
		}
		answer(pending, err)
		return err
	}
	answer(batch, errEditLost)
	return nil
}

// commitEach writes edits one by one that do not fit into the file together, so
// that only those are refused that find no room (S24).
func (w *writer) commitEach(ctx context.Context, batch []*request) error {
	var errs []error
	for _, r := range batch {
		if err := w.commit(ctx, []*request{r}); !errors.Is(err, groupfile.ErrTooLarge) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func answer(requests []*request, err error) {
	for _, r := range requests {
		r.answer(err)
	}
}

// tryCommit makes one write. It answers the requests that need none, and returns
// the others.
func (w *writer) tryCommit(ctx context.Context, batch []*request) ([]*request, error) {
	st := w.inForce.state.Load()
	if st.blocked != "" {
		answer(batch, errUnreadable)
		return nil, nil
	}
	file := st.file.Clone()
	var pending []*request
	for _, r := range batch {
		changed, err := file.Attempt(r.by.tenant, r.by.bytes(st.cfg), func() (bool, error) { return r.edit(st.cfg, file) })
		if err != nil || !changed && st.etag != "" {
			r.answer(err)
			continue
		}
		pending = append(pending, r)
	}
	if len(pending) == 0 {
		return nil, nil
	}
	for _, key := range file.Changed() {
		st.cfg.KeepTemplateOf(file, key)
	}
	etag, written, err := w.write(ctx, file, st)
	if err == nil {
		w.inForce.tell(w.inForce.advance(file, etag, written))
		w.previous.keep(st.text)
	}
	return pending, err
}

// writes outlasts a store that takes one write per second and object, and comes back soon
// after its second is over: everybody who changes a group waits.
func (w *writer) writes() objectstore.RetryPolicy {
	p := w.opts.Writes
	p.Attempts, p.MaxPause = 12, 200*time.Millisecond
	return p
}

// write makes the group file durable under this term, in the place of the one in force. What
// edits have changed in that has been read back; where nobody has ever read the rest, all is.
func (w *writer) write(ctx context.Context, file *groupfile.File, over *state) (etag string, data []byte, err error) {
	file.Term = int64(w.opts.Term)
	data, err = groupfile.Encode(file)
	if errors.Is(err, groupfile.ErrTooLarge) && file.Templates != nil {
		file.Templates = nil // what is in force counts more than what a template was
		data, err = groupfile.Encode(file)
	}
	if err != nil {
		return "", nil, err
	}
	if !over.read {
		if _, err := groupfile.Decode(w.key(), data); err != nil {
			return "", nil, &groupfile.InvalidError{Field: "groups", Msg: "the file could not be read again: " + err.Error()}
		}
	}
	etag, err = objectstore.Put(ctx, w.opts.Objects, w.key(), data, over.etag, w.writes())
	return etag, data, err
}

// reread fetches the group file that somebody else wrote (F4). A later term in
// it ends this one. Where somebody has removed the file, it is to be written
// again: this leader knows what it contained (F11).
func (w *writer) reread(ctx context.Context) error {
	obj, err := w.opts.Objects.Get(ctx, w.key())
	if errors.Is(err, objectstore.ErrNotFound) {
		w.opts.Log.ErrorContext(ctx, "group file is gone, writing what is known of it")
		w.inForce.mu.Lock()
		defer w.inForce.mu.Unlock()
		next := *w.inForce.state.Load()
		next.etag = ""
		w.inForce.state.Store(&next)
		return nil
	}
	if err != nil {
		return err
	}
	file, err := groupfile.Decode(w.key(), obj.Data)
	if err != nil {
		// The groups go on as this leader knows them; only edits are refused.
		w.inForce.waiting.Store(true)
		w.opts.Log.ErrorContext(ctx, "group file unreadable; it is left alone until an administrator repairs it", "error", err)
		return err
	}
	if uint64(file.Term) > w.opts.Term {
		return &lease.SupersededError{Document: w.key(), Term: uint64(file.Term)}
	}
	w.adoptStored(file, obj)
	return nil
}
