package groups

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
)

// load reads the group file at a take-over and writes it under the term, once the records of
// the instances are known. A shard that has nothing yet gets an empty file; where it is
// missing later, or unreadable, it is rebuilt (F10, F11). One of a newer version is left
// alone, and the groups that are not static are blocked rather than taken as deleted. After
// an error load can be called again; it must not be once run has begun.
func (w *writer) load(ctx context.Context) error {
	obj, err := w.opts.Objects.Get(ctx, w.key())
	if errors.Is(err, objectstore.ErrNotFound) {
		if err := w.rebuild(ctx, "the group file is missing", ""); err != nil {
			return err
		}
		return w.sign(ctx)
	}
	if err != nil {
		return err
	}
	file, err := groupfile.Decode(w.key(), obj.Data)
	switch {
	case errors.Is(err, groupfile.ErrNewer):
		w.block("the group file cannot be read and is left alone until an administrator repairs it: " + err.Error())
		return nil
	case err != nil:
		if err := w.setAside(ctx, obj, err); err != nil {
			return err
		}
	case uint64(file.Term) > w.opts.Term:
		return &lease.SupersededError{Document: w.key(), Term: uint64(file.Term)}
	default:
		w.adoptStored(file, obj)
	}
	return w.sign(ctx)
}

// reload is load with another configuration, before anything is decided.
func (w *writer) reload(ctx context.Context, cfg *effective.Config) error {
	w.inForce.mu.Lock()
	next := *w.inForce.state.Load()
	next.cfg = cfg
	w.inForce.state.Store(&next)
	w.inForce.mu.Unlock()
	return w.load(ctx)
}

// sign writes the file under this term. One that would be too large to be read
// again is left as it is, and the groups are blocked: somebody has to shorten it.
func (w *writer) sign(ctx context.Context) error {
	r := &request{edit: w.adoptAndSign, done: make(chan error, 1)}
	st := w.inForce.state.Load()
	unlocked := leaving(st.cfg, st.file)
	err := w.commit(ctx, []*request{r})
	if err == nil {
		err = <-r.done
	}
	if err == nil {
		w.inForce.tellUnlocked(unlocked)
	}
	if invalid := (*groupfile.InvalidError)(nil); errors.Is(err, groupfile.ErrTooLarge) || errors.As(err, &invalid) {
		w.block("the group file cannot be written by this server and is left alone until an administrator repairs it: " + err.Error())
		return nil
	}
	return err
}

// adoptAndSign is adopt, and a change in any case: every leader's term is in the
// file before it is in another document. Who finds no lock looks for the last
// term there (S1, F11).
func (w *writer) adoptAndSign(cfg *effective.Config, file *groupfile.File) (bool, error) {
	adopt(cfg, file, w.opts.Instances.TemplatesInUse(), w.records.size)
	return true, nil
}

// block stops creates and deletes in all groups: in dynamic ones because their sizes are
// unknown, in static ones because whether they are paused is (S23).
func (w *writer) block(why string) {
	w.opts.Log.Error("group file unusable: no machine is made or deleted until it can be read", "reason", why)
	w.inForce.tell(w.inForce.replace(func(st *state) { st.blocked, st.file, st.etag, st.text, st.read = why, nil, "", nil, false }))
}

// adoptStored takes a file over as it is stored.
func (w *writer) adoptStored(file *groupfile.File, obj objectstore.Object) {
	w.inForce.tell(w.inForce.replace(func(st *state) { st.file, st.etag, st.text, st.read, st.blocked = file, obj.ETag, obj.Data, true, "" }))
}

// adoptRebuilt takes over a file that is to be written in the place of what has the etag;
// empty: of nothing.
func (w *writer) adoptRebuilt(file *groupfile.File, etag string) {
	w.inForce.tell(w.inForce.replace(func(st *state) { st.file, st.etag, st.text, st.read, st.blocked = file, etag, nil, false, "" }))
}

// rebuild puts a group file in force that is made from the last readable copy and the
// records, in place of one that is gone or could not be read and has the etag. Each group
// then waits for its own tenant, or an administrator, to confirm it. A shard that has neither
// records nor a copy never had groups.
func (w *writer) rebuild(ctx context.Context, why, etag string) error {
	last, err := w.previous.readable(ctx)
	if err != nil {
		return err
	}
	cfg := w.inForce.state.Load().cfg
	recorded := w.records.groups(cfg)
	if last == nil && len(recorded) == 0 {
		w.adoptRebuilt(&groupfile.File{}, etag)
		return nil
	}
	file := effective.Rebuild(cfg, last, recorded, w.opts.Now())
	w.opts.Log.ErrorContext(ctx, "group file rebuilt, its groups wait to be confirmed", "reason", why,
		"from_records", len(recorded), "from_copy", last != nil)
	w.adoptRebuilt(file, etag)
	return nil
}

// setAside keeps a group file that cannot be read under another key, so that the
// rebuilt one can take its place.
func (w *writer) setAside(ctx context.Context, obj objectstore.Object, cause error) error {
	key := layout.DamagedGroupsKey(w.opts.Shard)
	old, err := w.opts.Objects.Get(ctx, key)
	if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	if err != nil || !bytes.Equal(old.Data, obj.Data) {
		if _, err := objectstore.Put(ctx, w.opts.Objects, key, obj.Data, old.ETag, w.writes()); err != nil {
			return fmt.Errorf("keep the damaged group file: %w", err)
		}
	}
	return w.rebuild(ctx, fmt.Sprintf("the group file cannot be read, it is kept as %s: %v", key, cause), obj.ETag)
}
