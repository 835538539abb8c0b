package configsource

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/objectstore/memory"
)

// testShard is the shard of the tests' configuration.
const testShard = "local"

// testConfig is a configuration of one group with a size.
func testConfig(size int) []byte {
	return fmt.Appendf(nil, `{
  "server": {
    "cluster_id": "dev",
    "shard": "local",
    "provider": { "kind": "local", "zone": "local", "options": { "dir": "/m" } },
    "secrets": {
      "provider": "object-storage",
      "encryption_key": { "provider": "file", "source": "/k" }
    },
    "subnet_pools": { "local": ["local"] },
    "request_timeout": "5s",
    "shard_election": { "leader_timeout": "5s" }
  },
  "templates": {
    "dev": {
      "kind": "dev",
      "arch": "amd64",
      "instance_type": "process",
      "subnet_pool": "local",
      "userdata": { "content": "#!/bin/sh\n" }
    }
  },
  "groups": { "default": { "web": { "template": "dev", "size": %d } } }
}
`, size)
}

// inForce is a server that takes every configuration.
type inForce struct{ version config.Version }

func (f *inForce) Static() config.Version { return f.version }
func (f *inForce) Apply(_ context.Context, version config.Version) error {
	f.version = version
	return nil
}
func (f *inForce) Reevaluate() {}

// standby is the reloader of a server that has read the stored configuration and does
// not lead.
func standby(t *testing.T, store *memory.Store) *Reloader {
	t.Helper()
	source := newTestSource(t, store, t.TempDir())
	version, err := source.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewReloader(ReloaderOptions{
		Source: source, Target: &inForce{version},
		Leads: func() bool { return false }, LeaderETag: func() (string, bool) { return "", false },
		Log: slog.New(slog.DiscardHandler),
	})
}

func sizeOf(r *Reloader) int { return *r.target.Static().Config.Groups["default"]["web"].Size }
