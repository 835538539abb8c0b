package config_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/config"
	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
)

func TestLoad_full(t *testing.T) {
	cfg := configtest.LoadFull(t)
	for _, w := range cfg.Warnings {
		if w.Message != "reserved: no effect before tenant sleep" {
			t.Errorf("warning: %v", w)
		}
	}
	s := cfg.Server
	for _, c := range []struct {
		field     string
		got, want any
	}{
		{"expiry.eligible_age", s.Expiry.EligibleAge.Std(), 21 * 24 * time.Hour},
		{"cluster_election.enabled", s.ClusterElection.Enabled, false},
		{"cluster_election.frequent_interval", s.ClusterElection.FrequentInterval.Std(), 10 * time.Second},
		{"registration.check_source", s.Registration.CheckSource, document.SourceCheckOff},
		{"rails.max_unavailable", s.Rails.MaxUnavailable, document.Percent(20)},
		{"limits.instances", *s.Provider.Limits.Instances, document.Bucket{Rate: 2.5, Burst: 1000}},
		{"load balancer's provider", cfg.LoadBalancers["int2"].Provider, "google"},
		{"vars", cfg.Defaults.Vars["port"], "8080"},
		{"userdata's source", cfg.Defaults.Userdata.Source, document.SourceInline},
		{"instance_type, one", cfg.Templates["knc"].InstanceType, document.InstanceTypes{"t4g.medium"}},
		{"instance_type, list", cfg.Templates["wrk"].InstanceType, document.InstanceTypes{"t4g.large", "t4g.xlarge"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", c.field, diff)
		}
	}
}

func TestLoad_defaults(t *testing.T) {
	cfg, err := config.Load("min.jsonc", []byte(configtest.Minimal), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.Server
	minutes := func(n int) document.Duration { return document.Duration(time.Duration(n) * time.Minute) }
	for _, c := range []struct {
		field     string
		got, want any
	}{
		{"request_timeout", s.RequestTimeout.String(), "30s"},
		{"health_check_interval", s.HealthCheckInterval.String(), "1m0s"},
		{"drain_timeout", s.DrainTimeout.String(), "5m0s"},
		{"garbage_collection", s.GarbageCollection, document.GarbageCollection{
			Interval: minutes(2), RegistrationTimeout: minutes(5), DeletedRecordRetention: minutes(30),
		}},
		{"expiry", s.Expiry, document.Expiry{}},
		{"shard_election", s.ShardElection, document.Election{
			Enabled: true, LeaderTimeout: document.Duration(15 * time.Second), FrequentInterval: document.Duration(5 * time.Second),
			InfrequentInterval: document.Duration(30 * time.Second), PeerInterval: document.Duration(500 * time.Millisecond),
		}},
		{"advertise", s.Advertise, document.Addresses{Health: ":8990", Election: ":8991", Registration: ":8992", Operator: ":8993", Agent: ":8994"}},
		{"secrets.prefix", s.Secrets.Prefix, "secret/"},
		{"check_source", s.Registration.CheckSource, document.SourceCheckWarn},
		{"client_cert_ttl", s.ClientCertTTL, document.ClientCertTTL{Agent: 720, Operator: 8760}},
		{"admin_tenants", s.AdminTenants, []string{"default"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", c.field, diff)
		}
	}
}

// A standby has to see the last renewal and take the lock within a tenth of the lease, whatever lease that is (L2).
func TestL2_theIntervalOfQuestionsFollowsTheLease(t *testing.T) {
	for leader, want := range map[string]time.Duration{
		`"leader_timeout": "5s"`:                           200 * time.Millisecond,
		`"leader_timeout": "10s"`:                          400 * time.Millisecond,
		`"leader_timeout": "1h"`:                           500 * time.Millisecond,
		`"leader_timeout": "5s", "peer_interval": "500ms"`: 500 * time.Millisecond,
	} {
		text := strings.Replace(configtest.Minimal, `"server": {`, `"server": {"shard_election": {`+leader+`},`, 1)
		cfg, err := config.Load("min.jsonc", []byte(text), config.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Server.ShardElection.PeerInterval.Std(); got != want {
			t.Errorf("%s: questions every %v, want %v", leader, got, want)
		}
	}
}

func TestF50_textThatIsNoDocument(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":      {"", "f:1:1: the document is empty; write an object: { … }"},
		"NUL":        {"{\n \x00}", "f:2:2: NUL byte"},
		"NUL inside": {`{"x": "\u0000"}`, "f:1:7: x: the text contains a NUL"},
		"not UTF-8":  {"{ // \xff\n}", "f:1:6: not UTF-8"},
		"too deep":   {strings.Repeat("[", 100_000), "f:1:65: nested deeper than 64 levels"},
		"50 MiB":     {strings.Repeat(" ", 50<<20), "f:1:1: the document has 52428800 bytes; keep it under 8 MiB"},
		"a list":     {"[]", "f:1:1: expected an object, found a list"},
		"cut off":    {`{"server": {"shard": "a"`, "f:1:25: parsing object after value: unexpected EOF"},
		"two values": {"{}\n{}", "f:2:1: invalid character '{' after top-level value"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load("f", []byte(c.text), config.LoadOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Load = %v, want %s", err, c.want)
			}
		})
	}
}

func TestLoad_shardAndProviderMustBeTheServers(t *testing.T) {
	_, err := config.Load("f", []byte(configtest.Minimal), config.LoadOptions{Shard: "other", Rules: &driver.Rules{Kind: "aws", RequiredOptions: []string{"dir"}}})
	for _, want := range []string{"is not the shard that was asked for", "this server is built for aws", "server.provider.options.dir: required"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load = %v, want %s", err, want)
		}
	}
}

func TestLoad_ignoredNamesAreToldOf(t *testing.T) {
	text := strings.Replace(configtest.Minimal, `"server"`, `"x-note": {"anything": 1}, "groups": {"x-team": 1}, "server"`, 1)
	cfg, err := config.Load("f", []byte(text), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) != 2 || cfg.Warnings[0].Path != "groups.x-team" || cfg.Warnings[1].Path != "server.secrets" {
		t.Errorf("warnings = %v", cfg.Warnings)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(configtest.Full())
	f.Add([]byte(configtest.Minimal))
	f.Add([]byte(`{"server": {"rails": {"maintenance_windows": [{"cron": "TZ=0"}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := config.Load("f", data, config.LoadOptions{Rules: configtest.Rules})
		if (cfg == nil) == (err == nil) {
			t.Fatalf("Load = %v, %v", cfg, err)
		}
		if err != nil {
			if bytes.ContainsRune([]byte(err.Error()), 0) {
				t.Errorf("a NUL in %q", err)
			}
			return
		}
		groups, problems := effective.Groups(cfg, nil)
		for key, g := range groups {
			if g.Blocked != "" || len(problems) > 0 {
				t.Errorf("%v of a valid configuration is blocked: %s", key, g.Blocked)
			}
		}
	})
}
