package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/file"
)

// testShard is the shard of the tests' configuration.
const testShard = "local"

// testConfig is a configuration of one group: with the directory of its machines, the file
// of the key that seals its secrets, and the size of the group.
const testConfig = `{
  "server": {
    "cluster_id": "dev",
    "shard": "local",
    "provider": {
      "kind": "local",
      "zone": "local",
      "options": {
        "dir": %q
      }
    },
    "secrets": {
      "provider": "object-storage",
      "encryption_key": { "provider": "file", "source": %q }
    },
    "bind": {
      "health_addr": "127.0.0.1:8990",
      "metrics_addr": "127.0.0.1:8990",
      "election_addr": "127.0.0.1:8991",
      "registration_addr": "127.0.0.1:8992",
      "operator_addr": "127.0.0.1:8993",
      "agent_addr": "127.0.0.1:8994"
    },
    "advertise": {
      "health_addr": "127.0.0.1:8990",
      "election_addr": "127.0.0.1:8991",
      "registration_addr": "127.0.0.1:8992",
      "operator_addr": "127.0.0.1:8993",
      "agent_addr": "127.0.0.1:8994"
    },
    "subnet_pools": { "local": ["local"] },
    "health_check_interval": "2s",
    "request_timeout": "5s",
    "drain_timeout": "0s",
    "garbage_collection": { "interval": "2s", "registration_timeout": "30s" },
    "rails": { "never_registered_per_hour": 1000 },
    "shard_election": { "leader_timeout": "5s" },
    "cluster_election": { "leader_timeout": "5s" },
    "error_exit_jitter": { "min_delay": "0s", "max_delay": "0s" }
  },
  "templates": {
    "dev": {
      "kind": "dev",
      "arch": "amd64",
      "instance_type": "process",
      "subnet_pool": "local",
      "userdata": {
        "content": "#!/bin/sh\n"
      }
    }
  },
  "groups": {
    "default": {
      "web": { "template": "dev", "size": %d }
    }
  }
}
`

func devConfig(t *testing.T, size int) []byte {
	t.Helper()
	return fmt.Appendf(nil, testConfig, "/m", "/k", size)
}

// boxed is the storage of a shard whose machines are of a cloud that is not there, and what
// else its servers need.
type boxed struct {
	Dir string
	t   *testing.T
}

// newBox lays out a box whose servers listen on free ports.
func newBox(t *testing.T) *boxed {
	t.Helper()
	b := &boxed{t.TempDir(), t}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(b.bucket(), 0o700))
	must(os.WriteFile(b.sealKey(), []byte("hex:"+strings.Repeat("ab", 32)+"\n"), 0o600))
	text := fmt.Sprintf(testConfig, b.Machines(), b.sealKey(), 0)
	for port := 8990; port <= 8994; port++ {
		text = strings.ReplaceAll(text, fmt.Sprintf(`"127.0.0.1:%d"`, port), `"127.0.0.1:0"`)
	}
	store, err := file.New(b.bucket())
	must(err)
	_, err = store.PutIfAbsent(t.Context(), layout.ConfigKey(testShard), []byte(text))
	must(err)
	return b
}

func (b *boxed) Machines() string { return filepath.Join(b.Dir, "machines") }
func (b *boxed) bucket() string   { return filepath.Join(b.Dir, "bucket") }
func (b *boxed) sealKey() string  { return filepath.Join(b.Dir, "encryption.key") }

// Flags are those of a server on the box's storage.
func (b *boxed) Flags() Flags {
	return Flags{ID: "dev", Shard: testShard, Storage: "file", Bucket: b.bucket(), CacheDir: filepath.Join(b.Dir, "cache")}
}
