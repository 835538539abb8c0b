package dev

import (
	"testing"
	"time"

	"nstance.dev/providers/local/rules"
	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
)

func TestConfig_loads(t *testing.T) {
	text, err := Config(ConfigOptions{
		MachinesDir: "/tmp/d/machines", EncryptionKeyFile: "/tmp/d/encryption.key", Size: 3, Arch: "amd64", Userdata: "#!/bin/sh\n# {{ .Nonce }}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load("dev.jsonc", text, config.LoadOptions{Shard: Shard, Storage: "file", Rules: rules.New()})
	if err != nil {
		t.Fatal(err)
	}
	groups, problems := effective.Groups(cfg, nil)
	if len(problems) > 0 || len(cfg.Warnings) > 0 {
		t.Errorf("problems %v, warnings %v", problems, cfg.Warnings)
	}
	g := groups[document.GroupKey{Tenant: document.DefaultTenant, Group: "web"}]
	if g == nil || g.Size != 3 || g.Kind != "dev" || g.DrainTimeout != 0 || len(g.Subnets) != 1 {
		t.Errorf("group web = %+v", g)
	}
	if cfg.Server.ShardElection.FrequentInterval.Std() != 5*time.Second/3 {
		t.Errorf("frequent_interval = %v", cfg.Server.ShardElection.FrequentInterval)
	}
}

func TestConfig_ofAGroupOfModeDemand(t *testing.T) {
	text, err := Config(ConfigOptions{
		MachinesDir: "/tmp/d/machines", EncryptionKeyFile: "/tmp/d/encryption.key", Arch: "amd64", Userdata: "#!/bin/sh\n# {{ .Nonce }}\n",
		Group: "pool", Demand: `{"max": 4, "release_hold": "30s"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load("dev.jsonc", text, config.LoadOptions{Shard: Shard, Storage: "file", Rules: rules.New()})
	if err != nil {
		t.Fatal(err)
	}
	groups, problems := effective.Groups(cfg, nil)
	if len(problems) > 0 || len(cfg.Warnings) > 0 {
		t.Errorf("problems %v, warnings %v", problems, cfg.Warnings)
	}
	g := groups[document.GroupKey{Tenant: document.DefaultTenant, Group: "pool"}]
	if g == nil || g.Demand == nil || *g.Demand.Max != 4 || g.Demand.ReleaseHold.Std() != 30*time.Second || len(groups) != 1 {
		t.Errorf("group pool = %+v of %d", g, len(groups))
	}
}

func TestConfig_refusesWhatLoadRefuses(t *testing.T) {
	for name, opts := range map[string]ConfigOptions{
		"no architecture": {MachinesDir: "/m", EncryptionKeyFile: "/k"},
		"negative size":   {MachinesDir: "/m", EncryptionKeyFile: "/k", Arch: "arm64", Size: -1},
		"no block":        {MachinesDir: "/m", EncryptionKeyFile: "/k", Arch: "arm64", Demand: "4"},
		"more than one":   {MachinesDir: "/m", EncryptionKeyFile: "/k", Arch: "arm64", Demand: `{"max": 4}, "other": {}`},
		"unknown field":   {MachinesDir: "/m", EncryptionKeyFile: "/k", Arch: "arm64", Demand: `{"size": 4}`},
		"bad group":       {MachinesDir: "/m", EncryptionKeyFile: "/k", Arch: "arm64", Group: "a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Config(opts); err == nil {
				t.Error("no error")
			}
		})
	}
}
