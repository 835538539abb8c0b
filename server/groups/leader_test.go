package groups

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

const (
	testShard   = "s1"
	groupsKey   = "groups/" + testShard + ".jsonc"
	previousKey = "groups/" + testShard + ".previous.jsonc"
	damagedKey  = "groups/" + testShard + ".damaged.jsonc"
)

var (
	web    = fleet.GroupID{Tenant: "default", Name: "web"}
	other  = fleet.GroupID{Tenant: "default", Name: "other"}
	third  = fleet.GroupID{Tenant: "default", Name: "third"}
	fixed  = fleet.GroupID{Tenant: "default", Name: "fixed"}
	theirs = fleet.GroupID{Tenant: "b", Name: "web"}
)

// configured is a configuration of two tenants with the static groups and, in the server's
// part, what is given beside.
func configured(t testing.TB, groups, server string) *effective.Config {
	t.Helper()
	text := fmt.Sprintf(`{
		"server": {
			"cluster_id": "c1", "shard": %q, %s
			"provider": {"kind": "local", "zone": "z1"},
			"secrets": {"provider": "object-storage"},
			"subnet_pools": {"p": ["net-1"]}, "drain_timeout": "1m", "admin_tenants": ["default"],
		},
		"tenants": {"b": {}},
		"templates": {"plain": {
			"kind": "vmx", "arch": "amd64", "instance_type": "small", "subnet_pool": "p",
			"userdata": {"content": "{{ .Nonce }}"}, "tenants": ["default", "b"],
		}},
		"groups": %s,
	}`, testShard, server, groups)
	cfg, err := config.Load("test.jsonc", []byte(text), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// archive is the storage of a shard, with records that nothing happens to, and the leaders
// that take over one after the other.
type archive struct {
	t       testing.TB
	objects *memory.Store
	ids     identity.Generator
	records recorded
	rows    []cache.Instance
	cfg     *effective.Config
	term    uint64
}

// recorded are the records of a test, as an instances store has them.
type recorded map[identity.ID]layout.InstanceRecord

func (r recorded) Record(id identity.ID) (layout.InstanceRecord, bool) {
	rec, ok := r[id]
	return rec, ok
}

func (r recorded) TemplatesInUse() []groupfile.TemplateUse { return nil }

// inArchive runs a test on fake time, with a shard that has no group.
func inArchive(t *testing.T, test func(*testing.T, *archive)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &archive{t: t, objects: memory.New(memory.Options{}), records: recorded{}, cfg: configured(t, `{"default": {}}`, "")})
	})
}

// leader is the store of one leader, and its leadership.
type leader struct {
	*Store
	a    *archive
	ctx  context.Context
	end  context.CancelFunc
	log  *bytes.Buffer
	err  error // of Load
	over error // what ended its term

	under sync.WaitGroup

	mu      sync.Mutex
	changes []Change
}

// lead has the next leader take over and run; it ends with stop, or with the test.
func (a *archive) lead() *leader {
	a.t.Helper()
	l := a.begin()
	if l.err = l.Load(l.ctx); l.err != nil {
		a.t.Fatal(l.err)
	}
	l.under.Go(func() { l.Run(l.ctx) })
	return l
}

// begin makes the next leader, which knows nothing yet.
func (a *archive) begin() *leader {
	a.t.Helper()
	c, err := cache.Open(a.t.Context(), os.DevNull+"/none", cache.Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	for _, row := range a.rows {
		if err := c.Insert(row); err != nil {
			a.t.Fatal(err)
		}
	}
	a.term++
	l := &leader{a: a, log: &bytes.Buffer{}}
	ctx, cancel := context.WithCancel(a.t.Context())
	l.ctx = lease.Always(ctx, a.term)
	l.end = sync.OnceFunc(func() { cancel(); l.under.Wait(); _ = c.Close() })
	a.t.Cleanup(l.end)
	l.Store = New(Options{
		Objects: a.objects, Cache: c, Instances: a.records, Shard: testShard, Term: a.term,
		Writes: objectstore.RetryPolicy{Permit: lease.Check}, Now: time.Now, Log: slog.New(slog.NewTextHandler(l.log, nil)),
		Changed: func(c Change) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.changes = append(l.changes, c)
		},
		Over: func(err error) bool {
			if errors.Is(err, lease.ErrSuperseded) {
				l.over = err
				cancel()
			}
			return l.over != nil
		},
		Ended: ctx.Done(),
		Go:    func(do func(context.Context)) { l.under.Go(func() { do(l.ctx) }) },
	}, a.cfg)
	return l
}

// told takes what was told since the last time.
func (l *leader) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, c := range l.changes {
		all = append(all, fmt.Sprintf("%s %s", c.Group, map[Event]string{Updated: "updated", Removed: "removed", Unlocked: "unlocked"}[c.Event]))
	}
	l.changes = nil
	slices.Sort(all)
	return all
}

// scale sets the size of a dynamic group.
func (l *leader) scale(id fleet.GroupID, size int) {
	l.a.t.Helper()
	if err := l.tryScale(id, size); err != nil {
		l.a.t.Fatal(err)
	}
}

func (l *leader) tryScale(id fleet.GroupID, size int) error {
	return l.Upsert(l.ctx, id, requests.GroupChange{Template: "plain", Size: &size}, nil)
}

// sizes are those of all groups.
func (l *leader) sizes() map[fleet.GroupID]int {
	sizes := map[fleet.GroupID]int{}
	for id, g := range l.All() {
		sizes[id] = g.Size
	}
	return sizes
}

func (l *leader) wantSizes(want map[fleet.GroupID]int) {
	l.a.t.Helper()
	if got := l.sizes(); !maps.Equal(got, want) {
		l.a.t.Errorf("sizes %v, want %v", got, want)
	}
}

// together makes calls of which the second and all later ones wait in one write of
// the group file, in this order, while the first one's is under way. It returns
// their answers.
func (l *leader) together(calls ...func() error) []error {
	l.a.t.Helper()
	l.a.faults(memory.Fault{Latency: time.Second})
	answers := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { answers[i] = call() })
		synctest.Wait()
	}
	all.Wait()
	l.a.objects.SetFaults(nil)
	return answers
}

// faults has each write of the group file meet a fault, and counts these writes.
func (a *archive) faults(f memory.Fault) (count func() int) {
	n := 0
	a.objects.SetFaults(func(c memory.Call) memory.Fault {
		if c.Op != memory.OpPut || c.Key != groupsKey {
			return memory.Fault{}
		}
		n++
		return f
	})
	return func() int { return n }
}

// file is the group file as it is stored, as the next leader reads it.
func (a *archive) file() *groupfile.File {
	a.t.Helper()
	o, err := a.objects.Get(a.t.Context(), groupsKey)
	if err != nil {
		a.t.Fatal(err)
	}
	file, err := groupfile.Decode(groupsKey, o.Data)
	if err != nil {
		a.t.Fatal(err)
	}
	return file
}

// store writes a group file as somebody with access to the bucket would.
func (a *archive) store(file *groupfile.File) {
	a.t.Helper()
	data, err := groupfile.Encode(file)
	if err != nil {
		a.t.Fatal(err)
	}
	a.overwrite(groupsKey, string(data))
}

func (a *archive) overwrite(key, text string) {
	a.t.Helper()
	o, err := a.objects.Get(a.t.Context(), key)
	if err == nil {
		_, err = a.objects.PutIfMatch(a.t.Context(), key, []byte(text), o.ETag)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *archive) remove(key string) {
	a.t.Helper()
	o, err := a.objects.Get(a.t.Context(), key)
	if err == nil {
		err = a.objects.DeleteIfMatch(a.t.Context(), key, o.ETag)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// instance adds a running machine of a group, whose record keeps an entry of it.
func (a *archive) instance(id fleet.GroupID, entry string) cache.Instance {
	a.t.Helper()
	one, err := a.ids.NewID("vmx")
	if err != nil {
		a.t.Fatal(err)
	}
	row := cache.Instance{Instance: fleet.Instance{ID: one, Group: id, State: fleet.Running, Power: fleet.Up, Created: time.Now()}}
	row.Template, row.InstanceType, row.SubnetPool = "plain", "small", "p"
	a.rows = append(a.rows, row)
	a.records[one] = layout.InstanceRecord{ID: one, Tenant: id.Tenant, Group: id.Name, GroupEntry: []byte(entry)}
	return row
}

// pass lets time pass, and everything that it causes happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func refusedWith(err error, code refusal.Code) bool {
	var refused *refusal.Error
	return errors.As(err, &refused) && refused.Code == code
}
