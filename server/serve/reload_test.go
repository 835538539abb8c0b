package serve

import (
	"testing"

	"nstance.dev/server/config"
)

func TestChangedForGood_namesWhatNeedsARestart(t *testing.T) {
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
		{"server.cluster_id", func(s *config.Server) { s.ClusterID = "other" }},
		{"server.provider", func(s *config.Server) { s.Provider.Options["dir"] = "/elsewhere" }},
		{"server.bind", func(s *config.Server) { s.Bind.Agent = "127.0.0.1:1" }},
		{"server.shard_election", func(s *config.Server) { s.ShardElection.LeaderTimeout *= 2 }},
		{"server.secrets", func(s *config.Server) { s.Secrets.EncryptionKey = nil }},
	} {
		if got := changedForGood(same, load(tt.edit)); got != tt.want {
			t.Errorf("changedForGood = %q, want %q", got, tt.want)
		}
	}
}
