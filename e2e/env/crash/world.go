package crash

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	"nstance.dev/server/objectstore/backends"
)

// Group is the group of machines that every world has.
const Group = "web"

// Storage is where a world keeps its state.
type Storage struct {
	// Location is what servers are told. The zero value is a directory of the world's
	// own; others must exist and be empty.
	Location backends.Location

	// Lease is how long a lock in it lasts: at least 10 s for gcs; 0 means 5 s, the
	// least of all others.
	Lease time.Duration

	// Away takes the storage away until the returned function brings it back, with all
	// that it held. nil where that can't be.
	Away func() (back func())
}

func (s Storage) lease() time.Duration { return cmp.Or(s.Lease, 5*time.Second) }

// World is a cluster whose parts can be broken one by one. Its methods belong to the
// test's goroutine, and fail the test where they can't do what they promise; those
// of [box.Box] say themselves where they may be called from.
type World struct {
	*box.Box

	t       testing.TB
	storage Storage
	flags   []string // of every server
	servers map[string]*box.Process
}

// New makes a cluster in the storage: its configuration with one group of that many
// machines, its keys, and an operator's identity. No server runs yet; those that
// will have the given flags. All is gone when the test ends, but for the storage.
func New(t testing.TB, storage Storage, size int, flags ...string) *World {
	t.Helper()
	w := &World{t: t, storage: storage, flags: flags, servers: map[string]*box.Process{}}
	if storage.Location.Kind == "" {
		w.Box = box.New(t)
	} else {
		w.Box = box.NewOn(t, storage.Location)
	}
	w.Configure(size, storage.lease())
	w.Cluster("init", "--cluster-id", box.Cluster)
	w.Cluster("register-operator", "--output-dir", w.Identity())
	w.writeContext()
	return w
}

// writeContext makes the command line work as it does beside `dev`.
func (w *World) writeContext() {
	w.t.Helper()
	text, err := json.Marshal(map[string]any{
		"cluster_id": box.Cluster, "tenant": identity.DefaultTenant, "identity_dir": w.Identity(), "shard": box.Shard,
		"leader_file": w.Path("machines", "leader.json"),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.ContextPath(), text, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// StartServer starts the server with that id, with the cache that it left, and
// waits for nothing.
func (w *World) StartServer(id string) *box.Process {
	w.t.Helper()
	w.servers[id] = w.Serve(id, w.flags...)
	return w.servers[id]
}

// Server returns the process of a server that was started.
func (w *World) Server(id string) *box.Process {
	w.t.Helper()
	p := w.servers[id]
	if p == nil {
		w.t.Fatalf("server %s was never started", id)
	}
	return p
}

// KillServer ends a server with SIGKILL.
func (w *World) KillServer(id string) {
	w.t.Helper()
	w.Server(id).Kill()
}

// LoseCache removes the cache of a server that does not run.
func (w *World) LoseCache(id string) {
	w.t.Helper()
	if !w.Server(id).Ended() {
		w.t.Fatalf("server %s has its cache open", id)
	}
	if err := os.RemoveAll(w.CacheDir(id)); err != nil {
		w.t.Fatal(err)
	}
}

// LeaderID is the id of the server that has the lock.
func (w *World) LeaderID() string {
	w.t.Helper()
	lock, err := w.Lock()
	if err != nil {
		w.t.Fatal(err)
	}
	return lock.LeaderID
}

// Interrupt takes the storage away for that long, if that can be.
func (w *World) Interrupt(long time.Duration) {
	w.t.Helper()
	if w.storage.Away == nil {
		return
	}
	back := w.storage.Away()
	time.Sleep(long)
	back()
}

// Edit changes the text of the configuration, and has the leader take it.
func (w *World) Edit(change func(text string) string) {
	w.t.Helper()
	w.SetConfig(change(w.Config()))
	w.AdminOK("config", "refresh")
}

// Resize asks for another size of the group until a leader has taken it.
func (w *World) Resize(size int) {
	w.t.Helper()
	w.Await("a leader takes the size", func() error { return w.Scale(Group, int32(size)) })
}

// Settle waits until the group has that size, each machine has reported since a
// moment, and processes, directories and records fit.
func (w *World) Settle(size int, since time.Time) {
	w.t.Helper()
	w.Await("the group has its size", func() error { return w.Settled(Group, size, since) })
}
