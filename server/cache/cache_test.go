package cache_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	web   = fleet.GroupID{Tenant: "default", Name: "web"}
	batch = fleet.GroupID{Tenant: "prod", Name: "batch"}
	epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func newID(t testing.TB) identity.ID {
	t.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func instance(t testing.TB, g fleet.GroupID) cache.Instance {
	return cache.Instance{Instance: fleet.Instance{ID: newID(t), Group: g, State: fleet.Pending, Created: epoch}}
}

func openAt(t testing.TB, path string) *cache.Cache {
	t.Helper()
	c, err := cache.Open(t.Context(), path, cache.Options{Now: func() time.Time { return epoch }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func openNew(t testing.TB) (*cache.Cache, string) {
	path := filepath.Join(t.TempDir(), "cache", "cache.db")
	return openAt(t, path), path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// query returns one value out of the file, as a person would who looks at it.
func query[V any](t testing.TB, path, text string, args ...any) V {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	var v V
	must(t, db.QueryRow(text, args...).Scan(&v))
	return v
}

func ids(instances []cache.Instance) (out []identity.ID) {
	for _, in := range instances {
		out = append(out, in.ID)
	}
	return out
}

func TestInsertRefusesAKnownID(t *testing.T) {
	c, _ := openNew(t)
	in := instance(t, web)
	must(t, c.Insert(in))
	if err := c.Insert(in); !errors.Is(err, cache.ErrExists) {
		t.Fatalf("second insert: %v, want ErrExists", err)
	}
}

func TestUpdate(t *testing.T) {
	c, _ := openNew(t)
	in := instance(t, web)
	if _, err := c.Update(in.ID, func(*cache.Instance) error { return nil }); !errors.Is(err, cache.ErrUnknown) {
		t.Fatalf("update of nothing: %v, want ErrUnknown", err)
	}
	must(t, c.Insert(in))
	before, _ := c.Instance(in.ID)

	refused := errors.New("refused")
	_, err := c.Update(in.ID, func(in *cache.Instance) error { in.Hostname = "h"; return refused })
	if after, _ := c.Instance(in.ID); !errors.Is(err, refused) || !cmp.Equal(before, after) {
		t.Fatalf("a refused change: error %v, difference %s", err, cmp.Diff(before, after))
	}

	got, err := c.Update(in.ID, func(in *cache.Instance) error {
		in.Hostname, in.ID, in.Group = "h", "other", batch
		return nil
	})
	must(t, err)
	if got.ID != in.ID || got.Group != web || got.Hostname != "h" || got.Revision <= before.Revision {
		t.Fatalf("after the change: %+v", got)
	}
}

func TestRevisionGrowsByVisibleChangesOnly(t *testing.T) {
	c, _ := openNew(t)
	a, b := instance(t, web), instance(t, fleet.GroupID{Tenant: web.Tenant, Name: "other"})
	must(t, c.Insert(a))
	must(t, c.Insert(b))
	first, _ := c.Update(a.ID, func(in *cache.Instance) error { in.State = fleet.Provisioning; return nil })
	seen, _ := c.Update(a.ID, func(in *cache.Instance) error { in.ProviderSeenAt = epoch; return nil })
	other, _ := c.Update(b.ID, func(in *cache.Instance) error { in.IPv4 = "10.0.0.1"; return nil })
	if seen.Revision != first.Revision || other.Revision <= first.Revision || c.Revision(web.Tenant) != other.Revision {
		t.Fatalf("revisions %d, %d, %d, shard %d", first.Revision, seen.Revision, other.Revision, c.Revision(web.Tenant))
	}

	g := cache.Group{Group: fleet.Group{ID: web, Size: 1}}
	c.PutGroup(g)
	one, _ := c.GroupRow(web)
	g.ETag = "e"
	c.PutGroup(g)
	two, _ := c.GroupRow(web)
	g.Size = 2
	c.PutGroup(g)
	three, _ := c.GroupRow(web)
	if two.Revision != one.Revision || two.ETag != "e" || three.Revision <= two.Revision {
		t.Fatalf("revisions of the group %d, %d, %d", one.Revision, two.Revision, three.Revision)
	}
}

func TestLooksUpByWhatAnInstanceIsKnownBy(t *testing.T) {
	c, _ := openNew(t)
	a, b := instance(t, web), instance(t, batch)
	a.NonceSHA256, a.ProviderID = "nonce-a", "vm-a"
	must(t, c.Insert(b))
	must(t, c.Insert(a))

	if id, ok := c.ByNonce("nonce-a"); !ok || id != a.ID {
		t.Fatalf("by nonce: %q, %v", id, ok)
	}
	_, err := c.Update(a.ID, func(in *cache.Instance) error { in.RegisteredAt, in.State = epoch, fleet.Running; return nil })
	must(t, err)
	if id, ok := c.ByNonce("nonce-a"); ok {
		t.Fatalf("the nonce of a registered instance still finds %q", id)
	}
	if id, ok := c.ByProviderID("vm-a"); !ok || id != a.ID {
		t.Fatalf("by provider id: %q, %v", id, ok)
	}
	if diff := cmp.Diff([]identity.ID{a.ID, b.ID}, ids(c.All())); diff != "" {
		t.Fatalf("all, by id: %s", diff)
	}
	if diff := cmp.Diff([]identity.ID{b.ID}, ids(c.Tenant("prod"))); diff != "" {
		t.Fatalf("of tenant prod: %s", diff)
	}
	if got := c.Fleet(web); len(got) != 1 || got[0].ID != a.ID {
		t.Fatalf("fleet: %+v", got)
	}
}

func TestADeletedInstanceIsRememberedUntilPurged(t *testing.T) {
	c, _ := openNew(t)
	in := instance(t, web)
	in.NonceSHA256, in.ProviderID = "n", "vm"
	must(t, c.Insert(in))
	c.PutPublicKeys(in.ID, map[string]string{"kubelet": "pem"})
	c.PutFile(cache.File{Instance: in.ID, Name: "a.crt"})
	got, err := c.Update(in.ID, func(in *cache.Instance) error { in.State = fleet.Deleted; return nil })
	must(t, err)
	if !got.DeletedAt.Equal(epoch) {
		t.Fatalf("deleted at %v", got.DeletedAt)
	}
	_, nonce := c.ByNonce("n")
	_, vm := c.ByProviderID("vm")
	if len(c.Group(web)) != 0 || len(c.Tenant("default")) != 0 || len(c.All()) != 0 || nonce || vm {
		t.Fatal("a deleted instance shows among the others")
	}
	if _, ok := c.Instance(in.ID); !ok || len(c.Deleted()) != 1 {
		t.Fatal("a deleted instance is forgotten at once")
	}
	if n := c.Purge(epoch); n != 0 {
		t.Fatalf("purged %d that were deleted at the given time", n)
	}
	if n := c.Purge(epoch.Add(time.Second)); n != 1 {
		t.Fatalf("purged %d, want 1", n)
	}
	_, health := c.Health(in.ID)
	if _, ok := c.Instance(in.ID); ok || health || len(c.PublicKeys(in.ID)) != 0 || len(c.Files(in.ID)) != 0 {
		t.Fatal("something is left after the purge")
	}
}

func TestNothingIsKeptForUnknownInstances(t *testing.T) {
	c, _ := openNew(t)
	id := newID(t)
	if c.Report(id, cache.Health{Count: 1}) || c.PutFile(cache.File{Instance: id, Name: "f"}) ||
		c.PutPublicKeys(id, map[string]string{"k": "pem"}) {
		t.Fatal("it was taken")
	}
	if _, ok := c.Health(id); ok {
		t.Fatal("there is a health row")
	}
}

func TestAnOperatorsNonceIsUnique(t *testing.T) {
	c, _ := openNew(t)
	a, b := cache.Operator{ID: "opr-a", NonceSHA256: "n"}, cache.Operator{ID: "opr-b", NonceSHA256: "n"}
	must(t, c.PutOperator(a))
	must(t, c.PutOperator(a))
	if err := c.PutOperator(b); !errors.Is(err, cache.ErrExists) {
		t.Fatalf("the nonce of another: %v, want ErrExists", err)
	}
	c.DropOperator(a.ID)
	must(t, c.PutOperator(b))
	if got := c.Operators(); len(got) != 1 || got[0] != b {
		t.Fatalf("operators: %+v", got)
	}
}

func TestS22_LogsKeepTheLastRows(t *testing.T) {
	c, path := openNew(t)
	for i := range 450 {
		c.AddError(cache.ErrorRow{Tenant: "prod", Error: fmt.Sprint(i)})
		c.AddDecision(explain.Decision{Group: web, Action: fmt.Sprint(i)})
	}
	errs, decisions := c.Errors("prod"), c.Decisions(web)
	if len(errs) != 200 || errs[0].Error != "250" || errs[199].Error != "449" {
		t.Fatalf("%d errors, from %+v", len(errs), errs[0])
	}
	if len(decisions) != 100 || decisions[0].Action != "350" || decisions[99].Action != "449" {
		t.Fatalf("%d decisions, from %+v", len(decisions), decisions[0])
	}
	must(t, c.Flush(t.Context()))
	if n := query[int](t, path, "SELECT count(*) FROM errors"); n != 200 {
		t.Fatalf("%d errors in the file", n)
	}
	c.DropGroup(web)
	if len(c.Decisions(web)) != 0 {
		t.Fatal("decisions of a dropped group")
	}
}

// How much happens to one tenant, another does not learn from its own revisions.
func TestS12_RevisionsCountPerTenant(t *testing.T) {
	c, _ := openNew(t)
	foreign := fleet.GroupID{Tenant: "foreign", Name: "web"}
	mine, theirs := instance(t, web), instance(t, foreign)
	must(t, c.Insert(mine))
	must(t, c.Insert(theirs))
	before, _ := c.Instance(mine.ID)
	for i := range 20 {
		_, err := c.Update(theirs.ID, func(in *cache.Instance) error { in.IPv4 = fmt.Sprint("10.0.0.", i); return nil })
		must(t, err)
		c.PutGroup(cache.Group{Group: fleet.Group{ID: foreign, Size: i}})
	}
	c.Remove(theirs.ID)
	c.DropGroup(foreign)
	after, _ := c.Update(mine.ID, func(in *cache.Instance) error { in.IPv4 = "10.0.0.1"; return nil })
	if after.Revision != before.Revision+1 {
		t.Errorf("revision %d after %d, and one change of the tenant's own between", after.Revision, before.Revision)
	}
}

// Whoever looks into the file finds what the documentation promises there.
func TestTablesOfGroupsAndInstances(t *testing.T) {
	c, path := openNew(t)
	must(t, c.Flush(t.Context()))
	for _, column := range []struct{ table, name string }{
		{"groups", "tenant"}, {"groups", "group_key"}, {"groups", "runtime_config_hash"}, {"groups", "infra_config_hash"},
		{"instances", "id"}, {"instances", "tenant"}, {"instances", "group_key"},
	} {
		if n := query[int](t, path, fmt.Sprintf(`SELECT count(*) FROM pragma_table_info('%s') WHERE name = '%s' AND "notnull"`, column.table, column.name)); n != 1 {
			t.Errorf("%s.%s may be NULL", column.table, column.name)
		}
	}
	for name, columns := range map[string]string{
		"idx_instances_tenant": "tenant", "idx_instances_tenant_group": "tenant,group_key",
		"idx_instances_provider_id": "provider_id", "idx_instances_state": "state",
	} {
		if got := query[string](t, path, fmt.Sprintf(`SELECT coalesce(group_concat(name), '') FROM pragma_index_info('%s')`, name)); got != columns {
			t.Errorf("index %s is of %q, want %q", name, got, columns)
		}
	}
}

func TestResetForgetsAllButTermsImagesAndOperators(t *testing.T) {
	c, path := openNew(t)
	in := instance(t, web)
	must(t, c.Insert(in))
	must(t, c.PutOperator(cache.Operator{ID: "opr-a", NonceSHA256: "n"}))
	c.PutGroup(cache.Group{Group: fleet.Group{ID: web}})
	c.AddDecision(explain.Decision{Group: web})
	c.PutTerm("shard", 7)
	c.PutImage(cache.Image{Key: "debian"})
	must(t, c.Flush(t.Context()))
	revision := c.Revision(web.Tenant)
	c.Reset()
	_, health := c.Health(in.ID)
	if len(c.All()) != 0 || len(c.Groups()) != 0 || len(c.Decisions(web)) != 0 || health {
		t.Fatal("something is left")
	}
	if _, ok := c.Image("debian"); !ok || c.Term("shard") != 7 {
		t.Fatal("terms or images are gone")
	}
	if len(c.Operators()) != 1 || !errors.Is(c.PutOperator(cache.Operator{ID: "opr-b", NonceSHA256: "n"}), cache.ErrExists) {
		t.Fatal("operators or their nonces are gone")
	}
	must(t, c.Flush(t.Context()))
	if n := query[int](t, path, "SELECT count(*) FROM instances"); n != 0 {
		t.Fatalf("%d instances in the file", n)
	}
	must(t, c.Insert(in))
	if got, _ := c.Instance(in.ID); got.Revision <= revision {
		t.Fatalf("revision %d after %d", got.Revision, revision)
	}
}

func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	c, path := openNew(t)
	in := instance(t, web)
	must(t, c.Insert(in))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				_, err := c.Update(in.ID, func(in *cache.Instance) error { in.CertSerial += "x"; return nil })
				if err != nil {
					t.Error(err)
				}
				c.UpdateHealth(in.ID, func(h *cache.Health) { h.Count++ })
				c.Group(web)
				c.Health(in.ID)
			}
		})
	}
	wg.Wait()
	got, _ := c.Instance(in.ID)
	h, _ := c.Health(in.ID)
	if len(got.CertSerial) != 1600 || h.Count != 1600 {
		t.Fatalf("%d updates, %d reports", len(got.CertSerial), h.Count)
	}
	must(t, c.Flush(t.Context()))
	if n := query[int](t, path, "SELECT count FROM health"); n != 1600 {
		t.Fatalf("count %d in the file", n)
	}
}

func TestChangesReachTheFileByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, path := openNew(t)
		in := instance(t, web)
		must(t, c.Insert(in))
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		if n := query[int](t, path, "SELECT count(*) FROM instances"); n != 1 {
			t.Fatalf("%d instances in the file after the delay", n)
		}
		c.Report(in.ID, cache.Health{Count: 3})
		time.Sleep(4500 * time.Millisecond)
		c.Report(in.ID, cache.Health{Count: 4})
		if n := query[int](t, path, "SELECT count(*) FROM health"); n != 0 {
			t.Fatalf("%d reports are in the file at once", n)
		}
		time.Sleep(501 * time.Millisecond)
		synctest.Wait()
		if n := query[int](t, path, "SELECT count FROM health"); n != 4 {
			t.Fatalf("report %d in the file, want the last", n)
		}
		must(t, c.Close())
	})
}

func TestCloseWritesWhatIsLeft(t *testing.T) {
	c, path := openNew(t)
	must(t, c.Insert(instance(t, web)))
	must(t, c.Close())
	must(t, c.Close())
	if n := query[int](t, path, "SELECT count(*) FROM instances"); n != 1 {
		t.Fatalf("%d instances in the file", n)
	}
	if err := c.Flush(t.Context()); !errors.Is(err, cache.ErrClosed) {
		t.Fatalf("flush after close: %v", err)
	}
	must(t, c.Insert(instance(t, web)))
	if len(c.Group(web)) != 2 {
		t.Fatal("memory does not serve after close")
	}
}

func TestF18_TwoProcessesOneFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	unlock, err := cache.LockDir(dir)
	must(t, err)
	if _, err := cache.LockDir(dir); !errors.Is(err, cache.ErrLocked) {
		t.Fatalf("second lock: %v, want ErrLocked", err)
	}
	must(t, unlock())
	unlock, err = cache.LockDir(dir)
	must(t, err)
	must(t, unlock())
}

func TestS14_NobodyElseReadsTheFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	must(t, os.Mkdir(dir, 0o755))
	c := openAt(t, filepath.Join(dir, "cache.db"))
	must(t, c.Insert(instance(t, web)))
	must(t, c.Flush(t.Context()))
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, error %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: mode %v, error %v", info.Mode(), err)
	}
}
