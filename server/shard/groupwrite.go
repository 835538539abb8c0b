package shard

import (
	"context"
	"errors"
	"nstance.dev/server/lease"
	"reflect"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// errEditLost answers an edit that kept losing against another writer.
var errEditLost = &refusal.Error{Code: refusal.Aborted, Reason: "EDIT_LOST", Message: "another writer kept changing the group file; try again"}

// errUnreadable answers edits while the group file is there and not understood.
var errUnreadable = &refusal.Error{Code: refusal.FailedPrecondition, Reason: "GROUP_FILE_UNREADABLE",
	Message: "the group file of the shard cannot be read; it has to be repaired first"}

// maxMerges bounds how often an edit that lost a race is made again.
const maxMerges = 5

// commit applies a batch to the stored file and answers each change. The error
// is that of the write; an edit's own error goes to its caller alone.
func (w *wanted) commit(ctx context.Context, batch []*groupChange) error {
	for range maxMerges {
		pending, err := w.tryCommit(ctx, batch)
		if errors.Is(err, objectstore.ErrPrecondition) {
			if err = w.reread(ctx); err == nil {
				batch = pending
				continue
			}
		}
		if errors.Is(err, config.ErrTooLarge) && len(pending) > 1 {
			return w.commitEach(ctx, pending)
		}
		answer(pending, err)
		return err
	}
	answer(batch, errEditLost)
	return nil
}

// commitEach writes changes one by one that do not fit into the file together, so
// that only those are refused that find no room (S24).
func (w *wanted) commitEach(ctx context.Context, batch []*groupChange) error {
	var errs []error
	for _, c := range batch {
		if err := w.commit(ctx, []*groupChange{c}); !errors.Is(err, config.ErrTooLarge) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func answer(changes []*groupChange, err error) {
	for _, c := range changes {
		c.done <- err
	}
}

// tryCommit makes one write. It answers the changes that need none, and returns
// the others.
func (w *wanted) tryCommit(ctx context.Context, batch []*groupChange) ([]*groupChange, error) {
	w.mu.RLock()
	cfg, old, etag, text, hold := w.static.Config, w.file, w.etag, w.text, w.hold
	w.mu.RUnlock()
	if hold != nil {
		answer(batch, errUnreadable)
		return nil, nil
	}
	file := old.Clone()
	var pending []*groupChange
	for _, c := range batch {
		changed, err := file.Attempt(c.by.tenant, c.by.room(cfg), func() (bool, error) { return c.edit(cfg, file) })
		if err != nil || !changed && etag != "" {
			c.done <- err
			continue
		}
		pending = append(pending, c)
	}
	if len(pending) == 0 {
		return nil, nil
	}
	for _, key := range file.Changed() {
		cfg.KeepTemplateOf(file, key)
	}
	etag, written, err := w.write(ctx, file, etag)
	if err == nil {
		w.advance(file, etag, written)
		w.keepPrevious(text)
	}
	return pending, err
}

// underLease has each try of a write prove the lease right before it (S2).
func underLease(jitter func() float64) objectstore.RetryPolicy {
	return objectstore.RetryPolicy{Permit: lease.Check, Jitter: jitter}
}

// groupWrites outlasts a store that takes one write per second and object, and
// comes back soon after its second is over: everybody who changes a group waits.
func groupWrites(jitter func() float64) objectstore.RetryPolicy {
	p := underLease(jitter)
	p.Attempts, p.MaxPause = 12, 200*time.Millisecond
	return p
}

// write makes the group file durable under this term.
func (w *wanted) write(ctx context.Context, file *config.GroupFile, etag string) (string, []byte, error) {
	file.Term = int64(w.r.term)
	data, err := config.EncodeGroups(file)
	if errors.Is(err, config.ErrTooLarge) && file.Templates != nil {
		file.Templates = nil // what is in force counts more than what a template was
		data, err = config.EncodeGroups(file)
	}
	if err != nil {
		return "", nil, err
	}
	etag, err = objectstore.Put(ctx, w.r.opts.Store, w.key(), data, etag, groupWrites(w.r.opts.Jitter))
	return etag, data, err
}

// reread fetches the group file that somebody else wrote (F4). A later term in
// it ends this reign. Where somebody has removed the file, it is to be written
// anew: this leader knows what stood in it (F11).
func (w *wanted) reread(ctx context.Context) error {
	obj, err := w.r.opts.Store.Get(ctx, w.key())
	if errors.Is(err, objectstore.ErrNotFound) {
		w.r.log.ErrorContext(ctx, "group file is gone, writing what is known of it")
		w.mu.Lock()
		defer w.mu.Unlock()
		w.etag = ""
		return nil
	}
	if err != nil {
		return err
	}
	file, err := config.DecodeGroups(w.key(), obj.Data)
	if err != nil {
		// The groups go on as this leader knows them; only edits are refused.
		w.r.opts.Metrics.groupsHeld(true)
		w.r.log.ErrorContext(ctx, "group file cannot be read any more and is left alone until somebody repairs it", "error", err)
		return err
	}
	if uint64(file.Term) > w.r.term {
		return &lease.SupersededError{Document: w.key(), Term: uint64(file.Term)}
	}
	w.set(file, obj.ETag, obj.Data)
	return nil
}

// apply puts another configuration in force: first what it asks of the group
// file is made durable, then every group is looked at again.
func (w *wanted) apply(ctx context.Context, static Static) error {
	w.mu.RLock()
	known, unlocked := w.hold == nil, leaving(static.Config, w.file)
	w.mu.RUnlock()
	if known {
		err := w.change(ctx, asker{}, func(_ *config.Config, file *config.GroupFile) (bool, error) {
			return adopt(static.Config, file, w.r.instances.TemplatesInUse())
		})
		if err != nil {
			return err
		}
	}
	w.mu.Lock()
	w.static = static
	news := w.merge()
	w.mu.Unlock()
	for _, id := range news {
		w.r.publishGroup(id)
	}
	w.r.tellUnlocked(unlocked)
	w.r.configureImages(static.Config)
	w.r.balancers.Refresh()
	w.r.enqueueAll()
	return nil
}

// reload is load with another configuration, before anything is decided.
func (w *wanted) reload(ctx context.Context, static Static) error {
	w.mu.Lock()
	w.static = static
	w.mu.Unlock()
	w.r.configureImages(static.Config)
	return w.load(ctx)
}

// settle ends a deleted group once its last managed instance is gone.
func (w *wanted) settle(ctx context.Context, id fleet.GroupID, counts fleet.Counts) {
	w.mu.RLock()
	g := w.effectives[id]
	w.mu.RUnlock()
	if g == nil || !g.Deleted || counts.Live+counts.Sick+counts.Leaving > 0 {
		return
	}
	w.r.tasks.Go(func() {
		err := w.change(w.r.ctx, asker{}, func(_ *config.Config, file *config.GroupFile) (bool, error) {
			entry, ok := file.Group(id.Tenant, id.Name)
			if !ok || entry.DeletedAt == nil {
				return false, nil // somebody brought it back
			}
			file.Remove(id.Tenant, id.Name)
			file.ClearPause(config.Pause{Scope: config.PauseGroup, Tenant: id.Tenant, Group: id.Name}, w.r.now())
			return true, nil
		})
		if err != nil {
			w.r.log.WarnContext(ctx, "entry of a deleted group not removed", "tenant", id.Tenant, "group", id.Name, "error", err)
			return
		}
		w.r.publishGroup(id)
	})
}

// adopt makes the group file fit a configuration. A group that was static and
// has left the configuration becomes a dynamic one, with an entry that has its last
// definition: the change does it no harm, and it ends when somebody deletes it. One
// that is back gives up what was written into its entry then. Last, the static groups and
// the templates of all groups, and those used beside, are noted for the next time.
func adopt(cfg *config.Config, file *config.GroupFile, used []config.TemplateUse) (bool, error) {
	changed := false
	for _, id := range leaving(cfg, file) {
		entry, _ := file.Group(id.Tenant, id.Name)
		entry = config.Unlock(entry, file.Static[id.Tenant][id.Name].Group)
		if config.CheckEntry(config.GroupKey{Tenant: id.Tenant, Group: id.Name}, entry) != nil {
			entry.Unlocked = nil // args so deep that the copy of them, further down, can't be read
		}
		file.Set(id.Tenant, id.Name, entry)
		changed = true
	}
	if relock(cfg, file) {
		changed = true
	}
	if now := config.StaticCopy(cfg); !reflect.DeepEqual(now, file.Static) && len(now)+len(file.Static) > 0 {
		file.Static = now
		changed = true
	}
	if cfg.KeepTemplates(file, used) {
		changed = true
	}
	if file.Templates != nil && !file.Fits() {
		file.Templates = nil
	}
	if file.Static != nil && !file.Fits() {
		file.Static = nil // what is in force counts more than what a group was when it leaves
	}
	return changed, nil
}

// adoptAndSign is adopt, and a change in any case: every leader's term is in the
// file before it is in another document. Who finds no lock looks for the last
// term there (S1, F11).
func (w *wanted) adoptAndSign(cfg *config.Config, file *config.GroupFile) (bool, error) {
	_, err := adopt(cfg, file, w.r.instances.TemplatesInUse())
	return true, err
}

// relock gives groups that are back in the configuration their static definition
// again, but for what the API has changed meanwhile.
func relock(cfg *config.Config, file *config.GroupFile) bool {
	changed := false
	for tenant, groups := range cfg.Groups {
		for key := range groups {
			entry, dynamic := file.Group(tenant, key)
			if !dynamic || entry.Unlocked == nil {
				continue
			}
			if entry, left := config.Relock(entry); left {
				file.Set(tenant, key, entry)
			} else {
				file.Remove(tenant, key)
			}
			changed = true
		}
	}
	return changed
}
