package shardclient_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/admin/shardclient"
)

const contextText = `{
  "cluster_id": "dev", "tenant": "default", "identity_dir": "identity",
  "servers": {"local": "127.0.0.1:8993,127.0.0.1:9993"}, "leader_file": "machines/leader.json", "shard": "local"
}`

// writeContext returns the path of a context file.
func writeContext(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestResolve(t *testing.T) {
	file := writeContext(t, contextText)
	dir := filepath.Dir(file)
	local := shardclient.Target{
		Shard: "local", Addresses: []string{"127.0.0.1:8993", "127.0.0.1:9993"}, LeaderFile: filepath.Join(dir, "machines/leader.json"),
	}
	for name, test := range map[string]struct {
		flags shardclient.Flags
		env   map[string]string
		want  shardclient.Selection
	}{
		"the context file alone": {
			env: map[string]string{"NSTANCE_ADMIN_CONTEXT": file},
			want: shardclient.Selection{
				ClusterID: "dev", Tenant: "default", IdentityDir: filepath.Join(dir, "identity"), Targets: []shardclient.Target{local},
			},
		},
		"a variable beats the context file": {
			flags: shardclient.Flags{Context: file},
			env:   map[string]string{"NSTANCE_ADMIN_IDENTITY_DIR": "/env"},
			want:  shardclient.Selection{ClusterID: "dev", Tenant: "default", IdentityDir: "/env", Targets: []shardclient.Target{local}},
		},
		"a flag beats a variable": {
			flags: shardclient.Flags{Context: file, IdentityDir: "/flag", Servers: "a=h:1,h:2,b=h:3", Shard: "a"},
			env:   map[string]string{"NSTANCE_ADMIN_IDENTITY_DIR": "/env", "NSTANCE_ADMIN_SERVERS": "c=h:4", "NSTANCE_ADMIN_SHARD": "c"},
			want: shardclient.Selection{
				ClusterID: "dev", Tenant: "default", IdentityDir: "/flag",
				Targets: []shardclient.Target{{Shard: "a", Addresses: []string{"h:1", "h:2"}}},
			},
		},
		"one shard is implied": {
			flags: shardclient.Flags{Servers: "a=h:1"},
			want:  shardclient.Selection{Targets: []shardclient.Target{{Shard: "a", Addresses: []string{"h:1"}}}},
		},
		"all shards, sorted": {
			flags: shardclient.Flags{Servers: "b=h:1,a=h:2", AllShards: true},
			env:   map[string]string{"NSTANCE_ADMIN_SHARD": "b"},
			want: shardclient.Selection{Targets: []shardclient.Target{
				{Shard: "a", Addresses: []string{"h:2"}}, {Shard: "b", Addresses: []string{"h:1"}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := shardclient.Resolve(test.flags, func(name string) string { return test.env[name] })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestResolveSaysWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		flags shardclient.Flags
		want  string
	}{
		"nothing at all":          {shardclient.Flags{}, "--context or NSTANCE_ADMIN_CONTEXT"},
		"several shards":          {shardclient.Flags{Servers: "a=h:1,b=h:2"}, "choose with --shard"},
		"an unknown shard":        {shardclient.Flags{Servers: "a=h:1", Shard: "b"}, `no servers of shard "b", only of a`},
		"an address without port": {shardclient.Flags{Servers: "a=h"}, `"h" must be of the form host:port`},
		"no shard":                {shardclient.Flags{Servers: "h:1"}, "shard=host:port"},
		"a bad shard":             {shardclient.Flags{Servers: "A=h:1"}, "invalid name"},
		"both flags":              {shardclient.Flags{Servers: "a=h:1", Shard: "a", AllShards: true}, "exclude each other"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := shardclient.Resolve(test.flags, func(string) string { return "" })
			if !errors.Is(err, shardclient.ErrSelection) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one that says %q", err, test.want)
			}
		})
	}
}

func FuzzParseServers(f *testing.F) {
	f.Add("a=h:1,h:2,b=[::1]:3")
	f.Add("=,:,")
	f.Fuzz(func(t *testing.T, text string) {
		servers, err := shardclient.ParseServers(text)
		if err != nil && servers != nil {
			t.Errorf("both a result and %v", err)
		}
		for shard, addresses := range servers {
			if shard == "" || len(addresses) == 0 {
				t.Errorf("%q gave shard %q with %q", text, shard, addresses)
			}
		}
	})
}
