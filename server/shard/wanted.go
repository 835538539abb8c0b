package shard

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"nstance.dev/server/lease"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nstance.dev/server/bucket"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
)

// Static is a configuration as it was read.
type Static struct {
	Config   *config.Config
	ETag     string
	Modified time.Time
	Size     int
}

// wanted is what the groups of the shard should be: the configuration file and
// the group file, merged. It is the only writer of the group file.
type wanted struct {
	r       *Reign
	changes chan *groupChange

	mu         sync.RWMutex
	static     Static
	file       *config.GroupFile // shared: replaced, never changed
	etag       string            // empty: not stored
	text       []byte            // of the file as it is stored; nil: not known
	hold       *holding          // nil: the groups of the file are known
	rebuilt    int               // groups that wait to be confirmed
	effectives map[fleet.GroupID]*config.EffectiveGroup

	generation atomic.Uint64 // grows whenever all groups are merged anew
	previous   previousFile  // for the goroutine that writes the file
}

// edit changes the group file for one caller and says whether there is anything
// to write. It leaves the file alone if it returns false or an error, replaces
// entries rather than changing what they point to, and runs again if a write
// is lost.
type edit func(*config.Config, *config.GroupFile) (bool, error)

type groupChange struct {
	by   asker
	edit edit
	done chan error
}

// asker is who asks for a change of the group file. The zero value is the server
// itself, which no quota binds.
type asker struct {
	tenant string
	ends   bool // it asks for less: that may go a little beyond its quota of bytes
}

// room is how many bytes of the group file the asker may fill.
func (a asker) room(cfg *config.Config) int {
	room := cfg.GroupBytes(a.tenant)
	if a.ends {
		room += room / 8
	}
	return room
}

// groupChangesAtOnce bounds the changes that wait for a write.
const groupChangesAtOnce = 1024

func newWanted(r *Reign, static Static) *wanted {
	return &wanted{r: r, static: static, changes: make(chan *groupChange, groupChangesAtOnce)}
}

func (w *wanted) key() string { return bucket.GroupsKey(w.r.opts.Shard) }

// holding says why the groups that are not static are not known, and neither is what
// is paused.
type holding struct{ why string }

// load reads the group file at a take-over and writes it under the new term. A
// shard that has nothing yet gets an empty one; where it is missing later, or
// unreadable, it is rebuilt (F10, F11). One of a newer version is left alone, and
// the groups that are not static are held rather than taken as deleted.
func (w *wanted) load(ctx context.Context) error {
	obj, err := w.r.opts.Store.Get(ctx, w.key())
	if errors.Is(err, objectstore.ErrNotFound) {
		if err := w.rebuild(ctx, "the group file is missing"); err != nil {
			return err
		}
		return w.sign(ctx)
	}
	if err != nil {
		return err
	}
	file, err := config.DecodeGroups(w.key(), obj.Data)
	switch {
	case errors.Is(err, config.ErrNewer):
		w.keep(&holding{why: "the group file cannot be read and is left alone until somebody repairs it: " + err.Error()})
		return nil
	case err != nil:
		if err := w.setAside(ctx, obj, err); err != nil {
			return err
		}
	case uint64(file.Term) > w.r.term:
		return &lease.SupersededError{Document: w.key(), Term: uint64(file.Term)}
	default:
		w.set(file, obj.ETag, obj.Data)
	}
	return w.sign(ctx)
}

// sign writes the file under this term. One that would be too large to be read
// again is left as it is, and held: somebody has to shorten it.
func (w *wanted) sign(ctx context.Context) error {
	c := &groupChange{edit: w.adoptAndSign, done: make(chan error, 1)}
	w.mu.RLock()
	unlocked := leaving(w.static.Config, w.file)
	w.mu.RUnlock()
	err := w.commit(ctx, []*groupChange{c})
	if err == nil {
		err = <-c.done
	}
	if err == nil {
		w.r.tellUnlocked(unlocked)
	}
	if invalid := (*config.InvalidError)(nil); errors.Is(err, config.ErrTooLarge) || errors.As(err, &invalid) {
		w.keep(&holding{why: "the group file cannot be written by this server and is left alone until somebody repairs it: " + err.Error()})
		return nil
	}
	return err
}

// keep holds every group that is not static as it is.
func (w *wanted) keep(h *holding) {
	w.r.log.Error("dynamic groups are held", "reason", h.why)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold, w.file, w.etag, w.text = h, nil, "", nil
	w.merge()
}

// set takes the file over as it is stored.
func (w *wanted) set(file *config.GroupFile, etag string, text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.file, w.etag, w.text, w.hold = file, etag, text, nil
	w.merge()
}

// advance takes over a file that this leader made of the one in force. Groups
// whose entries are the same in both stay as they are: a change costs the same in
// a shard of many groups.
func (w *wanted) advance(file *config.GroupFile, etag string, text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.file, w.etag, w.text = file, etag, text
	w.effectives = maps.Clone(w.effectives) // others read the old one
	for _, key := range file.Changed() {
		id := fleet.GroupID{Tenant: key.Tenant, Name: key.Group}
		old := w.effectives[id]
		if g, ok := w.static.Config.Group(file, key); ok {
			w.effectives[id] = g
			w.note(id, old, g)
		} else if old != nil {
			delete(w.effectives, id)
			w.forget(id)
		}
		w.rebuilt += waits(w.effectives[id]) - waits(old)
	}
	w.alarm()
}

// waits is 1 for a group that waits to be confirmed.
func waits(g *config.EffectiveGroup) int {
	if g != nil && g.Rebuilt {
		return 1
	}
	return 0
}

// alarm raises or ends the alarm about groups that wait. The caller holds mu.
func (w *wanted) alarm() { w.r.opts.Metrics.groupsHeld(w.hold != nil || w.rebuilt > 0) }

// merge computes the effective groups anew, and returns those that watchers have not
// seen like this. The caller holds mu.
func (w *wanted) merge() (news []fleet.GroupID) {
	merged, _ := config.Effective(w.static.Config, w.file)
	w.generation.Add(1)
	before := w.effectives
	w.effectives = make(map[fleet.GroupID]*config.EffectiveGroup, len(merged))
	w.rebuilt = 0
	for key, g := range merged {
		id := fleet.GroupID{Tenant: key.Tenant, Name: key.Group}
		w.effectives[id] = g
		w.rebuilt += waits(g)
		w.note(id, before[id], g)
		if old := before[id]; old == nil || old.ETag != g.ETag || old.Size != g.Size || old.Deleted != g.Deleted || old.Static != g.Static || old.Held != g.Held || old.Rebuilt != g.Rebuilt {
			news = append(news, id)
		}
	}
	for id := range before {
		if w.effectives[id] == nil {
			w.forget(id)
			news = append(news, id)
		}
	}
	w.alarm()
	return news
}

// note shows a group that may have changed to those who look at the cache.
func (w *wanted) note(id fleet.GroupID, old, g *config.EffectiveGroup) {
	if g.Held != "" && (old == nil || old.Held != g.Held) {
		w.r.log.Warn("group is held", "tenant", id.Tenant, "group", id.Name, "reason", g.Held)
	}
	if old != nil && !slices.Equal(old.LoadBalancers, g.LoadBalancers) {
		w.r.touchGroup(id)
	}
	if old == nil || old.ETag != g.ETag || old.Size != g.Size || old.Deleted != g.Deleted || old.Held != g.Held {
		w.r.cache.PutGroup(groupRow(id, g, w.etag))
	}
	if old != nil && old.ETag != g.ETag {
		w.r.backoffs.reset(id) // what failed before may work now
		w.r.breakers.reset(id)
	}
	if old != nil && old.RuntimeHash != g.RuntimeHash {
		w.r.resupply(id)
	}
}

// forget drops what is kept of a group that is no more.
func (w *wanted) forget(id fleet.GroupID) {
	w.r.cache.DropGroup(id)
	w.r.opts.Metrics.groupGone(id)
	w.r.standings.drop(id)
	w.r.traces.settled(id)
}

// groupRow is a group as the cache keeps it.
func groupRow(id fleet.GroupID, g *config.EffectiveGroup, etag string) cache.Group {
	row := cache.Group{
		Group:    fleet.Group{ID: id, Size: g.Size, Deleted: g.Deleted, Held: g.Held, DrainTimeout: g.DrainTimeout, InfraHash: g.InfraHash},
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

func (w *wanted) config() *config.Config {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.static.Config
}

// effective returns what a group should be; false for one that does not exist,
// or of which nothing is known.
func (w *wanted) effective(id fleet.GroupID) (*config.EffectiveGroup, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	g, ok := w.effectives[id]
	return g, ok && g.Held == ""
}

// any returns what is known of a group that exists, be it held or deleted.
func (w *wanted) any(id fleet.GroupID) (*config.EffectiveGroup, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	g, ok := w.effectives[id]
	return g, ok
}

// files returns the two documents in force; the group file is nil while it is not known.
func (w *wanted) files() (*config.Config, *config.GroupFile) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.static.Config, w.file
}

// onDemand returns what an instance should be that a caller asks for.
func (w *wanted) onDemand(tenant, group string, req config.InstanceRequest) (*config.EffectiveGroup, error) {
	w.mu.RLock()
	cfg, file := w.static.Config, w.file
	w.mu.RUnlock()
	return config.CheckInstance(cfg, file, tenant, group, req)
}

// etagOf is the version of a group as the given files make it; "" for one that
// does not exist.
func etagOf(cfg *config.Config, file *config.GroupFile, id fleet.GroupID) string {
	if g, ok := cfg.Group(file, config.GroupKey{Tenant: id.Tenant, Group: id.Name}); ok {
		return g.ETag
	}
	return ""
}

// all yields every group, held and deleted ones included, in no order.
func (w *wanted) all() iter.Seq2[fleet.GroupID, *config.EffectiveGroup] {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return maps.All(w.effectives) // merge makes a new map, never changes one
}

// group is a group as decisions see it. One that stands nowhere is deleted,
// unless it may have stood in a group file that is missing. While the
// provider's listing is not to be believed every group is held.
func (w *wanted) group(id fleet.GroupID) fleet.Group {
	g := w.known(id)
	if alarm := w.r.collector.alarmed(); g.Held == "" && alarm != "" {
		g.Held, g.HeldBy = alarm, fleet.BlockerListing
	}
	return g
}

// known is a group as the files say.
func (w *wanted) known(id fleet.GroupID) fleet.Group {
	w.mu.RLock()
	defer w.mu.RUnlock()
	g, ok := w.effectives[id]
	switch {
	case ok:
		return fleet.Group{
			ID: id, Size: g.Size, Deleted: g.Deleted, Held: g.Held,
			DrainTimeout: g.DrainTimeout, InfraHash: g.InfraHash, Retired: retired(g.Dynamic, w.r.now()),
		}
	case w.hold != nil:
		return fleet.Group{ID: id, Held: w.hold.why}
	default:
		return fleet.Group{ID: id, Deleted: true, DrainTimeout: w.r.lastDrainTimeout(id, w.static.Config)}
	}
}

// change has an edit of the group file made durable and waits for it. Edits of
// many callers share one write; each gets its own answer.
func (w *wanted) change(ctx context.Context, by asker, edit edit) error {
	c := &groupChange{by: by, edit: edit, done: make(chan error, 1)}
	select {
	case w.changes <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.r.ctx.Done():
		return errReignOver
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.r.ctx.Done():
		return errReignOver
	}
}

// run writes the changes until ctx ends: all that wait go into one write.
func (w *wanted) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-w.changes:
			batch := []*groupChange{first}
			for len(w.changes) > 0 {
				batch = append(batch, <-w.changes)
			}
			w.r.stumble(w.commit(ctx, batch))
		}
	}
}

// GroupsETag is the version of the group file in force; empty while there is
// none that can be used.
func (r *Reign) GroupsETag() string {
	r.wanted.mu.RLock()
	defer r.wanted.mu.RUnlock()
	return r.wanted.etag
}
