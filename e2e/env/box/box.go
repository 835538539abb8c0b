package box

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"nstance.dev/protos/identity"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/backends"
)

// Cluster and shard of every box.
const (
	Cluster = "dev"
	Shard   = "local"
)

// ServerName is what the servers of a box have in their certificates.
var ServerName = identity.ServerName(Shard, Cluster)

// Box is one cluster in a directory of its own. Its methods fail the test where
// they cannot do what they promise, and may be called by the test's goroutine alone
// unless they say otherwise.
type Box struct {
	// Dir is what a user would give to `dev --dir`. It does not exist until a
	// process makes it.
	Dir string

	t       testing.TB
	root    string // holds Dir, and what processes print
	from    string // where programs come from; empty: bin/ of the repository
	storage backends.Location
	procs   []*Process

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn // by address and identity
	opened objectstore.Store           // nil until it is looked into
}

// New returns an empty box that keeps its state in the folder bucket of its
// directory, where `dev` keeps it. When the test ends all of its processes are
// killed, and if the test failed, what they printed is logged.
func New(t testing.TB) *Box {
	t.Helper()
	b := NewOn(t, backends.Location{})
	b.storage = backends.Location{Kind: backends.File, Bucket: b.Path("bucket")}
	return b
}

// NewOn is [New] for a cluster with its state elsewhere. Credentials and endpoints
// are those of the test's environment, which its processes inherit.
func NewOn(t testing.TB, storage backends.Location) *Box {
	t.Helper()
	for _, name := range []string{"nstance-server-local", "nstance-agent", "nstance-admin"} {
		Program(t, name)
	}
	// Not t.TempDir: its path has the test's name in it, and paths of sockets and
	// argument lists are better short.
	root, err := os.MkdirTemp("", "box-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	b := &Box{Dir: filepath.Join(root, "d"), t: t, root: root, storage: storage, conns: map[string]*grpc.ClientConn{}}
	t.Cleanup(b.close)
	return b
}

// Binary returns the path of a program that `make build` made.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(repository(t), "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build it with `make build`", err)
	}
	return path
}

// programsVar names the directory of the programs that boxes run: `make test` has them built
// with the race detector. Without it they are those of `make build`.
const programsVar = "E2E_PROGRAMS"

// Program returns the path of a program that tests run.
func Program(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv(programsVar)
	if dir == "" {
		return Binary(t, name)
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s: %v", programsVar, err)
	}
	return path
}

// repository is the directory with go.work above the test's.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(dir, "go.work")) {
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no directory above this one has a go.work")
		}
		dir = up
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Path returns a path in the box's directory.
func (b *Box) Path(elements ...string) string {
	return filepath.Join(append([]string{b.Dir}, elements...)...)
}

// Dev starts `dev` on the box's directory and does not wait for anything.
func (b *Box) Dev(size int, flags ...string) *Process {
	b.t.Helper()
	args := []string{"dev", "--dir", b.Dir, "--size", strconv.Itoa(size), "--plain"}
	return b.Start("nstance-server-local", append(args, flags...)...)
}

// Serve starts `serve` on the box's storage, with a cache of its own for each id.
func (b *Box) Serve(id string, flags ...string) *Process {
	b.t.Helper()
	return b.Start("nstance-server-local", append(b.serverArgs("serve", id), flags...)...)
}

// Release runs the command that gives back the leases of the server with that id.
func (b *Box) Release(id string) *Process {
	b.t.Helper()
	return b.Start("nstance-server-local", b.serverArgs("release", id)...)
}

func (b *Box) serverArgs(command, id string) []string {
	return []string{
		command, "--shard", Shard, "--storage", b.storage.Kind, "--bucket", b.storage.Bucket, "--prefix", b.storage.Prefix,
		"--cachedir", b.CacheDir(id), "--id", id,
	}
}

// CacheDir is where the server with that id has its cache.
func (b *Box) CacheDir(id string) string { return b.Path("cache-" + id) }

// Cluster runs one of the commands of nstance-admin that work on the storage itself.
// It must succeed.
func (b *Box) Cluster(args ...string) Result {
	b.t.Helper()
	return b.AdminOK(append(append([]string{"cluster"}, args...),
		"--storage-provider", b.storage.Kind, "--storage-bucket", b.storage.Bucket, "--storage-prefix", b.storage.Prefix,
		"--key-provider", "file", "--key-source", b.KeyPath())...)
}

// KeyPath is where the key that seals the secrets lies.
func (b *Box) KeyPath() string { return b.Path("encryption.key") }

// From has the programs that are started from now on come from a directory; empty means
// those of this tree.
func (b *Box) From(dir string) { b.from = dir }

// program returns the path of a program that is to be started.
func (b *Box) program(name string) string {
	b.t.Helper()
	if b.from != "" {
		return filepath.Join(b.from, name)
	}
	return Program(b.t, name)
}

// Start starts one of our programs.
func (b *Box) Start(program string, args ...string) *Process {
	b.t.Helper()
	out := filepath.Join(b.root, fmt.Sprintf("%02d-%s.out", len(b.procs), args[0]))
	p, err := start(b.program(program), args, out)
	if err != nil {
		b.t.Fatal(err)
	}
	b.procs = append(b.procs, p)
	return p
}

// Printed returns the files with what the processes of the box have printed.
func (b *Box) Printed() []string {
	paths, err := filepath.Glob(filepath.Join(b.root, "*.out"))
	if err != nil {
		b.t.Error(err)
	}
	return paths
}

// close ends everything that was started in the box, and removes it.
func (b *Box) close() {
	b.mu.Lock()
	for _, conn := range b.conns {
		_ = conn.Close() // it was for reading
	}
	b.mu.Unlock()
	for _, p := range b.procs {
		p.Kill()
	}
	b.killMachines()
	b.findRaces()
	if b.t.Failed() {
		b.logEverything()
	}
	if err := os.RemoveAll(b.root); err != nil {
		b.t.Errorf("remove the box: %v", err)
	}
}

// killMachines ends the machines. None starts another, and their servers are dead,
// so a look that finds none is the last one.
func (b *Box) killMachines() {
	for deadline := time.Now().Add(10 * time.Second); ; {
		left := b.Machines()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.t.Errorf("%d processes of machines cannot be killed: %v", len(left), left)
			return
		}
		for _, m := range left {
			if err := m.kill(); err != nil {
				b.t.Errorf("kill %s: %v", m.ID, err)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// logTail is how much of each log is shown.
const logTail = 16 << 10

// logs are what all processes have printed.
func (b *Box) logs() []string {
	var paths []string
	for _, pattern := range []string{
		filepath.Join(b.root, "*.out"), b.Path("server.log"), b.Path("machines", "*", "log"),
	} {
		found, _ := filepath.Glob(pattern) // the patterns are well-formed
		paths = append(paths, found...)
	}
	return paths
}

// findRaces fails the test if the race detector of a program has spoken.
func (b *Box) findRaces() {
	for _, path := range b.logs() {
		data, err := os.ReadFile(path)
		if err != nil {
			b.t.Errorf("look for races: %v", err)
			continue
		}
		if _, report, found := bytes.Cut(data, []byte("WARNING: DATA RACE")); found {
			b.t.Errorf("%s has a data race:\n%s", path, report[:min(len(report), logTail)])
		}
	}
}

func (b *Box) logEverything() {
	paths := b.logs()
	const most = 12 // machines may be many, and tell the same
	for i, path := range paths {
		if i == most {
			b.t.Logf("and %d more logs", len(paths)-most)
			break
		}
		data, _ := os.ReadFile(path) // an unreadable log must not hide the others
		if len(data) > logTail {
			data = data[len(data)-logTail:]
		}
		b.t.Logf("--- %s\n%s", path, data)
	}
}
