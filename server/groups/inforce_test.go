package groups

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// TestS15_InForceIsWhatIsStored: whatever is asked, and however storage behaves, each leader goes
// by what the next one would read, and has told of everything that became of a group.
func TestS15_InForceIsWhatIsStored(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inArchive(t, func(t *testing.T, a *archive) {
				dice := rand.New(rand.NewPCG(seed, 0))
				configs := []*effective.Config{
					a.cfg,
					configured(t, `{"default": {"web": {"template": "plain", "size": 2, "vars": {"a": "1"}}}}`, ""),
					configured(t, `{"default": {"web": {"template": "plain", "size": 3}, "other": {"template": "plain"}}}`, `"default_quota": {"groups": 2},`),
				}
				var mu sync.Mutex // copies of the file are written beside it
				troubles := rand.New(rand.NewPCG(seed, 1))
				l := a.lead()
				for range 40 {
					a.objects.SetFaults(func(c memory.Call) memory.Fault {
						mu.Lock()
						defer mu.Unlock()
						switch n := troubles.IntN(20); {
						case c.Op != memory.OpPut || n > 1:
							return memory.Fault{}
						case n == 0:
							return memory.Fault{Before: objectstore.ErrUnavailable}
						default:
							return memory.Fault{After: objectstore.ErrUnavailable}
						}
					})
					l = a.random(l, dice, configs)
					a.objects.SetFaults(nil)
					l.wantStored()
				}
			})
		})
	}
}

// random does one thing with the groups of a shard, and returns who leads then.
func (a *archive) random(l *leader, dice *rand.Rand, configs []*effective.Config) *leader {
	id := []fleet.GroupID{web, other, third, theirs}[dice.IntN(4)]
	switch dice.IntN(8) {
	case 0, 1, 2: // refused now and then
		_ = l.tryScale(id, dice.IntN(3))
	case 3:
		_ = l.Delete(l.ctx, id, Manager{})
	case 4:
		_ = l.Forget(l.ctx, id)
	case 5:
		_, _ = l.SetPause(l.ctx, id.Tenant, groupfile.Pause{
			Scope: groupfile.PauseTenant, Tenant: id.Tenant, Reason: "r", Until: &document.Time{Time: time.Now().Add(time.Second)},
		})
	case 6:
		if cfg := configs[dice.IntN(len(configs))]; len(a.apply(l, cfg)) == 0 {
			pass(time.Second)
		}
	case 7:
		l.end()
		a.objects.SetFaults(nil)
		l = a.lead()
	}
	return l
}

// apply puts a configuration in force, and keeps it for the next leader.
func (a *archive) apply(l *leader, cfg *effective.Config) []fleet.GroupID {
	changed, err := l.Apply(l.ctx, cfg)
	if err == nil {
		a.cfg = cfg
	}
	return changed
}

// wantStored compares what is in force with what stands in storage, and with what was told.
func (l *leader) wantStored() {
	l.a.t.Helper()
	stored, _ := effective.Groups(l.Config(), l.a.file())
	if len(stored) != len(l.sizes()) {
		l.a.t.Errorf("%d groups are in force, and %d stored", len(l.sizes()), len(stored))
	}
	for key, want := range stored {
		if g, ok := l.Find(groupID(key)); !ok || g.ETag != want.ETag || g.Blocked != want.Blocked || g.Rebuilt != want.Rebuilt {
			l.a.t.Errorf("%s: what is in force is not what is stored", key)
		}
		row, ok := l.opts.Cache.GroupRow(groupID(key))
		if !ok || row.Size != want.Size || row.Deleted != want.Deleted || row.Static != want.Static {
			l.a.t.Errorf("%s: its row is not what is stored", key)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last := map[fleet.GroupID]*effective.Group{}
	for _, c := range l.changes {
		if c.Event == Unlocked {
			continue
		}
		if was := last[c.Group]; (was == nil) != (c.Before == nil) || was != nil && was.ETag != c.Before.ETag {
			l.a.t.Errorf("told of %s that it was another than had been told: %v", c.Group, c.Event)
		}
		if last[c.Group] = c.After; c.After == nil {
			delete(last, c.Group)
		}
	}
	if len(last) != len(stored) {
		l.a.t.Errorf("told of %d groups, and %d are stored", len(last), len(stored))
	}
}
