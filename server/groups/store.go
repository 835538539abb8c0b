package groups

import (
	"context"
	"encoding/json"
	"iter"
	"maps"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
)

// Store keeps what the groups of a shard should be. It is safe for concurrent use.
type Store struct {
	opts   Options
	writer *writer
	room   room
}

// New returns a store that has the configuration in force, and knows of no group until
// [Store.Load].
func New(opts Options, cfg *effective.Config) *Store {
	now := &inForce{opts: opts}
	now.state.Store(&state{cfg: cfg})
	return &Store{opts: opts, writer: &writer{
		opts: opts, inForce: now, edits: make(chan *request, editsAtOnce), previous: previous{opts: opts}, records: records{opts},
	}}
}

// Load reads the group file at a take-over and writes it under the term, once the records of
// the instances are known. After an error it can be called again; it must not be once Run has
// begun.
func (s *Store) Load(ctx context.Context) error { return s.writer.load(ctx) }

// Reload is Load with another configuration, before anything is decided.
func (s *Store) Reload(ctx context.Context, cfg *effective.Config) error {
	return s.writer.reload(ctx, cfg)
}

// Run writes the edits until ctx ends: all that wait go into one write.
func (s *Store) Run(ctx context.Context) { s.writer.run(ctx) }

// now is what is in force.
func (s *Store) now() *state { return s.writer.inForce.state.Load() }

// Apply puts another configuration in force: first what it asks of the group file is made
// durable, then every group is merged again. It returns the groups that are not what they
// were. After an error the old configuration stays.
func (s *Store) Apply(ctx context.Context, cfg *effective.Config) ([]fleet.GroupID, error) {
	st := s.now()
	unlocked := leaving(cfg, st.file)
	if st.blocked == "" {
		err := s.writer.change(ctx, asker{}, func(_ *effective.Config, file *groupfile.File) (bool, error) {
			return adopt(cfg, file, s.opts.Instances.TemplatesInUse(), s.writer.records.size), nil
		})
		if err != nil {
			return nil, err
		}
	}
	changes := s.writer.inForce.replace(func(st *state) { st.cfg = cfg })
	s.writer.inForce.tell(changes)
	s.writer.inForce.tellUnlocked(unlocked)
	ids := make([]fleet.GroupID, len(changes))
	for i, c := range changes {
		ids[i] = c.Group
	}
	return ids, nil
}

// Preview is what the groups are, and what a configuration would make of them, adopted into
// the group file as [Store.Apply] does it. It changes nothing.
func (s *Store) Preview(cfg *effective.Config) (before, after map[fleet.GroupID]*effective.Group) {
	st := s.now()
	file := st.file
	if file != nil {
		file = file.Clone()
		adopt(cfg, file, nil, s.writer.records.size)
	}
	merged, _ := effective.Groups(cfg, file)
	after = make(map[fleet.GroupID]*effective.Group, len(merged))
	for key, g := range merged {
		after[groupID(key)] = g
	}
	return st.groups, after
}

// Config is the configuration in force.
func (s *Store) Config() *effective.Config { return s.now().cfg }

// ETag is the version of the group file in force; empty while there is none that can be used.
func (s *Store) ETag() string { return s.now().etag }

// Waiting reports whether groups wait for somebody: the group file is not known, or groups
// that were rebuilt have to be confirmed.
func (s *Store) Waiting() bool { return s.writer.inForce.waiting.Load() }

// Generation grows whenever all groups are merged again: for another configuration, or for
// a file that was read.
func (s *Store) Generation() uint64 { return s.now().generation }

// Effective returns what a group should be; false for one that does not exist,
// or of which nothing is known.
func (s *Store) Effective(id fleet.GroupID) (*effective.Group, bool) {
	g, ok := s.now().groups[id]
	return g, ok && g.Blocked == ""
}

// Find returns what is known of a group that exists, be it blocked or deleted.
func (s *Store) Find(id fleet.GroupID) (*effective.Group, bool) {
	g, ok := s.now().groups[id]
	return g, ok
}

// All yields every group, blocked and deleted ones included, in no order.
func (s *Store) All() iter.Seq2[fleet.GroupID, *effective.Group] {
	return maps.All(s.now().groups)
}

// Group is a group as decisions see it. One that stands nowhere is deleted,
// unless it may have stood in a group file that is not known.
func (s *Store) Group(id fleet.GroupID) fleet.Group {
	st := s.now()
	g, ok := st.groups[id]
	switch {
	case ok:
		return fleet.Group{
			ID: id, Size: g.Size, Demand: g.Demand != nil, Deleted: g.Deleted, Blocked: g.Blocked,
			DrainTimeout: g.DrainTimeout, InfraHash: g.InfraHash, Retired: retired(g.Dynamic, s.opts.Now()),
		}
	case st.blocked != "":
		return fleet.Group{ID: id, Blocked: st.blocked}
	default:
		return fleet.Group{ID: id, Deleted: true, DrainTimeout: s.writer.records.drainTimeout(id, st.cfg)}
	}
}

// Unlocked reports whether a group was static and has left the configuration.
func (s *Store) Unlocked(id fleet.GroupID) bool {
	g, ok := s.Find(id)
	return ok && !g.Static && g.Dynamic != nil && g.Dynamic.Unlocked != nil
}

// OnDemand returns what an instance should be that a manager asks for, with the request over
// what the group says.
func (s *Store) OnDemand(id fleet.GroupID, request effective.InstanceRequest, by Manager) (*effective.Group, error) {
	st := s.now()
	g, err := requests.CheckInstance(st.cfg, st.file, id.Tenant, id.Name, request)
	if err != nil {
		return nil, refused(err)
	}
	if g.Dynamic != nil && by.other(g.Dynamic.Manager) {
		return nil, refused(&requests.ManagedByOtherError{Manager: g.Dynamic.Manager})
	}
	return g, nil
}

// Definition is what the files of an instance come from: its group as it is, or, where the
// group's template is gone, as the group file remembers it. An instance on demand that has
// outlived its group has the entry in its record. False: nobody knows, or the entry was
// rebuilt and may be an old one.
func (s *Store) Definition(id fleet.GroupID, rec layout.InstanceRecord) (effective.Definition, bool) {
	st := s.now()
	g, file := st.groups[id], st.file
	var request *effective.InstanceRequest
	if rec.OnDemand {
		request = new(effective.InstanceRequest)
		if len(rec.Overrides) > 0 && json.Unmarshal(rec.Overrides, request) != nil {
			return effective.Definition{}, false
		}
	}
	switch {
	case g != nil && g.Rebuilt, g == nil && st.blocked != "":
		return effective.Definition{}, false
	case g != nil && g.Blocked == "" && request == nil:
		return effective.Definition{Group: g, Certificates: st.cfg.Certificates}, true
	case g == nil:
		entry := s.writer.records.keptEntry(rec.ID)
		if entry == nil {
			return effective.Definition{}, false
		}
		alone := &groupfile.File{}
		if file != nil {
			alone.Templates = file.Templates
		}
		alone.Set(id.Tenant, id.Name, *entry)
		file = alone
	}
	return st.cfg.Definition(file, keyOf(id), request)
}

// EntryToKeep is what the record of a new instance keeps of the entry of its group; nil where
// there is none, and where it is too much.
func (s *Store) EntryToKeep(g *effective.Group, onDemand bool) json.RawMessage {
	return entryToKeep(g, s.Config(), onDemand)
}

// ReserveInstance takes room in the tenant's quota for an on-demand instance, until release is
// called: when the instance has a row, or will have none.
func (s *Store) ReserveInstance(tenant string, id identity.ID) (release func(), err error) {
	if err := s.room.reserve(s.opts.Cache, s.now, tenant, id); err != nil {
		return nil, refused(err)
	}
	return func() { s.room.leave(tenant, id) }, nil
}
