package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/driver"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file under testdata, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func loadFull(t testing.TB) *Config {
	t.Helper()
	cfg, err := Load("full.jsonc", readFile(t, "full.jsonc"), LoadOptions{Shard: "us-west-2a", Storage: "s3"})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestLoad_full(t *testing.T) {
	cfg := loadFull(t)
	for _, w := range cfg.Warnings {
		if !strings.HasPrefix(w.Message, "has no effect: ") {
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
		{"registration.check_source", s.Registration.CheckSource, SourceCheckOff},
		{"rails.max_unavailable", s.Rails.MaxUnavailable, Percent(20)},
		{"limits.instances", *s.Provider.Limits.Instances, Bucket{2.5, 1000}},
		{"load balancer's provider", cfg.LoadBalancers["int2"].Provider, "google"},
		{"vars", cfg.Defaults.Vars["port"], "8080"},
		{"userdata's source", cfg.Defaults.Userdata.Source, SourceInline},
		{"instance_type, one", cfg.Templates["knc"].InstanceType, InstanceTypes{"t4g.medium"}},
		{"instance_type, list", cfg.Templates["wrk"].InstanceType, InstanceTypes{"t4g.large", "t4g.xlarge"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", c.field, diff)
		}
	}
}

const minimal = `{
  "server": { "cluster_id": "c", "shard": "s", "provider": { "kind": "local", "zone": "z" }, "subnet_pools": { "p": ["n"] } }
}`

func TestLoad_defaults(t *testing.T) {
	cfg, err := Load("min.jsonc", []byte(minimal), LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.Server
	for _, c := range []struct {
		field     string
		got, want any
	}{
		{"request_timeout", s.RequestTimeout.String(), "30s"},
		{"health_check_interval", s.HealthCheckInterval.String(), "1m0s"},
		{"drain_timeout", s.DrainTimeout.String(), "5m0s"},
		{"garbage_collection", s.GarbageCollection, GarbageCollection{Duration(2 * time.Minute), Duration(5 * time.Minute), Duration(30 * time.Minute)}},
		{"expiry", s.Expiry, Expiry{}},
		{"shard_election", s.ShardElection, Election{true, Duration(15 * time.Second), Duration(5 * time.Second), Duration(30 * time.Second), Duration(500 * time.Millisecond)}},
		{"advertise", s.Advertise, Addresses{":8990", ":8991", ":8992", ":8993", ":8994"}},
		{"secrets.prefix", s.Secrets.Prefix, "secret/"},
		{"check_source", s.Registration.CheckSource, SourceCheckWarn},
		{"client_cert_ttl", s.ClientCertTTL, ClientCertTTL{720, 8760}},
		{"admin_tenants", s.AdminTenants, []string{"default"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", c.field, diff)
		}
	}
}

var testRules = &driver.Rules{
	Kind: "aws", ForbiddenArgs: []string{"UserData"},
	CheckInstanceType: func(typ, arch string) error {
		if strings.HasPrefix(typ, "t4g.") == (arch == "arm64") {
			return nil
		}
		if strings.HasPrefix(typ, "odd.") {
			return driver.ErrUnknownType
		}
		return fmt.Errorf("%s is not of architecture %s", typ, arch)
	},
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
			_, err := Load("f", []byte(c.text), LoadOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Load = %v, want %s", err, c.want)
			}
		})
	}
}

func TestLoad_shardAndProviderMustBeTheServers(t *testing.T) {
	_, err := Load("f", []byte(minimal), LoadOptions{Shard: "other", Rules: &driver.Rules{Kind: "aws", RequiredOptions: []string{"dir"}}})
	for _, want := range []string{"is not the shard that was asked for", "this server is built for aws", "server.provider.options.dir: required"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load = %v, want %s", err, want)
		}
	}
}

func TestLoad_ignoredNamesAreToldOf(t *testing.T) {
	text := strings.Replace(minimal, `"server"`, `"x-note": {"anything": 1}, "groups": {"x-team": 1}, "server"`, 1)
	cfg, err := Load("f", []byte(text), LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) != 2 || cfg.Warnings[0].Path != "groups.x-team" || cfg.Warnings[1].Path != "server.secrets" {
		t.Errorf("warnings = %v", cfg.Warnings)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(readFile(f, "full.jsonc"))
	f.Add([]byte(minimal))
	f.Add([]byte(`{"server": {"rails": {"maintenance_windows": [{"cron": "TZ=0"}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Load("f", data, LoadOptions{Rules: testRules})
		if (cfg == nil) == (err == nil) {
			t.Fatalf("Load = %v, %v", cfg, err)
		}
		if err != nil {
			if bytes.ContainsRune([]byte(err.Error()), 0) {
				t.Errorf("a NUL in %q", err)
			}
			return
		}
		groups, problems := Effective(cfg, nil)
		for key, g := range groups {
			if g.Held != "" || len(problems) > 0 {
				t.Errorf("%v of a valid configuration is held: %s", key, g.Held)
			}
		}
	})
}
