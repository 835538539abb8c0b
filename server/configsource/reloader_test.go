package configsource

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/refusal"
)

func TestCatchUp_aNewLeaderBeginsWithTheStoredConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		put(t, store, testConfig(3))
		r := standby(t, store)
		put(t, store, testConfig(5))
		store.Down(true)
		time.AfterFunc(3*time.Second, func() { store.Down(false) })
		r.CatchUp(t.Context())
		if got := sizeOf(r); got != 5 {
			t.Errorf("size %d at the take-over, want the stored one, 5", got)
		}
		put(t, store, []byte(`{"nonsense": 1}`))
		r.CatchUp(t.Context())
		if got := sizeOf(r); got != 5 {
			t.Errorf("S19: size %d after a bad configuration, want 5", got)
		}
	})
}

// TestS19_WhatCanNotBeInForce: a valid configuration that this server cannot serve
// with leaves the one before in force, without one restart after the other.
func TestS19_WhatCanNotBeInForce(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, testConfig(3))
	r := standby(t, store)
	restarts := 0
	r.opts.Restart = func(string) { restarts++ }
	refused := func(why string) {
		t.Helper()
		_, _, updated, err := r.Reload(t.Context())
		var refused *refusal.Error
		if updated || !errors.As(err, &refused) || refused.Reason != "CONFIG_NOT_APPLICABLE" || !strings.Contains(refused.Message, why) {
			t.Errorf("reload: updated %t, %v; want CONFIG_NOT_APPLICABLE because of %s", updated, err, why)
		}
		if got := sizeOf(r); got != 3 || restarts > 0 {
			t.Errorf("size %d, %d restarts; want the one before, 3, and none", got, restarts)
		}
	}
	put(t, store, anotherCluster())
	refused("server.cluster_id")

	put(t, store, testConfig(4))
	obj, err := store.Get(t.Context(), layout.ConfigKey(testShard))
	if err != nil {
		t.Fatal(err)
	}
	r.rejected = obj.ETag
	refused("could not start")
}

// anotherCluster is a valid configuration that no server of this one can be under.
func anotherCluster() []byte {
	return bytes.Replace(testConfig(4), []byte(`"cluster_id": "dev"`), []byte(`"cluster_id": "other"`), 1)
}

func TestReadAtStart_namesWhatNeedsARestart(t *testing.T) {
	load := func(edit func(*document.Server)) *effective.Config {
		cfg, err := config.Load("c.jsonc", testConfig(3), config.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		edit(&cfg.Server)
		return cfg
	}
	same := load(func(*document.Server) {})
	for _, tt := range []struct {
		want string
		edit func(*document.Server)
	}{
		{"", func(*document.Server) {}},
		{"", func(s *document.Server) { s.HealthCheckInterval *= 2 }},
		{"", func(s *document.Server) { s.SubnetPools["more"] = []string{"x"} }},
		{"server.provider", func(s *document.Server) { s.Provider.Options["dir"] = "/elsewhere" }},
		{"server.provider", func(s *document.Server) { s.Provider.Limits.Calls = &document.Bucket{Rate: 1, Burst: 2} }},
		{"server.request_timeout", func(s *document.Server) { s.RequestTimeout /= 2 }},
		{"server.bind", func(s *document.Server) { s.Bind.Agent = "127.0.0.1:1" }},
		{"server.shard_election", func(s *document.Server) { s.ShardElection.LeaderTimeout *= 2 }},
		{"server.secrets", func(s *document.Server) { s.Secrets.EncryptionKey = nil }},
	} {
		if got := readAtStart(same, load(tt.edit)); got != tt.want {
			t.Errorf("readAtStart = %q, want %q", got, tt.want)
		}
	}
}
