package settings_test

import (
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/agent/interruption"
	"nstance.dev/agent/settings"
	"nstance.dev/protos/identity"
)

const id = "knc068a3cp3thz5z2mv1gejwftabc"

func least() map[string]string {
	return map[string]string{
		identity.EnvInstanceID:             id,
		identity.EnvServerRegistrationAddr: "10.0.0.1:8992",
		identity.EnvServerAgentAddr:        "10.0.0.1:8994",
	}
}

func defaults() settings.Settings {
	return settings.Settings{
		Environment:       "development",
		RegistrationAddrs: []string{"10.0.0.1:8992"},
		AgentAddrs:        []string{"10.0.0.1:8994"},
		Identity:          settings.Place{Dir: "/opt/nstance-agent/identity", Mode: 0o600},
		Keys:              settings.Place{Dir: "/opt/nstance-agent/keys", Mode: 0o640},
		Recv:              settings.Place{Dir: "/opt/nstance-agent/recv", Mode: 0o640},
		Cluster:           settings.Cluster{Dir: "/opt/nstance-agent/cluster", Status: "/var/lib/nstance-cluster/status"},
		PaverSocket:       "/run/nstance/paver.sock",
		InstanceID:        id,
	}
}

func parse(env map[string]string) (settings.Settings, error) {
	return settings.Parse(func(name string) string { return env[name] })
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want func(*settings.Settings)
	}{
		{"the defaults", nil, func(*settings.Settings) {}},
		{"everything", map[string]string{
			identity.EnvDebug: "true", identity.EnvEnvironment: "prod",
			identity.EnvIdentityDir: "/a/./b", identity.EnvIdentityMode: "0640",
			identity.EnvKeysDir: "/k", identity.EnvKeysMode: "600",
			identity.EnvRecvDir: "/r", identity.EnvRecvMode: "0644",
			identity.EnvClusterDir: "/c/", identity.EnvClusterStatus: "/s/status", identity.EnvPaverSocket: "/p/./sock",
			identity.EnvInstanceKind: "knc", identity.EnvInstanceHostname: "web-1", identity.EnvInstanceFQDN: "web-1.example.com",
			identity.EnvInstanceIPv4: "10.0.0.7", identity.EnvInstanceIPv6: "fd00::7",
			identity.EnvReportInterval: "30s", identity.EnvMetricsInterface: "eth0", identity.EnvHealthAddr: ":8080",
			identity.EnvServerAgentAddr: "10.0.0.1:8994, [fd00::1]:8994",
			identity.EnvProvider:        "gcp", identity.EnvSpotPollInterval: "5s", identity.EnvMetadataAddr: "127.0.0.1:8080",
		}, func(s *settings.Settings) {
			s.Debug, s.Environment = true, "prod"
			s.Identity, s.Keys, s.Recv = settings.Place{Dir: "/a/b", Mode: 0o640}, settings.Place{Dir: "/k", Mode: 0o600}, settings.Place{Dir: "/r", Mode: 0o644}
			s.Cluster, s.PaverSocket = settings.Cluster{Dir: "/c", Status: "/s/status"}, "/p/sock"
			s.Hostname, s.IPv4, s.IPv6 = "web-1", netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")
			s.Report.Interval, s.MetricsInterface, s.HealthAddr = 30*time.Second, "eth0", ":8080"
			s.Provider, s.SpotPollInterval = interruption.Google, 5*time.Second
			s.MetadataAddr = netip.MustParseAddrPort("127.0.0.1:8080")
			s.AgentAddrs = []string{"10.0.0.1:8994", "[fd00::1]:8994"}
		}},
		{"an address file replaces the addresses", map[string]string{
			identity.EnvServerAddrFile: "/run/leader.json", identity.EnvServerAgentAddr: "", identity.EnvServerRegistrationAddr: "nonsense",
		}, func(s *settings.Settings) {
			s.AddrFile, s.RegistrationAddrs, s.AgentAddrs = "/run/leader.json", nil, nil
		}},
		{"the qualified name where there is no other", map[string]string{identity.EnvInstanceFQDN: "web-1.example.com"},
			func(s *settings.Settings) { s.Hostname = "web-1.example.com" }},
		{"no reports", map[string]string{identity.EnvReportInterval: "0"}, func(s *settings.Settings) { s.Report.Disabled = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env, want := least(), defaults()
			maps.Copy(env, tt.env)
			tt.want(&want)
			got, err := parse(env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})); diff != "" {
				t.Errorf("settings differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ variable, value, says string }{
		{identity.EnvInstanceID, "", "is required"},
		{identity.EnvInstanceID, "web-1", "invalid id"},
		{identity.EnvInstanceKind, "wrk", `differs from "knc"`},
		{identity.EnvServerRegistrationAddr, "", "is required"},
		{identity.EnvServerAgentAddr, "10.0.0.1", "host:port"},
		{identity.EnvServerAgentAddr, ":8994", "host:port"},
		{identity.EnvServerAgentAddr, "10.0.0.1:8994,", "host:port"},
		{identity.EnvServerAgentAddr, "10.0.0.1:0", "port"},
		{identity.EnvServerAgentAddr, "10.0.0.1:http", "port"},
		{identity.EnvServerAddrFile, "leader.json", "absolute"},
		{identity.EnvIdentityDir, "identity", "absolute"},
		{identity.EnvKeysDir, "/opt/nstance-agent/identity", "directory of NSTANCE_IDENTITY_DIR too"},
		{identity.EnvIdentityMode, "0800", "octal"},
		{identity.EnvIdentityMode, "rw", "octal"},
		{identity.EnvIdentityMode, "0400", "own files"},
		{identity.EnvKeysMode, "0644", "every user"},
		{identity.EnvRecvMode, "0755", "executable"},
		{identity.EnvClusterDir, "cluster", "absolute"},
		{identity.EnvClusterDir, "/opt/nstance-agent/recv", "its own"},
		{identity.EnvClusterStatus, "status", "absolute"},
		{identity.EnvPaverSocket, "paver.sock", "absolute"},
		{identity.EnvInstanceHostname, "web_1", "host name"},
		{identity.EnvInstanceFQDN, "a..b", "host name"},
		{identity.EnvInstanceIPv4, "fd00::1", "IPv4"},
		{identity.EnvInstanceIPv6, "10.0.0.1", "IPv6"},
		{identity.EnvInstanceIPv6, "fe80::1%eth0", "IPv6"},
		{identity.EnvReportInterval, "60", "duration"},
		{identity.EnvReportInterval, "-1s", "less than"},
		{identity.EnvReportInterval, "1ms", "less than"},
		{identity.EnvMetricsInterface, "../eth0", "network interface"},
		{identity.EnvHealthAddr, "8080", "host:port"},
		{identity.EnvProvider, "azure", "is not aws, google, proxmox or local"},
		{identity.EnvSpotPollInterval, "2", "duration"},
		{identity.EnvSpotPollInterval, "1ms", "from 500ms to 1m0s"},
		{identity.EnvSpotPollInterval, "1h", "from 500ms to 1m0s"},
		{identity.EnvMetadataAddr, "metadata.google.internal:80", "not an IP address with a port"},
		{identity.EnvMetadataAddr, "127.0.0.1:0", "not an IP address with a port"},
		{identity.EnvDebug, "yes", "true nor false"},
	} {
		t.Run(tt.variable+"="+tt.value, func(t *testing.T) {
			env := least()
			env[tt.variable] = tt.value
			_, err := parse(env)
			if !errors.Is(err, settings.ErrInvalid) || !strings.Contains(err.Error(), tt.variable) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one that names %s and says %q", err, tt.variable, tt.says)
			}
		})
	}
}

func TestParseReportsEverythingAtOnce(t *testing.T) {
	_, err := parse(map[string]string{identity.EnvDebug: "x", identity.EnvReportInterval: "y", identity.EnvHealthAddr: "z"})
	for _, name := range []string{
		identity.EnvDebug, identity.EnvReportInterval, identity.EnvHealthAddr,
		identity.EnvInstanceID, identity.EnvServerRegistrationAddr, identity.EnvServerAgentAddr,
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not name %s", err, name)
		}
	}
}

func TestDirMode(t *testing.T) {
	for file, want := range map[fs.FileMode]fs.FileMode{0o600: 0o700, 0o640: 0o750, 0o644: 0o755, 0o660: 0o770} {
		if got := (settings.Place{Mode: file}).DirMode(); got != want {
			t.Errorf("files %#o: directory %#o, want %#o", file, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(identity.EnvServerAgentAddr, "a:1,b:2")
	f.Add(identity.EnvReportInterval, "30s")
	f.Add(identity.EnvRecvMode, "0644")
	f.Add(identity.EnvInstanceID, "x")
	f.Fuzz(func(t *testing.T, name, value string) {
		env := least()
		env[name] = value
		s, err := parse(env)
		if err != nil {
			if !errors.Is(err, settings.ErrInvalid) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if s.InstanceID == "" || s.AddrFile == "" && (len(s.AgentAddrs) == 0 || len(s.RegistrationAddrs) == 0) {
			t.Fatalf("incomplete settings %+v", s)
		}
		if s.Identity.Mode&0o007 != 0 || s.Keys.Mode&0o007 != 0 || s.Identity.Dir == s.Recv.Dir {
			t.Fatalf("unsafe settings %+v", s)
		}
		if s.Report.Interval != 0 && s.Report.Interval < 500*time.Millisecond {
			t.Fatalf("interval %v", s.Report.Interval)
		}
	})
}
