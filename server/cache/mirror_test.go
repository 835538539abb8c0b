package cache_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
)

// model is what the cache should hold after the operations so far.
type model struct {
	t     *testing.T
	c     *cache.Cache
	ids   []identity.ID // all that were ever made
	rows  map[identity.ID]cache.Instance
	count map[identity.ID]int64
}

func (m *model) insert(rt *rapid.T) {
	in := instance(m.t, rapid.SampledFrom([]fleet.GroupID{web, batch}).Draw(rt, "group"))
	in.NonceSHA256 = "nonce-" + in.ID.String()
	if err := m.c.Insert(in); err != nil {
		rt.Fatal(err)
	}
	m.ids = append(m.ids, in.ID)
	m.rows[in.ID], _ = m.c.Instance(in.ID)
}

func (m *model) id(rt *rapid.T) identity.ID {
	if len(m.ids) == 0 {
		rt.Skip("no instance yet")
	}
	return rapid.SampledFrom(m.ids).Draw(rt, "id")
}

func (m *model) update(rt *rapid.T) {
	id := m.id(rt)
	state := rapid.SampledFrom(fleet.States()).Draw(rt, "state")
	vm := rapid.Bool().Draw(rt, "vm")
	in, err := m.c.Update(id, func(in *cache.Instance) error {
		in.State, in.ProviderID = state, ""
		if vm {
			in.ProviderID = "vm-" + id.String()
		}
		if state.Registered() {
			in.RegisteredAt = epoch
		}
		return nil
	})
	if _, known := m.rows[id]; known != (err == nil) {
		rt.Fatalf("update %s: %v", id, err)
	}
	if err == nil {
		m.rows[id] = in
	}
}

func (m *model) report(rt *rapid.T) {
	id := m.id(rt)
	n := rapid.Int64Range(0, 1000).Draw(rt, "count")
	if m.c.Report(id, cache.Health{Count: n}) {
		m.count[id] = n
	}
}

func (m *model) remove(rt *rapid.T) {
	id := m.id(rt)
	m.c.Remove(id)
	delete(m.rows, id)
	delete(m.count, id)
}

func (m *model) reset(*rapid.T) {
	m.c.Reset()
	clear(m.rows)
	clear(m.count)
}

// check compares every index with what follows from the rows.
func (m *model) check(rt *rapid.T) {
	groups := make(map[fleet.GroupID]int)
	for _, id := range m.ids {
		want, known := m.rows[id]
		got, ok := m.c.Instance(id)
		if ok != known || !cmp.Equal(got, want) {
			rt.Fatalf("instance %s, known %v: %s", id, known, cmp.Diff(want, got))
		}
		there := known && want.State != fleet.Deleted
		if there {
			groups[want.Group]++
		}
		if _, ok := m.c.ByNonce("nonce-" + id.String()); ok != (there && want.RegisteredAt.IsZero()) {
			rt.Fatalf("by nonce of %s: %v", id, ok)
		}
		if _, ok := m.c.ByProviderID("vm-" + id.String()); ok != (there && want.ProviderID != "") {
			rt.Fatalf("by provider id of %s: %v", id, ok)
		}
		if h, ok := m.c.Health(id); ok != known || h.Count != m.count[id] {
			rt.Fatalf("health of %s: %+v, %v", id, h, ok)
		}
	}
	for _, g := range []fleet.GroupID{web, batch} {
		if n := len(m.c.Group(g)); n != groups[g] || n != len(m.c.Tenant(g.Tenant)) {
			rt.Fatalf("group %s has %d instances, want %d", g, n, groups[g])
		}
	}
}

// checkFile compares the file with memory.
func (m *model) checkFile(rt *rapid.T, path string) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		rt.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT id, state, provider_id, i.revision, coalesce(h.count, 0) FROM instances i LEFT JOIN health h ON h.instance_id = i.id")
	if err != nil {
		rt.Fatal(err)
	}
	defer rows.Close()
	got, want := make(map[string]string), make(map[string]string)
	for rows.Next() {
		var id, state, vm string
		var revision, count int64
		if err := rows.Scan(&id, &state, &vm, &revision, &count); err != nil {
			rt.Fatal(err)
		}
		got[id] = fmt.Sprint(state, vm, revision, count)
	}
	for id, in := range m.rows {
		want[id.String()] = fmt.Sprint(in.State, in.ProviderID, int64(in.Revision), m.count[id])
	}
	if diff := cmp.Diff(want, got); rows.Err() != nil || diff != "" {
		rt.Fatalf("the file differs from memory (error %v): %s", rows.Err(), diff)
	}
}

func TestS16_TheFileEqualsMemoryAfterFlush(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	c := openAt(t, path)
	rapid.Check(t, func(rt *rapid.T) {
		c.Reset()
		m := &model{t: t, c: c, rows: make(map[identity.ID]cache.Instance), count: make(map[identity.ID]int64)}
		rt.Repeat(map[string]func(*rapid.T){
			"insert": m.insert, "update": m.update, "report": m.report, "remove": m.remove, "reset": m.reset,
			"": m.check,
		})
		if err := c.Flush(t.Context()); err != nil {
			rt.Fatal(err)
		}
		m.checkFile(rt, path)
	})
}

func TestTheNewestReportWins(t *testing.T) {
	c, path := openNew(t)
	in := instance(t, web)
	must(t, c.Insert(in))
	for i := range 100_000 {
		c.Report(in.ID, cache.Health{Count: int64(i)})
	}
	must(t, c.Flush(t.Context()))
	if n := query[int64](t, path, "SELECT count FROM health"); n != 99_999 {
		t.Fatalf("count %d in the file, want the newest", n)
	}
}
