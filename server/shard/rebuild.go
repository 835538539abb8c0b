package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"nstance.dev/server/lease"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// rebuiltGroup says why nothing is done in a group whose entry was rebuilt.
const rebuiltGroup = "its entry was rebuilt after the group file was lost; it goes on when its tenant changes the group, or it is confirmed (nstance-admin group confirm)"

// rebuild puts a group file in force that is made from the last readable copy and
// the records, in place of one that is gone or could not be read. Each group then
// waits for its own tenant, or an administrator, to confirm it. A shard that has
// neither records nor a copy never had groups.
func (w *wanted) rebuild(ctx context.Context, why string) error {
	last, err := w.lastReadable(ctx)
	if err != nil {
		return err
	}
	recorded := w.r.recordedGroups()
	if last == nil && len(recorded) == 0 {
		w.set(&config.GroupFile{}, "", nil)
		return nil
	}
	file := config.Rebuild(w.config(), last, recorded, w.r.now())
	w.r.log.ErrorContext(ctx, "group file rebuilt, its groups wait to be confirmed", "reason", why,
		"from_records", len(recorded), "from_copy", last != nil)
	w.set(file, "", nil)
	return nil
}

// setAside keeps a group file that can't be read under another key, so that the
// rebuilt one can take its place.
func (w *wanted) setAside(ctx context.Context, obj objectstore.Object, cause error) error {
	key := bucket.DamagedGroupsKey(w.r.opts.Shard)
	old, err := w.r.opts.Store.Get(ctx, key)
	if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	if err != nil || !bytes.Equal(old.Data, obj.Data) {
		if _, err := objectstore.Put(ctx, w.r.opts.Store, key, obj.Data, old.ETag, groupWrites(w.r.opts.Jitter)); err != nil {
			return fmt.Errorf("keep the damaged group file: %w", err)
		}
	}
	if err := w.rebuild(ctx, fmt.Sprintf("the group file cannot be read, it is kept as %s: %v", key, cause)); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.etag = obj.ETag
	return nil
}

// lastReadable is the copy of the group file that was kept last; nil without one.
func (w *wanted) lastReadable(ctx context.Context) (*config.GroupFile, error) {
	key := bucket.PreviousGroupsKey(w.r.opts.Shard)
	obj, err := w.r.opts.Store.Get(ctx, key)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	file, err := config.DecodeGroups(key, obj.Data)
	if err != nil {
		w.r.log.ErrorContext(ctx, "copy of the group file cannot be read", "error", err)
		return nil, nil // the records serve without it
	}
	if uint64(file.Term) > w.r.term {
		return nil, &lease.SupersededError{Document: key, Term: uint64(file.Term)}
	}
	return file, nil
}

// recordedGroups is what the records say of the groups that have instances.
func (r *Reign) recordedGroups() map[config.GroupKey]config.Recorded {
	groups := map[config.GroupKey]config.Recorded{}
	newest := map[config.GroupKey]identity.ID{}
	for _, in := range r.cache.All() {
		if in.State == fleet.Deleted {
			continue
		}
		key := config.GroupKey{Tenant: in.Group.Tenant, Group: in.Group.Name}
		rec := groups[key]
		if keepsPlace(in) {
			rec.Size++
		}
		// Instances on demand may be made from another template: they count where
		// there are no others.
		if old, known := newest[key]; !known || !in.OnDemand && (r.onDemand(old) || in.ID > old) {
			newest[key] = in.ID
			rec.Template, rec.InstanceType, rec.SubnetPool, rec.InfraHash = in.Template, in.InstanceType, in.SubnetPool, in.InfraHash
			if _, static := r.wanted.config().Groups[key.Tenant][key.Group]; !static || !in.OnDemand {
				rec.Entry = r.keptEntry(in.ID) // that of one on demand has the definition of then
			}
		}
		groups[key] = rec
	}
	return groups
}

// keepsPlace reports whether an instance counts for the size of its group: whoever
// is to live, or to be replaced.
func keepsPlace(in cache.Instance) bool {
	return !in.OnDemand && in.Replacement == "" && !placeGone(in)
}

func (r *Reign) onDemand(id identity.ID) bool {
	in, ok := r.cache.Instance(id)
	return ok && in.OnDemand
}

// maxKeptEntry is how large a group's entry may be, in JSON, to be kept with each of
// its instances.
const maxKeptEntry = 8 << 10

// entryToKeep is what a record keeps of the entry of its group; nil where there is
// none, and where it is too much. An instance on demand may outlive its group: its
// record has the definition of a static one, too.
func entryToKeep(eff *config.EffectiveGroup, cfg *config.Config, onDemand bool) json.RawMessage {
	var entry config.DynamicGroup
	if eff.Dynamic != nil {
		entry = *eff.Dynamic
	}
	if static, ok := cfg.Groups[eff.Tenant][eff.Key]; ok && onDemand {
		entry = config.Unlock(entry.Origin(), static)
	}
	if entry = entry.Origin(); entry.Equal(config.DynamicGroup{}) {
		return nil
	}
	data, err := json.Marshal(entry)
	if err != nil || len(data) > maxKeptEntry {
		return nil
	}
	return data
}

// keptEntry is the entry of its group that a record keeps; nil if it has none.
func (r *Reign) keptEntry(id identity.ID) *config.DynamicGroup {
	rec, ok := r.instances.Record(id)
	if !ok || len(rec.GroupEntry) == 0 {
		return nil
	}
	entry := new(config.DynamicGroup)
	if err := json.Unmarshal(rec.GroupEntry, entry); err != nil {
		r.log.Warn("group entry in a record cannot be read", "instance", id, "error", err)
		return nil
	}
	return entry
}

// previousEvery is the least time between two copies of the group file.
const previousEvery = time.Minute

// previousFile is what the leader knows of the last readable copy.
type previousFile struct {
	kept    time.Time     // when the last copy was begun
	writing chan struct{} // closed when it is done; nil: none was begun
	etag    string        // of the copy; for the one who writes it
	known   bool          // whether etag is
}

// keepPrevious copies the group file as it was before a change, once a minute at
// most. Nobody waits for it.
func (w *wanted) keepPrevious(text []byte) {
	p, now := &w.previous, w.r.now()
	if text == nil || !p.kept.IsZero() && now.Sub(p.kept) < previousEvery {
		return
	}
	if p.writing != nil {
		select {
		case <-p.writing:
		default:
			return // a slow store: the next change is in time
		}
	}
	done := make(chan struct{})
	p.kept, p.writing = now, done
	w.r.tasks.Go(func() {
		defer close(done)
		if err := p.write(w.r.ctx, w.r, text); err != nil && w.r.ctx.Err() == nil {
			p.known = false
			w.r.stumble(err)
			w.r.log.Warn("copy of the group file not kept", "error", err)
		}
	})
}

func (p *previousFile) write(ctx context.Context, r *Reign, text []byte) error {
	key := bucket.PreviousGroupsKey(r.opts.Shard)
	if !p.known {
		old, err := r.opts.Store.Get(ctx, key)
		if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
			return err
		}
		p.etag, p.known = old.ETag, true
	}
	etag, err := objectstore.Put(ctx, r.opts.Store, key, text, p.etag, underLease(r.opts.Jitter))
	p.etag = etag
	return err
}

// ConfirmGroups lets groups of a tenant go on that were rebuilt after the group file
// was lost, all that wait if no keys are given, and returns which these were. Whether
// the caller may speak for the tenant is for the caller of this method to find out.
func (r *Reign) ConfirmGroups(ctx context.Context, tenant string, keys []string) ([]string, error) {
	for _, key := range keys {
		if err := identity.ValidateName(key); err != nil {
			return nil, refusal.New(refusal.InvalidArgument, "INVALID_KEY", "keys: %v", err)
		}
		if _, ok := r.wanted.any(fleet.GroupID{Tenant: tenant, Name: key}); !ok {
			return nil, errUnknown("group", key)
		}
	}
	var confirmed []string
	err := r.wanted.change(ctx, asker{tenant: tenant, ends: true}, func(_ *config.Config, file *config.GroupFile) (bool, error) {
		confirmed = nil
		for key, entry := range file.Groups[tenant] {
			if entry.Rebuilt != nil && (len(keys) == 0 || slices.Contains(keys, key)) {
				confirmed = append(confirmed, key)
			}
		}
		slices.Sort(confirmed)
		for _, key := range confirmed {
			file.Confirm(tenant, key)
		}
		return len(confirmed) > 0, nil
	})
	if err != nil {
		return nil, groupRefusal(err)
	}
	for _, key := range confirmed {
		id := fleet.GroupID{Tenant: tenant, Name: key}
		r.log.InfoContext(ctx, "rebuilt group confirmed", "tenant", tenant, "group", key)
		r.Enqueue(id)
		r.publishGroup(id)
	}
	return confirmed, nil
}
