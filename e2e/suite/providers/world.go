package providers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/storage"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/backends"
)

// group is the one group of a shard.
const group = "web"

// patienceOfServers is how long a server waits for an answer of its cloud.
const patienceOfServers = 10 * time.Second

// World is a shard over a cloud. Its methods fail the test where they cannot do what
// they promise, and belong to the test's goroutine.
type World struct {
	*Cloud
	Address *Address

	t        testing.TB
	n        int // of this test process's worlds
	dir      string
	env      []string
	bucket   string
	store    objectstore.Store
	servers  map[string]*server
	size     int    // that the group was given
	stranger string // the identity of a machine that no server has made; "": there is none
	operator nstancev1.OperatorServiceClient
}

// server is a process of nstance-server.
type server struct {
	host string
	cmd  *exec.Cmd
	log  string
}

// Servers are the ids of the servers; each has a host of its own.
var Servers = []string{"server-1", "server-2"}

// worlds counts those of this test process: each has addresses of its own.
var worlds atomic.Int32

// host is the address of a server.
func (w *World) host(id string) string { return loopback(w.n*10 + 1 + slices.Index(Servers, id)) }

// NewWorld makes a shard of one group without machines, whose servers don't run yet. Its
// state is in a bucket of s3, which the environment of the test has to lead to.
func NewWorld(t testing.TB, c *Cloud, s3 *storage.Server) *World {
	t.Helper()
	w := &World{
		Cloud: c, t: t, n: int(worlds.Add(1)), dir: directory(t),
		env: s3.Env(), bucket: s3.NewBucket(t), servers: map[string]*server{},
	}
	w.Address = NewAddress(t, loopback(w.n*10), w.host(Servers[0]), w.host(Servers[1]))
	var err error
	if w.store, err = backends.Open(t.Context(), backends.Location{Kind: backends.S3, Bucket: w.bucket}); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	w.write("encryption.key", []byte("hex:"+hex.EncodeToString(key)+"\n"))
	w.Configure("")
	t.Cleanup(w.close)
	return w
}

func (w *World) path(name string) string { return filepath.Join(w.dir, name) }

func (w *World) write(name string, data []byte) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// Configure puts the configuration into the bucket. Machines that were made by another
// remark in the user data are outdated.
func (w *World) Configure(remark string) {
	w.t.Helper()
	text, err := json.Marshal(w.configuration(remark))
	if err != nil {
		w.t.Fatal(err)
	}
	key := layout.ConfigKey(box.Shard)
	old, _ := w.store.Get(w.t.Context(), key) // there is none at first
	if _, err := objectstore.Put(w.t.Context(), w.store, key, text, old.ETag, objectstore.RetryPolicy{}); err != nil {
		w.t.Fatal(err)
	}
}

type object = map[string]any

func (w *World) configuration(remark string) object {
	userData, err := os.ReadFile(filepath.Join(repository(w.t), "deploy", "userdata", w.UserData))
	if err != nil {
		w.t.Fatal(err)
	}
	template := object{
		"kind": "web", "subnet_pool": "all", "arch": runtime.GOARCH,
		"userdata": object{"content": string(userData) + "\n# " + remark + "\n"},
	}
	for key, value := range w.Template {
		template[key] = value
	}
	at := func(host string, ports ...string) object {
		addrs := object{}
		for i, name := range []string{"registration_addr", "operator_addr", "agent_addr", "health_addr", "election_addr"}[:len(ports)] {
			addrs[name] = net.JoinHostPort(host, ports[i])
		}
		return addrs
	}
	bind := at("127.0.0.1", registrationPort, operatorPort, agentPort, healthPort, electionPort)
	bind["metrics_addr"] = bind["health_addr"]
	shard := object{
		"cluster_id": box.Cluster, "shard": box.Shard, "provider": w.Provider,
		"secrets":      object{"encryption_key": object{"provider": "file", "source": w.path("encryption.key")}},
		"bind":         bind,
		"advertise":    at(w.Address.Host, registrationPort, operatorPort, agentPort),
		"subnet_pools": object{"all": w.Subnets},
		// Long enough for a busy box, short enough for somebody who waits.
		"health_check_interval": "10s", "request_timeout": patienceOfServers.String(), "drain_timeout": "0s",
		"garbage_collection": object{"interval": "5s", "registration_timeout": "90s"},
		"shard_election":     object{"leader_timeout": "10s"}, "cluster_election": object{"leader_timeout": "10s"},
		"rails":             object{"never_registered_per_hour": 1000},
		"registration":      object{"check_source": false}, // machines have the addresses of this box
		"error_exit_jitter": object{"min_delay": "0s", "max_delay": "0s"},
	}
	if w.Leader != nil {
		shard["leader_network"] = w.Leader
	}
	return object{
		"server": shard, "templates": object{"machine": template},
		"groups": object{"default": object{group: object{"template": "machine", "size": 0}}},
	}
}

// Start starts a server, on a machine of the cloud's.
func (w *World) Start(id string) {
	w.t.Helper()
	s := w.servers[id]
	if s == nil {
		s = &server{host: w.host(id), log: w.path(id + ".log")}
		w.servers[id] = s
	}
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	s.cmd = exec.Command(binary(w.t, w.Program), "serve", "--id", id, "--shard", box.Shard, "--storage", "s3",
		"--bucket", w.bucket, "--cachedir", w.path(id), "--bind-host", s.host, "--advertise-host", s.host)
	s.cmd.Env = slices.Concat(os.Environ(), w.env, w.Server(id))
	s.cmd.Stdout, s.cmd.Stderr = out, out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
}

// End ends a server by a signal, and waits until it has ended.
func (w *World) End(id string, sig syscall.Signal) {
	s := w.servers[id]
	if s == nil || s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig) // an error means that it has ended
	_ = s.cmd.Wait()              // how it ended does not matter
	s.cmd = nil
}

// LeaderID returns the id of the server that leads, "" if none does.
func (w *World) LeaderID() string {
	leader := w.Address.Leader()
	for _, id := range Servers {
		if w.host(id) == leader {
			return id
		}
	}
	return ""
}

// Enrol makes an operator of the default tenant, once the cluster has its keys.
func (w *World) Enrol() {
	w.t.Helper()
	dir := w.path("operator")
	cmd := exec.Command(binary(w.t, "nstance-admin"), "cluster", "register-operator", "--tenant", "default", "--output-dir", dir,
		"--storage-provider", "s3", "--storage-bucket", w.bucket, "--key-provider", "file", "--key-source", w.path("encryption.key"))
	cmd.Env = slices.Concat(os.Environ(), w.env)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("register an operator: %v\n%s", err, out)
	}
	settings, err := box.ClientTLS(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := box.Dial(net.JoinHostPort(w.Address.Host, operatorPort), settings)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	w.operator = nstancev1.NewOperatorServiceClient(conn)
}

// call makes one call to whoever leads.
func call[In, Out any](w *World, do func(context.Context, In, ...grpc.CallOption) (Out, error), in In) (Out, error) {
	ctx, cancel := context.WithTimeout(context.Background(), box.CallTimeout)
	defer cancel()
	return do(ctx, in)
}

// patience is how long a test waits for what must happen, on a busy box, and remark how
// often it says meanwhile what it waits for.
const (
	patience = 4 * time.Minute
	remark   = 20 * time.Second
)

// Await waits until check returns nil.
func (w *World) Await(what string, check func() error) {
	w.t.Helper()
	begin := time.Now()
	said := begin
	for {
		err := check()
		if err == nil {
			w.t.Logf("%s, after %v", what, time.Since(begin).Round(time.Millisecond))
			return
		}
		if time.Since(begin) > patience {
			w.t.Fatalf("not within %v: %s: %v", patience, what, err)
		}
		if time.Since(said) > remark {
			said = time.Now()
			w.t.Logf("not yet: %s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// close ends the servers and, where the test failed, shows what they said.
func (w *World) close() {
	for _, id := range Servers {
		w.End(id, syscall.SIGKILL)
		if s := w.servers[id]; s != nil && w.t.Failed() {
			w.t.Logf("--- %s\n%s", id, tail(s.log))
		}
	}
	if w.t.Failed() {
		var counts bytes.Buffer
		for _, op := range w.Gate.Ops() {
			fmt.Fprintf(&counts, " %s: %d", op, w.Gate.Count(op))
		}
		w.t.Logf("calls of the cloud's API:%s", &counts)
	}
}

// tail returns the end of a file.
func tail(path string) []byte {
	const most = 24 << 10
	data, _ := os.ReadFile(path) // what is not there says nothing
	return data[max(0, len(data)-most):]
}
