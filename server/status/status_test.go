package status

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/catalog"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/driver"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

var (
	web    = fleet.GroupID{Tenant: "default", Name: "web"}
	db     = fleet.GroupID{Tenant: "default", Name: "db"}
	theirs = fleet.GroupID{Tenant: "b", Name: "web"}
)

// wanted are groups that a test has made up.
type wanted struct {
	config *effective.Config
	groups map[fleet.GroupID]*effective.Group
	paused map[fleet.GroupID]groupfile.Pause
	asked  func() // called when a group's pause is asked for; nil: nothing
}

func (w *wanted) Config() *effective.Config { return w.config }

func (w *wanted) Find(id fleet.GroupID) (*effective.Group, bool) {
	g, ok := w.groups[id]
	return g, ok
}

func (w *wanted) All() iter.Seq2[fleet.GroupID, *effective.Group] { return maps.All(w.groups) }

func (w *wanted) PauseOf(id fleet.GroupID, _ time.Time) (groupfile.Pause, bool) {
	if w.asked != nil {
		w.asked()
	}
	p, ok := w.paused[id]
	return p, ok
}

func (w *wanted) put(id fleet.GroupID, size int) {
	w.groups[id] = &effective.Group{Tenant: id.Tenant, Key: id.Name, Size: size}
}

// desk is a reader with what it reads.
type desk struct {
	*Reader
	t    *testing.T
	rows *cache.Cache
	want *wanted
	ids  identity.Generator
}

func newDesk(t *testing.T, d driver.Driver) *desk {
	t.Helper()
	rows, err := cache.Open(t.Context(), os.DevNull+"/none", cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rows.Close() })
	w := &wanted{groups: map[fleet.GroupID]*effective.Group{}, paused: map[fleet.GroupID]groupfile.Pause{}}
	w.config = &effective.Config{Config: &document.Config{Server: document.Server{Provider: document.Provider{Kind: "local", Region: "r1", Zone: "z1"}}}}
	return &desk{t: t, rows: rows, want: w, Reader: New(Options{
		Shard: "s1", Term: 3, Cache: rows, Groups: w, Catalog: &catalog.Book{}, Driver: d, Now: time.Now,
	})}
}

func (d *desk) insert(group fleet.GroupID, state fleet.State, onDemand bool) identity.ID {
	d.t.Helper()
	id, err := d.ids.NewID("vmx")
	if err != nil {
		d.t.Fatal(err)
	}
	row := cache.Instance{Instance: fleet.Instance{ID: id, Group: group, State: state, OnDemand: onDemand}}
	if state != fleet.Pending {
		row.ProviderID = "vm-" + id.String()
	}
	if err := d.rows.Insert(row); err != nil {
		d.t.Fatal(err)
	}
	return id
}

func TestAGroupAndWhatThereIsOfIt(t *testing.T) {
	d := newDesk(t, nil)
	d.want.put(web, 5)
	d.want.groups[web].Traits.VCPU = 2
	d.want.paused[web] = groupfile.Pause{Scope: groupfile.PauseGroup, Reason: "maintenance"}
	var running []string
	for _, state := range []fleet.State{fleet.Pending, fleet.Provisioning, fleet.Running, fleet.Suspect, fleet.Unhealthy, fleet.Draining, fleet.Deleting} {
		id := d.insert(web, state, false)
		if state.Registered() {
			running = append(running, id.String())
		}
	}
	d.insert(web, fleet.Running, true)
	d.insert(theirs, fleet.Running, false)
	g, ok := d.Group(web)
	if !ok {
		t.Fatal("there is no such group")
	}
	got := fmt.Sprintln(g.Pending, g.Actual, g.Unhealthy, g.Draining, g.Size, g.Zone, g.Region, g.Provider, g.Offer.VCPU, g.Pause.Reason)
	if want := "2 2 1 2 5 z1 r1 local 2 maintenance\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var ids, uris []string
	for _, id := range running {
		ids, uris = append(ids, "vm-"+id), append(uris, "nstance://s1/"+id)
	}
	if !slices.Equal(g.ProviderIDs, ids) || !slices.Equal(g.ProviderURIs, uris) {
		t.Errorf("provider ids %q and URIs %q, want those of %q", g.ProviderIDs, g.ProviderURIs, running)
	}
	if _, ok := d.Group(db); ok {
		t.Error("a group is described that does not exist")
	}
}

func TestListsOfGroups(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := newDesk(t, nil)
	for _, id := range []fleet.GroupID{web, db, theirs} {
		d.want.put(id, 1)
	}
	for _, id := range []fleet.GroupID{web, db} {
		d.Summaries.Swap(id, Summary{Conditions: []explain.Condition{{Type: "of " + id.Name}, {Type: "of one", Instance: "vmx1"}}}, at)
	}
	var got []string
	for _, g := range d.ListGroups("default") {
		got = append(got, g.Tenant+"/"+g.Key)
		if diff := cmp.Diff([]explain.Condition{{Type: "of " + g.Key, Since: at}}, g.Conditions); diff != "" {
			t.Errorf("%s: the group's own conditions alone are shown:\n%s", g.Key, diff)
		}
	}
	if want := []string{"default/db", "default/web"}; !slices.Equal(got, want) {
		t.Errorf("S12: listed %q, want %q", got, want)
	}
	if got := d.Groups("default"); len(got) != 2 || got[0].Conditions != nil {
		t.Errorf("events show %d groups, the first with conditions %v; want two without", len(got), got[0].Conditions)
	}
}

// TestS12_S17_RevisionsOfGroups: they grow in each tenant, whatever happens in others, and from
// one leader to the next.
func TestS12_S17_RevisionsOfGroups(t *testing.T) {
	d := newDesk(t, nil)
	d.want.put(web, 1)
	d.want.put(theirs, 1)
	first, _ := d.Group(web)
	for range 10 {
		d.Group(theirs)
	}
	second, _ := d.Group(web)
	if first.Revision != 3<<40+1 || second.Revision != first.Revision+1 {
		t.Errorf("revisions %d and %d, want two that follow each other after %d", first.Revision, second.Revision, int64(3<<40))
	}
	next := New(Options{Term: 4, Cache: d.rows, Groups: d.want, Catalog: &catalog.Book{}, Now: time.Now})
	if g, _ := next.Group(web); g.Revision <= second.Revision {
		t.Errorf("the next leader says %d after %d", g.Revision, second.Revision)
	}
}

// TestS17_TheHighestRevisionTellsTheLast: a group changes and is described again while somebody
// else describes it.
func TestS17_TheHighestRevisionTellsTheLast(t *testing.T) {
	d := newDesk(t, nil)
	d.want.put(web, 1)
	var latest *Group
	d.want.asked = func() {
		d.want.asked = nil
		d.want.put(web, 2)
		latest, _ = d.Group(web)
	}
	early, _ := d.Group(web)
	if early.Size != 1 || latest.Size != 2 {
		t.Fatalf("sizes %d and %d", early.Size, latest.Size)
	}
	if latest.Revision <= early.Revision {
		t.Errorf("size 2 has revision %d, and size 1, which was read before, %d", latest.Revision, early.Revision)
	}
}

// TestNobodyIsCalledUnderALock: who is asked about a group may describe another one.
func TestNobodyIsCalledUnderALock(t *testing.T) {
	d := newDesk(t, nil)
	d.want.put(web, 1)
	d.want.put(db, 1)
	described := false
	d.want.asked = func() {
		d.want.asked = nil
		_, described = d.Group(db)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Group(web)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("dead-lock: a group is asked for under the lock of descriptions")
	}
	if !described {
		t.Error("the other group is not described")
	}
}

// named is a provider that has names of its own for machines.
type named struct{ driver.Driver }

func (named) ProviderURI(ref driver.Ref) string { return "named:///" + ref.ProviderID }

func TestAnInstance(t *testing.T) {
	d := newDesk(t, named{})
	id := d.insert(web, fleet.Running, false)
	seen := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d.rows.UpdateHealth(id, func(h *cache.Health) { h.ReceivedAt, h.AgentVersion = seen, "v1" })
	got, err := d.GetInstance("default", id.String())
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != "running" || got.ProviderURI != "named:///vm-"+id.String() || !got.LastSeen.Equal(seen) || got.AgentVersion != "v1" {
		t.Errorf("%+v", got)
	}
	if row, _ := d.rows.Instance(id); got.Revision != int64(3<<40+row.Revision) {
		t.Errorf("revision %d, want that of its row, %d, in term 3", got.Revision, row.Revision)
	}
	pending := d.insert(web, fleet.Pending, false)
	if got, err := d.GetInstance("default", pending.String()); err != nil || got.ProviderURI != "" {
		t.Errorf("%v: without a machine its URI is %q", err, got.ProviderURI)
	}
	for text, code := range map[string]refusal.Code{id.String(): refusal.NotFound, "x": refusal.InvalidArgument} {
		_, err := d.GetInstance("b", text)
		var refused *refusal.Error
		if !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("S12: tenant b asks for %q: %v, want %v", text, err, code)
		}
	}
}

func TestPagesOfInstances(t *testing.T) {
	d := newDesk(t, nil)
	var want []identity.ID
	for i := range 5 {
		id := d.insert(web, fleet.Running, i%2 == 0)
		want = append(want, id)
	}
	d.insert(theirs, fleet.Running, false)
	d.insert(web, fleet.Deleted, false)
	var got []identity.ID
	pages, after := 0, ""
	for {
		page, next := d.ListInstances("default", after, 2)
		for _, in := range page {
			got = append(got, in.ID)
		}
		if pages++; next == "" {
			break
		}
		after = next
	}
	if pages != 3 || !slices.Equal(got, want) {
		t.Errorf("%d pages with %q, want 3 with %q", pages, got, want)
	}
	if all, next := d.ListInstances("default", "", 0); len(all) != 5 || next != "" {
		t.Errorf("without a size: %d instances, and %q follows", len(all), next)
	}
	if all := d.AllInstances(); len(all) < 6 {
		t.Errorf("the shard has %d instances, want those of all tenants", len(all))
	}
}
