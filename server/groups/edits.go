package groups

import (
	"context"
	"slices"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// Manager is who asks for a change of a group. The zero Manager is nobody's.
type Manager struct {
	Name     string
	Takeover bool // it takes the group from another manager
}

// other reports whether somebody else manages a group, and the manager does not take it over.
func (m Manager) other(of string) bool {
	return of != "" && m.Name != "" && of != m.Name && !m.Takeover
}

// Upsert creates a group, or changes what the API has set for it. With a version the group
// must be the one that has it. A change that changes nothing writes nothing.
func (s *Store) Upsert(ctx context.Context, id fleet.GroupID, change requests.GroupChange, version *string) error {
	grows := &growth{tenant: id.Tenant}
	r := &request{by: asker{tenant: id.Tenant}, done: make(chan error, 1), release: func() { s.room.grown(grows) }}
	r.edit = func(cfg *effective.Config, file *groupfile.File) (bool, error) {
		if version != nil && etagOf(cfg, file, id) != *version {
			return false, errChanged(id)
		}
		entry, err := requests.CheckUpsert(cfg, file, id.Tenant, id.Name, s.keeping(file, id, change))
		if err != nil {
			return false, err
		}
		if old, ok := file.Group(id.Tenant, id.Name); ok && old.Equal(entry) {
			return false, nil
		}
		if err := s.room.grow(s.opts.Cache, cfg, file, id, entry, grows); err != nil {
			return false, err
		}
		file.Set(id.Tenant, id.Name, entry)
		return true, nil
	}
	return refused(s.writer.submit(ctx, r))
}

// Checked is what a change that is valid would do.
type Checked struct {
	Changes bool // it would write something
	Creates bool // it would make the group
}

// Check says what [Store.Upsert] would do, or why it would refuse, and changes nothing.
func (s *Store) Check(id fleet.GroupID, change requests.GroupChange, version *string) (Checked, error) {
	st := s.now()
	if st.file == nil {
		return Checked{}, errUnreadable
	}
	if version != nil && etagOf(st.cfg, st.file, id) != *version {
		return Checked{}, errChanged(id)
	}
	entry, err := requests.CheckUpsert(st.cfg, st.file, id.Tenant, id.Name, s.keeping(st.file, id, change))
	if err != nil {
		return Checked{}, refused(err)
	}
	if err := s.room.fits(s.opts.Cache, st.cfg, st.file, id, entry); err != nil {
		return Checked{}, refused(err)
	}
	old, known := st.file.Group(id.Tenant, id.Name)
	_, static := st.cfg.Groups[id.Tenant][id.Name]
	return Checked{Changes: !known || !old.Equal(entry), Creates: !static && (!known || old.DeletedAt != nil)}, nil
}

func errChanged(id fleet.GroupID) *refusal.Error {
	return refusal.New(refusal.Aborted, "ETAG_MISMATCH", "group %q has changed since it was read", id.Name)
}

// keeping gives a change that makes a group of mode demand one of fixed size, without a size, that of as many
// machines as there are.
func (s *Store) keeping(file *groupfile.File, id fleet.GroupID, change requests.GroupChange) requests.GroupChange {
	entry, dynamic := file.Group(id.Tenant, id.Name)
	if dynamic && entry.Mode == document.ModeDemand && change.Mode == document.ModeFixed && change.Size == nil {
		size := s.writer.records.size(id)
		change.Size = &size
	}
	return change
}

// etagOf is the version of a group as the given files make it; "" for one that
// does not exist.
func etagOf(cfg *effective.Config, file *groupfile.File, id fleet.GroupID) string {
	if g, ok := cfg.Group(file, keyOf(id)); ok {
		return g.ETag
	}
	return ""
}

// Delete has a dynamic group emptied, and then forgotten by [Store.Forget]; of a static one it
// removes what the API has set. A group that does not exist is no error.
func (s *Store) Delete(ctx context.Context, id fleet.GroupID, by Manager) error {
	now := s.opts.Now()
	return refused(s.writer.change(ctx, asker{tenant: id.Tenant, ends: true}, func(cfg *effective.Config, file *groupfile.File) (bool, error) {
		entry, ok := file.Group(id.Tenant, id.Name)
		if !ok || entry.DeletedAt != nil {
			return false, nil
		}
		if by.other(entry.Manager) {
			return false, &requests.ManagedByOtherError{Manager: entry.Manager}
		}
		if _, static := cfg.Groups[id.Tenant][id.Name]; static {
			file.Remove(id.Tenant, id.Name)
			return true, nil
		}
		entry.DeletedAt, entry.Rebuilt = &document.Time{Time: now}, nil
		file.Set(id.Tenant, id.Name, entry)
		return true, nil
	}))
}

// Forget ends a deleted group, once its last managed instance is gone. One that was brought
// back meanwhile stays.
func (s *Store) Forget(ctx context.Context, id fleet.GroupID) error {
	return s.writer.change(ctx, asker{}, func(_ *effective.Config, file *groupfile.File) (bool, error) {
		entry, ok := file.Group(id.Tenant, id.Name)
		if !ok || entry.DeletedAt == nil {
			return false, nil // somebody brought it back
		}
		file.Remove(id.Tenant, id.Name)
		file.ClearPause(groupfile.Pause{Scope: groupfile.PauseGroup, Tenant: id.Tenant, Group: id.Name}, s.opts.Now())
		return true, nil
	})
}

// Confirm lets groups of a tenant go on that were rebuilt after the group file was lost, all
// that wait if no keys are given, and returns which these were, in order.
func (s *Store) Confirm(ctx context.Context, tenant string, keys []string) ([]string, error) {
	for _, key := range keys {
		if _, ok := s.Find(fleet.GroupID{Tenant: tenant, Name: key}); !ok {
			return nil, errUnknown(key)
		}
	}
	var confirmed []string
	err := s.writer.change(ctx, asker{tenant: tenant, ends: true}, func(_ *effective.Config, file *groupfile.File) (bool, error) {
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
		return nil, refused(err)
	}
	for _, key := range confirmed {
		s.opts.Log.InfoContext(ctx, "rebuilt group confirmed", "tenant", tenant, "group", key)
	}
	return confirmed, nil
}
