package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nstance.dev/admin/cli"
	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// buffer is written by commands while a test reads it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	// wrote is told of every write; nil: nobody is.
	wrote chan struct{}
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrote != nil {
		b.wrote <- struct{}{}
	}
	return b.text.Write(p)
}

// tell has a few writes told, to a test that waits for what is written.
func (b *buffer) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrote = make(chan struct{}, 1000)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// console is a place to run commands at, with the servers of two shards.
type console struct {
	env      map[string]string
	in       string
	terminal bool
	prompt   bool
	tempDir  string
	out, err buffer
	at       time.Time // the time that commands have; zero: two days after everything was created
	version  string    // of the program; empty: v1.2.3
	cluster  *shardtest.Cluster
	local    *shardtest.Shard
	other    *shardtest.Shard
}

// newConsole returns a console whose environment leads to shard "local", in
// which group web has two instances.
func newConsole(t *testing.T) *console {
	t.Helper()
	c := &console{tempDir: t.TempDir(), local: &shardtest.Shard{}, other: &shardtest.Shard{}}
	c.local.AddGroup(&nstancev1.GroupStatus{Key: "web", Tenant: "default", Template: "worker", Kind: "knc", Size: 2, InstanceType: "t4g.medium", SubnetPool: "workers"})
	c.other.AddGroup(&nstancev1.GroupStatus{Key: "db", Tenant: "default", Template: "db", Kind: "dbx", Size: 1, IsStatic: true})
	cluster := shardtest.NewCluster(t)
	c.cluster = cluster
	c.env = map[string]string{
		"NSTANCE_ADMIN_SERVERS":      "local=" + cluster.Listen(t, "local", c.local) + ",other=" + cluster.Listen(t, "other", c.other),
		"NSTANCE_ADMIN_IDENTITY_DIR": cluster.Identity(t, "default"),
		"NSTANCE_ADMIN_SHARD":        "local",
	}
	return c
}

// run carries out a command, two days after everything was created, and returns
// its exit code.
func (c *console) run(ctx context.Context, args ...string) int {
	start, at := time.Now(), c.at
	if at.IsZero() {
		at = shardtest.Epoch.Add(50 * time.Hour)
	}
	return cli.Run(ctx, &cli.Env{
		In: strings.NewReader(c.in), Out: &c.out, Err: &c.err, Terminal: c.terminal, Prompt: c.prompt,
		Getenv:  func(name string) string { return c.env[name] },
		Now:     func() time.Time { return at.Add(time.Since(start)) },
		TempDir: c.tempDir, Version: cmp.Or(c.version, "v1.2.3"),
	}, args)
}

// ok runs a command that must succeed and returns what it printed.
func (c *console) ok(t *testing.T, args ...string) string {
	t.Helper()
	before := len(c.out.String())
	if code := c.run(t.Context(), args...); code != cli.ExitOK {
		t.Fatalf("%q: exit code %d; errors:\n%s", args, code, c.err.String())
	}
	return c.out.String()[before:]
}

// fails runs a command that must end with a code and returns its errors.
func (c *console) fails(t *testing.T, code int, args ...string) string {
	t.Helper()
	before := len(c.err.String())
	if got := c.run(t.Context(), args...); got != code {
		t.Fatalf("%q: exit code %d, want %d; output:\n%s\nerrors:\n%s", args, got, code, c.out.String(), c.err.String())
	}
	return c.err.String()[before:]
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (-update rewrites it); got:\n%s\nwant:\n%s", path, got, want)
	}
}

// shardConfig is a configuration of one group of two machines.
const shardConfig = `{
  "server": {
    "cluster_id": "dev", "shard": "local", "subnet_pools": { "local": ["local"] },
    "provider": { "kind": "local", "zone": "local", "options": { "dir": "/m" } },
    "secrets": { "encryption_key": { "provider": "file", "source": "/k" } }
  },
  "templates": {
    "dev": { "kind": "dev", "arch": "amd64", "instance_type": "process", "subnet_pool": "local", "userdata": { "content": "{{ .Nonce }}" } }
  },
  "groups": { "default": { "web": { "template": "dev", "size": 2 } } }
}
`
