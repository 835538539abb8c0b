package groups

import (
	"encoding/json"
	"maps"
	"sync"
	"sync/atomic"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
)

// inForce is what is in force, and who is told of it. It is safe for concurrent use.
type inForce struct {
	opts Options

	mu      sync.Mutex // held while what is in force is replaced, and its rows with it
	state   atomic.Pointer[state]
	waiting atomic.Bool // see [Store.Waiting]
}

// replace puts in force what change makes of the present state, all groups merged again, and
// returns what became of them.
func (f *inForce) replace(change func(*state)) []Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := *f.state.Load()
	before := next.groups
	change(&next)
	merged, _ := effective.Groups(next.cfg, next.file)
	next.generation++
	next.groups = make(map[fleet.GroupID]*effective.Group, len(merged))
	for key, g := range merged {
		next.groups[groupID(key)] = g
	}
	var changes []Change
	for id, g := range next.groups {
		changes = f.note(changes, id, before[id], g, next.etag)
	}
	for id, old := range before {
		if next.groups[id] == nil {
			changes = f.note(changes, id, old, nil, next.etag)
		}
	}
	next.rebuilt = 0
	for _, g := range next.groups {
		next.rebuilt += waits(g)
	}
	f.enforce(&next)
	return changes
}

// advance puts a file in force that this leader made of the one before, and returns what
// became of its groups. Those whose entries are the same in both stay as they are: an edit
// costs the same in a shard of many groups.
func (f *inForce) advance(file *groupfile.File, etag string, text []byte) []Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := *f.state.Load()
	next.file, next.etag, next.text, next.read = file, etag, text, true
	next.groups = maps.Clone(next.groups) // others read the old one
	var changes []Change
	for _, key := range file.Changed() {
		id := groupID(key)
		old := next.groups[id]
		g, ok := next.cfg.Group(file, key)
		if ok {
			next.groups[id] = g
		} else {
			delete(next.groups, id)
		}
		next.rebuilt += waits(g) - waits(old)
		changes = f.note(changes, id, old, g, etag)
	}
	f.enforce(&next)
	return changes
}

// enforce puts a state in force. The caller holds mu.
func (f *inForce) enforce(next *state) {
	f.waiting.Store(next.blocked != "" || next.rebuilt > 0)
	f.state.Store(next)
}

// note brings the row of a group up to what it should be, and adds what became of it to the
// changes. The caller holds mu.
func (f *inForce) note(changes []Change, id fleet.GroupID, before, after *effective.Group, etag string) []Change {
	c := Change{Event: Updated, Group: id, Before: before, After: after}
	switch {
	case before == nil && after == nil, before != nil && after != nil && same(before, after):
		return changes
	case after == nil:
		c.Event = Removed
		f.opts.Cache.DropGroup(id)
	default:
		f.opts.Cache.PutGroup(groupRow(id, after, etag))
	}
	return append(changes, c)
}

// same reports whether nothing has become of a group that anybody sees or acts on.
func same(a, b *effective.Group) bool {
	return a.ETag == b.ETag && a.Size == b.Size && a.Deleted == b.Deleted && a.Static == b.Static &&
		a.Blocked == b.Blocked && a.Rebuilt == b.Rebuilt
}

// tell says what became of groups. Nothing is locked.
func (f *inForce) tell(changes []Change) {
	for _, c := range changes {
		if g := c.After; g != nil && g.Blocked != "" && (c.Before == nil || c.Before.Blocked != g.Blocked) {
			f.opts.Log.Warn("group is blocked", "tenant", c.Group.Tenant, "group", c.Group.Name, "reason", g.Blocked)
		}
		f.opts.Changed(c)
	}
}

// tellUnlocked says that groups have left the configuration.
func (f *inForce) tellUnlocked(ids []fleet.GroupID) {
	for _, id := range ids {
		f.opts.Log.Warn("static group left the configuration and became dynamic", "tenant", id.Tenant, "group", id.Name)
		g := f.state.Load().groups[id]
		f.opts.Changed(Change{Event: Unlocked, Group: id, Before: g, After: g})
	}
}

// waits is 1 for a group that waits to be confirmed.
func waits(g *effective.Group) int {
	if g != nil && g.Rebuilt {
		return 1
	}
	return 0
}

// groupRow is a group as the cache keeps it.
func groupRow(id fleet.GroupID, g *effective.Group, etag string) cache.Group {
	row := cache.Group{
		Group:    fleet.Group{ID: id, Size: g.Size, Demand: g.Demand != nil, Deleted: g.Deleted, Blocked: g.Blocked, DrainTimeout: g.DrainTimeout, InfraHash: g.InfraHash},
		Template: g.Template, Static: g.Static, SubnetPool: g.SubnetPool,
		RuntimeHash: g.RuntimeHash, ETag: etag,
	}
	if len(g.InstanceTypes) > 0 {
		row.InstanceType = g.InstanceTypes[0]
	}
	if merged, err := json.Marshal(map[string]any{"args": g.Args, "vars": g.Vars}); err == nil {
		row.Config = merged
	}
	return row
}

func groupID(key document.GroupKey) fleet.GroupID {
	return fleet.GroupID{Tenant: key.Tenant, Name: key.Group}
}

func keyOf(id fleet.GroupID) document.GroupKey {
	return document.GroupKey{Tenant: id.Tenant, Group: id.Name}
}
