package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/bucket"
	"nstance.dev/server/config"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
	"nstance.dev/server/shard"
)

// standby is a server that has read the stored configuration and does not lead.
func standby(t *testing.T, store *memory.Store) *process {
	t.Helper()
	p := &process{source: newTestSource(t, store, t.TempDir()), log: slog.New(slog.DiscardHandler)}
	static, err := p.source.start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.shard = shard.New(shard.Options{}, static)
	return p
}

func sizeOf(p *process) int { return *p.shard.Static().Config.Groups["default"]["web"].Size }

func TestCatchUp_aNewLeaderBeginsWithTheStoredConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		put(t, store, devConfig(t, 3))
		p := standby(t, store)
		put(t, store, devConfig(t, 5))
		store.Down(true)
		time.AfterFunc(3*time.Second, func() { store.Down(false) })
		p.catchUp(t.Context())
		if got := sizeOf(p); got != 5 {
			t.Errorf("size %d at the take-over, want the stored one, 5", got)
		}
		put(t, store, []byte(`{"nonsense": 1}`))
		p.catchUp(t.Context())
		if got := sizeOf(p); got != 5 {
			t.Errorf("S19: size %d after a bad configuration, want 5", got)
		}
	})
}

func TestReload_startsAnewWhereItHasTo(t *testing.T) {
	b := newBox(t)
	p, end := b.server()
	b.change(`"size": 0`, `"size": 4`)
	b.change(fmt.Sprintf(`"dir": %q`, b.Machines()), `"dir": "/elsewhere"`)
	for range 2 { // the second before the restart, or while it begins
		prev, now, updated, err := p.reload(t.Context())
		if !updated || err != nil || prev == now {
			t.Errorf("reload: updated %t, %v, etags %q and %q", updated, err, prev, now)
		}
	}
	if got := sizeOf(p); got != 0 {
		t.Errorf("size %d, want the one before until the restart, 0", got)
	}
	if err := end(false); !errors.Is(err, errRestart) {
		t.Errorf("the server ends with %v, want that it starts anew", err)
	}
}

// TestS19_WhatCanNotBeInForce: a valid configuration that this server cannot serve
// with leaves the one before in force, without one restart after the other.
func TestS19_WhatCanNotBeInForce(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, devConfig(t, 3))
	p := standby(t, store)
	p.restarts = make(chan string, 1)
	refused := func(why string) {
		t.Helper()
		_, _, updated, err := p.reload(t.Context())
		var refused *refusal.Error
		if updated || !errors.As(err, &refused) || refused.Reason != "CONFIG_NOT_APPLICABLE" || !strings.Contains(refused.Message, why) {
			t.Errorf("reload: updated %t, %v; want CONFIG_NOT_APPLICABLE because of %s", updated, err, why)
		}
		if got := sizeOf(p); got != 3 || len(p.restarts) > 0 {
			t.Errorf("size %d, %d restarts; want the one before, 3, and none", got, len(p.restarts))
		}
	}
	put(t, store, anotherCluster(t))
	refused("server.cluster_id")

	put(t, store, devConfig(t, 4))
	obj, err := store.Get(t.Context(), bucket.ConfigKey(p.source.flags.Shard))
	if err != nil {
		t.Fatal(err)
	}
	p.unfit = obj.ETag
	refused("could not start")
}

// anotherCluster is a valid configuration that no server of this one can be under.
func anotherCluster(t *testing.T) []byte {
	t.Helper()
	return bytes.Replace(devConfig(t, 4), []byte(`"cluster_id": "dev"`), []byte(`"cluster_id": "other"`), 1)
}

func TestReadAtStart_namesWhatNeedsARestart(t *testing.T) {
	load := func(edit func(*config.Server)) *config.Config {
		cfg, err := config.Load("c.jsonc", devConfig(t, 3), config.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		edit(&cfg.Server)
		return cfg
	}
	same := load(func(*config.Server) {})
	for _, tt := range []struct {
		want string
		edit func(*config.Server)
	}{
		{"", func(*config.Server) {}},
		{"", func(s *config.Server) { s.HealthCheckInterval *= 2 }},
		{"", func(s *config.Server) { s.SubnetPools["more"] = []string{"x"} }},
		{"server.provider", func(s *config.Server) { s.Provider.Options["dir"] = "/elsewhere" }},
		{"server.bind", func(s *config.Server) { s.Bind.Agent = "127.0.0.1:1" }},
		{"server.shard_election", func(s *config.Server) { s.ShardElection.LeaderTimeout *= 2 }},
		{"server.secrets", func(s *config.Server) { s.Secrets.EncryptionKey = nil }},
	} {
		if got := readAtStart(same, load(tt.edit)); got != tt.want {
			t.Errorf("readAtStart = %q, want %q", got, tt.want)
		}
	}
}
