package machines

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

// runs counts how often the user data of counted ran.
const counted = `echo run >> "$NSTANCE_MACHINE_DIR/runs"` + "\n" + userData

func runs(t *testing.T, d *Machines, id identity.ID) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.store.Dir(id), "runs"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

// TestF12_CrashDuringCreate leaves a create at each of its steps, as a dying
// server does, and lets another server find it.
func TestF12_CrashDuringCreate(t *testing.T) {
	steps := []struct {
		name  string
		until func(t *testing.T, d *Machines, req driver.CreateRequest)
		there bool // the machine exists, so a look alone brings it up
	}{
		{"directory half built", func(t *testing.T, d *Machines, req driver.CreateRequest) {
			must(t, os.MkdirAll(filepath.Join(d.store.Hidden(store.NewDir, req.InstanceID), "keys"), 0o700))
		}, false},
		{"directory built", func(t *testing.T, d *Machines, req driver.CreateRequest) {
			must(t, d.store.Build(req))
		}, true},
		{"process started, not recorded", func(t *testing.T, d *Machines, req driver.CreateRequest) {
			must(t, d.store.Build(req))
			abandon(t, d, req.InstanceID, false)
		}, true},
		{"process recorded, not released", func(t *testing.T, d *Machines, req driver.CreateRequest) {
			must(t, d.store.Build(req))
			abandon(t, d, req.InstanceID, true)
		}, true},
		{"process released", func(t *testing.T, d *Machines, req driver.CreateRequest) {
			must(t, d.store.Build(req))
			must(t, d.start(req.InstanceID))
		}, true},
	}
	for _, step := range steps {
		for _, by := range []string{"create", "get", "list"} {
			if by != "create" && !step.there {
				continue
			}
			t.Run(step.name+", found by "+by, func(t *testing.T) {
				d := empty(t)
				req := request(t)
				req.UserData = []byte(counted)
				step.until(t, d, req)
				d.Close()
				next := open(t, d.store.Root)
				find(t, next, req, by)
				awaitStatus(t, next, req.InstanceID, driver.Running)
				await(t, func() bool { return runs(t, next, req.InstanceID) > 0 })
				find(t, next, req, by)
				if n := runs(t, next, req.InstanceID); n != 1 {
					t.Errorf("the user data ran %d times", n)
				}
			})
		}
	}
}

// abandon starts a process and dies before it is released.
func abandon(t *testing.T, d *Machines, id identity.ID, recorded bool) {
	t.Helper()
	cmd, release, err := d.spawn(id)
	must(t, err)
	p, err := d.host.Identify(cmd.Process.Pid)
	must(t, err)
	if recorded {
		must(t, store.Record(d.store.Dir(id), p))
	}
	d.watchEnd(id, p, cmd.Process)
	must(t, release.Close())
	dies(t, d, p)
	if n := runs(t, d, id); n != 0 {
		t.Errorf("an unreleased process ran its user data %d times", n)
	}
}

func find(t *testing.T, d *Machines, req driver.CreateRequest, by string) {
	t.Helper()
	var err error
	switch by {
	case "create":
		_, err = d.Create(t.Context(), req)
	case "get":
		_, err = d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
	case "list":
		_, err = d.List(t.Context(), owner)
	}
	must(t, err)
}

// TestF13_CrashDuringDelete leaves a delete behind its mark, with the process
// alive, dead, and with the directory on its way out.
func TestF13_CrashDuringDelete(t *testing.T) {
	for _, by := range []string{"get", "list", "delete"} {
		for _, dead := range []bool{false, true} {
			t.Run(by, func(t *testing.T) {
				d := empty(t)
				req, p := running(t, d)
				if dead {
					kill(t, d, p)
				}
				d.Close() // so that the mark is all that Delete leaves
				must(t, d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))

				next := open(t, d.store.Root)
				if by == "delete" {
					must(t, next.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
					dies(t, next, p)
				}
				await(t, func() bool {
					list, err := next.List(t.Context(), owner)
					must(t, err)
					return len(list) == 0
				})
				awaitGone(t, next, req.InstanceID)
				dies(t, next, p)
				if _, err := os.Stat(next.store.Dir(req.InstanceID)); !os.IsNotExist(err) {
					t.Errorf("the directory is still there: %v", err)
				}
				_, err := next.Create(t.Context(), req)
				wantKind(t, err, driver.Invalid)
			})
		}
	}
}

func TestS5_FiftyAtOnceByTwoServers(t *testing.T) {
	one := empty(t)
	two := open(t, one.store.Root)
	reqs := make([]driver.CreateRequest, 50)
	var wg sync.WaitGroup
	for i := range reqs {
		reqs[i] = request(t)
		reqs[i].UserData = []byte(counted)
		for _, d := range []*Machines{one, two} {
			wg.Go(func() {
				if _, err := d.Create(t.Context(), reqs[i]); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, req := range reqs {
		awaitStatus(t, one, req.InstanceID, driver.Running)
	}
	list, err := two.List(t.Context(), owner)
	must(t, err)
	if len(list) != len(reqs) {
		t.Errorf("%d machines listed, want %d", len(list), len(reqs))
	}
	processes := map[int]bool{}
	for _, req := range reqs {
		await(t, func() bool { return runs(t, one, req.InstanceID) > 0 })
		if n := runs(t, one, req.InstanceID); n != 1 {
			t.Errorf("%s ran %d times", req.InstanceID, n)
		}
		p, err := store.ReadStart(one.store.Dir(req.InstanceID))
		must(t, err)
		processes[p.PID] = true
		must(t, one.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
	}
	if len(processes) != len(reqs) {
		t.Errorf("%d processes, want %d", len(processes), len(reqs))
	}
	for _, req := range reqs {
		awaitGone(t, two, req.InstanceID)
	}
	locks, err := os.ReadDir(filepath.Join(one.store.Root, store.LocksDir))
	one.Close()
	if err != nil || len(locks) > 50 {
		t.Errorf("%d locks are left, %v", len(locks), err)
	}
	if locks, err = os.ReadDir(filepath.Join(one.store.Root, store.LocksDir)); err != nil || len(locks) > 0 {
		t.Errorf("locks are left after everything ended: %v, %v", locks, err)
	}
}

func TestLateCreateWaitsForNobody(t *testing.T) {
	d := empty(t)
	req := request(t)
	unlock, err := d.store.Lock(t.Context(), req.InstanceID)
	must(t, err)
	defer unlock()
	must(t, d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}))
	_, err = d.Create(t.Context(), req) // would hang if it took the lock first
	wantKind(t, err, driver.Invalid)
}

func TestMarksAreForgottenAfterAnHour(t *testing.T) {
	now := time.Now()
	d := open(t, t.TempDir(), func(o *Options) { o.Now = func() time.Time { return now } })
	id := request(t).InstanceID
	must(t, d.Delete(t.Context(), driver.Ref{InstanceID: id}))
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{50 * time.Minute, true}, {11 * time.Minute, false}} {
		now = now.Add(c.after)
		_, err := d.List(t.Context(), owner)
		must(t, err)
		if marked, err := d.store.Marked(id); err != nil || marked != c.want {
			t.Errorf("after %v more: marked %t, %v; want %t", c.after, marked, err, c.want)
		}
	}
}

func TestAgentThatWasRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nstance-agent")
	must(t, exec.Command("cp", agent(t), path).Run())
	d := open(t, t.TempDir(), func(o *Options) { o.Agent = path })
	must(t, os.Remove(path))
	req := request(t)
	_, err := d.Create(t.Context(), req)
	wantKind(t, err, driver.MissingRef)
	_, err = d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
	wantKind(t, err, driver.NotFound)
}
