package config_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/config"
)

// env returns an environment of name, value, name, value.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// noTemplate is what is said of the bootstrap of machines by default.
var noTemplate = config.DemandBootstrap{JoinTokenLife: 30 * time.Minute, JoinTokenGroups: []string{"system:bootstrappers:kubeadm:default-node-token"}}

// defaults are the settings of a Pod that is told nothing.
// demandSessions and demandRollups are the defaults of demand mode.
var (
	demandSessions = config.DemandSessions{
		InitialBackoff: 500 * time.Millisecond, MaxBackoff: 30 * time.Second, Outbox: 256, Dispatch: 32, MaxMessage: 4 << 20, KeepaliveInterval: 20 * time.Second,
		KeepaliveTimeout: 10 * time.Second, DrainGrace: 30 * time.Second, QPS: 200, Burst: 400,
	}
	demandRollups = config.DemandRollups{
		Interval: 10 * time.Second, MinInterval: time.Second, Acknowledgements: 16, UnitClasses: config.UnitClassesPow2, Overhead: config.OverheadAuto, Surcharge: true,
	}
)

func defaults() config.Settings {
	return config.Settings{
		Config: "/etc/nstance/operator/config.yaml", Namespace: "pod",
		Listeners: config.Listeners{ProbeAddress: ":8081", MetricsAddress: "0", PprofAddress: "0", MetricsSecure: true},
		Webhooks:  true, WebhookPort: 9443,
		MachinePoolMachines: true, MaxConcurrentReconciles: 10, KubeAPI: config.KubeAPI{QPS: -1, Burst: 100, CacheSyncTimeout: 10 * time.Minute},
		DrainConcurrency: 10, EvictionQPS: 20, DrainForce: config.ForceAtDeadline,
		OnDemand: config.OnDemandOff, OnDemandProvisionTimeout: 15 * time.Minute, OnDemandLinger: time.Minute, OnDemandMaxPerNamespace: 10,
		LeaderElect: true,
		Demand: config.Demand{PodSource: config.PodSourceBoth, Bootstrap: noTemplate, Pods: config.DemandPods{
			Controller: true, QPS: 50, Burst: 100, Workers: 16, PageSize: 500,
			Alternatives: true, VolumeTopology: true, PenaltyPrefixes: []string{"nstance.dev"},
		}, Sessions: demandSessions, Rollups: demandRollups, Reclaim: config.DemandReclaim{FitCheck: true, ForeignAnnotations: true}},
		PollInterval: 30 * time.Second, UnreachableGrace: 30 * time.Second, RedirectAfter: time.Minute,
		SetNodeProviderID: true, DeleteOrphanNodes: true, MemoryFactor: 0.925,
		Environment: config.Environment{
			CAConfigMap: "nstance-cluster-ca", NonceSecret: "nstance-operator-nonce", NonceKey: "nonce.jwt", KeySecret: "nstance-operator-key",
			CertSecret: "nstance-operator-cert", ShardsConfigMap: "nstance-shards",
			ServiceAccount: "nstance-capi-workload", APIServer: "https://kubernetes.default.svc:443",
			WebhookService: "nstance-operator-webhook", WebhookConfiguration: "nstance-operator",
			WebhookSecret: "nstance-operator-webhook-cert",
		},
	}
}

func TestSettings(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		env    func(string) string
		change func(*config.Settings)
	}{
		{name: "nothing", change: func(*config.Settings) {}},
		{
			name: "a variable is stronger than the Pod", env: env("NSTANCE_NAMESPACE", "told"),
			change: func(s *config.Settings) { s.Namespace = "told" },
		},
		{
			name: "a flag is stronger than a variable", env: env("NSTANCE_NAMESPACE", "told"), args: []string{"--namespace", "flag"},
			change: func(s *config.Settings) { s.Namespace = "flag" },
		},
		{
			name: "outside of a cluster", args: []string{"--kubeconfig=/k", "--namespace=flag"},
			change: func(s *config.Settings) { s.Namespace, s.Kubeconfig = "flag", "/k" },
		},
		{
			name: "switches", args: []string{"--disable-webhooks", "--leader-elect=false", "--metrics-secure=false", "--machinepool-machines=false"},
			change: func(s *config.Settings) {
				s.Webhooks, s.LeaderElect, s.MetricsSecure, s.MachinePoolMachines = false, false, false, false
			},
		},
		{
			name: "a limit of calls", args: []string{"--kube-api-qps=50", "--kube-api-burst=60"},
			change: func(s *config.Settings) { s.KubeAPI.QPS, s.KubeAPI.Burst = 50, 60 },
		},
		{name: "no limit of calls", args: []string{"--kube-api-qps=-1"}, change: func(*config.Settings) {}},
		{
			name: "two times", args: []string{"--shard-unreachable-grace", "45s,2m"},
			change: func(s *config.Settings) { s.UnreachableGrace, s.RedirectAfter = 45*time.Second, 2*time.Minute },
		},
		{
			name: "on demand for some namespaces", args: []string{"--on-demand-namespaces=a"},
			change: func(s *config.Settings) { s.OnDemand, s.OnDemandNamespaces = config.OnDemandGated, []string{"a"} },
		},
		{
			name: "on demand for all namespaces", args: []string{"--on-demand-namespaces=*", "--on-demand-max-per-namespace=0"},
			change: func(s *config.Settings) { s.OnDemand, s.OnDemandMaxPerNamespace = config.OnDemandGated, 0 },
		},
		{
			name: "on demand without a namespace is off", args: []string{"--on-demand=annotate"}, change: func(*config.Settings) {},
		},
		{
			name: "on demand", args: []string{"--on-demand=off", "--on-demand-namespaces=a,b", "--on-demand-linger=0s"},
			change: func(s *config.Settings) {
				s.OnDemand, s.OnDemandNamespaces, s.OnDemandLinger = config.OnDemandOff, []string{"a", "b"}, 0
			},
		},
		{
			name: "demand mode", args: []string{
				"--demand", "--pod-source=cr", "--pod-controller=false", "--demand-upc-qps=2000", "--demand-upc-burst=4000", "--demand-upc-workers=32",
				"--cache-sync-timeout=20m", "--demand-upc-page-size=1000", "--affinity-alternatives=false", "--volume-topology=false",
				"--penalty-annotation-prefix=nstance.dev", "--penalty-annotation-prefix=other.example", "--priority-class-penalties=/p.yaml",
			},
			change: func(s *config.Settings) {
				s.KubeAPI.CacheSyncTimeout = 20 * time.Minute
				s.Demand = config.Demand{Enabled: true, PodSource: config.PodSourceCR, Bootstrap: noTemplate, Pods: config.DemandPods{
					QPS: 2000, Burst: 4000, Workers: 32, PageSize: 1000,
					PenaltyPrefixes: []string{"nstance.dev", "other.example"}, PenaltyFile: "/p.yaml",
				}, Sessions: demandSessions, Rollups: demandRollups, Reclaim: config.DemandReclaim{FitCheck: true, ForeignAnnotations: true}}
			},
		},
		{
			name: "sessions and roll-ups of demand mode", args: []string{
				"--demand-reconnect-initial-backoff=1s", "--demand-reconnect-max-backoff=1m", "--demand-outbox-capacity=10", "--demand-dispatch-concurrency=8",
				"--demand-max-message=2000000", "--demand-keepalive-interval=30s", "--demand-keepalive-timeout=5s", "--demand-default-drain-grace=2m", "--demand-kube-api-qps=20", "--demand-kube-api-burst=40",
				"--demand-rollup-interval=5s", "--demand-rollup-min-interval=0", "--demand-acknowledge-concurrency=4", "--demand-count-foreign-nodes",
				"--unit-classes=off", "--daemonset-overhead=template", "--stuck-pod-surcharge=false", "--reclaim-fit-check=false", "--foreign-annotations=false",
			},
			change: func(s *config.Settings) {
				s.Demand.Sessions = config.DemandSessions{
					InitialBackoff: time.Second, MaxBackoff: time.Minute, Outbox: 10, Dispatch: 8, MaxMessage: 2000000, KeepaliveInterval: 30 * time.Second,
					KeepaliveTimeout: 5 * time.Second, DrainGrace: 2 * time.Minute, QPS: 20, Burst: 40,
				}
				s.Demand.Reclaim = config.DemandReclaim{}
				s.Demand.Rollups = config.DemandRollups{Interval: 5 * time.Second, Acknowledgements: 4, CountForeign: true, UnitClasses: config.UnitClassesOff, Overhead: config.OverheadTemplate}
			},
		},
		{
			name: "bootstrap of machines", args: []string{
				"--bootstrap-template-file=/etc/nstance/bootstrap/bootstrap.tmpl", "--demand-join-token-life=10m",
				"--demand-join-token-groups=system:bootstrappers:k3s:default-node-token,system:bootstrappers:x",
			},
			change: func(s *config.Settings) {
				s.Demand.Bootstrap = config.DemandBootstrap{
					TemplateFile: "/etc/nstance/bootstrap/bootstrap.tmpl", JoinTokenLife: 10 * time.Minute,
					JoinTokenGroups: []string{"system:bootstrappers:k3s:default-node-token", "system:bootstrappers:x"},
				}
			},
		},
		{
			name: "no join tokens", args: []string{"--demand-join-token-life=0"},
			change: func(s *config.Settings) { s.Demand.Bootstrap.JoinTokenLife = 0 },
		},
		{
			name: "logs", args: []string{"--log-level=debug", "--log-format=text"},
			change: func(s *config.Settings) { s.LogLevel, s.LogText = slog.LevelDebug, true },
		},
		{
			name: "another workload cluster", env: env("NSTANCE_CAPI_ENDPOINT", "https://[fd00::1]:6443", "NSTANCE_K8S_JSON", "true"),
			change: func(s *config.Settings) { s.WorkloadEndpoint, s.JSON = "https://[fd00::1]:6443", true },
		},
		{
			name: "host machines", args: []string{"--hosts", "--hosts-api-server=https://192.0.2.1:6443"},
			change: func(s *config.Settings) { s.Hosts, s.HostsAPIServer = true, "https://192.0.2.1:6443" },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			getenv := test.env
			if getenv == nil {
				getenv = env()
			}
			got, err := config.ParseFlags(test.args, getenv, "pod")
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			test.change(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEverythingThatIsWrongIsSaidAtOnce(t *testing.T) {
	args := []string{
		"stray", "--unknown", "--also-unknown=1", "--webhook-port=99999", "--leader-elect=maybe", "--drain-force=Sometimes",
		"--poll-interval=1s", "--shard-unreachable-grace=60s,30s", "--metrics-bind-address=8080", "--eviction-qps=0", "--kube-api-qps=0",
		"--pod-source=pods", "--demand-upc-qps=-1", "--demand-upc-workers=0", "--cache-sync-timeout=0s", "--penalty-annotation-prefix=a/b",
		"--demand-join-token-life=9m", "--demand-join-token-groups=system:masters", "--hosts-api-server=https://u@h:1",
		"--on-demand-namespaces=a,,B", "--log-level=loud", "--log-format=xml", "--memory-factor=2", "--kubeconfig=/k",
	}
	_, err := config.ParseFlags(args, env("NSTANCE_CAPI_ENDPOINT", "http://x", "NSTANCE_KEY_SECRET", "A B", "NSTANCE_K8S_JSON", "si"), "")
	var invalid *config.FlagError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	want := []string{
		`unexpected argument "stray"`, "unknown flag --unknown", "unknown flag --also-unknown",
		"--webhook-port: ", "--leader-elect: ", "--drain-force: ", "--poll-interval: ", "--shard-unreachable-grace: ",
		"--metrics-bind-address: ", "--eviction-qps: ", "--kube-api-qps: ", "--on-demand-namespaces: ", "--log-level: ", "--log-format: ",
		"--pod-source: ", "--demand-upc-qps: ", "--demand-upc-workers: ", "--cache-sync-timeout: ", "--penalty-annotation-prefix: ", "--demand-join-token-life: ", "--demand-join-token-groups: ", "--hosts-api-server: ",
		"--memory-factor: ", "NSTANCE_CAPI_ENDPOINT: ", "NSTANCE_KEY_SECRET: ", "NSTANCE_K8S_JSON: ",
		"--namespace: it is not known", "--namespace: it must be set",
	}
	for _, w := range want {
		if !slices.ContainsFunc(invalid.Problems, func(p string) bool { return strings.HasPrefix(p, w) }) {
			t.Errorf("nothing begins with %q", w)
		}
	}
	if len(invalid.Problems) != len(want) {
		t.Errorf("%d problems, want %d:\n%v", len(invalid.Problems), len(want), err)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for arg, want := range map[string]error{"--help": config.ErrHelp, "-h": config.ErrHelp, "--version": config.ErrVersion} {
		if _, err := config.ParseFlags([]string{arg, "--unknown"}, env(), ""); !errors.Is(err, want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	for _, part := range []string{"--shard-unreachable-grace", "NSTANCE_CA_CONFIGMAP", "(default nstance-cluster-ca)"} {
		if !strings.Contains(config.Operator.Usage(), part) {
			t.Errorf("the help lacks %s", part)
		}
	}
}

// A program takes the settings that it has, and refuses those of the other.
func TestPodDemandHasSettingsOfItsOwn(t *testing.T) {
	got, err := config.PodDemand.ParseFlags([]string{"--volume-topology=false", "--log-format=text"}, env("NSTANCE_NAMESPACE", "told"), "pod")
	if err != nil {
		t.Fatal(err)
	}
	all := defaults()
	want := config.Settings{
		Namespace: "told", Listeners: all.Listeners, LeaderElect: true, KubeAPI: config.KubeAPI{CacheSyncTimeout: all.KubeAPI.CacheSyncTimeout},
		OnDemand: config.OnDemandOff, Demand: config.Demand{Pods: all.Demand.Pods}, LogText: true,
	}
	want.Demand.Pods.Controller, want.Demand.Pods.VolumeTopology = false, false
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, flag := range []string{"--config=/c", "--demand", "--disable-webhooks"} {
		if _, err := config.PodDemand.ParseFlags([]string{flag}, env(), "pod"); err == nil {
			t.Errorf("%s is taken", flag)
		}
	}
}

// What the controller of Pods writes follows from three settings.
func TestWhoWritesRequests(t *testing.T) {
	for args, want := range map[string]bool{
		"": false, "--demand": true, "--demand --pod-controller=false": false, "--demand --pod-source=cr": true, "--demand --pod-source=direct": false,
		"--pod-controller": false,
	} {
		s, err := config.ParseFlags(strings.Fields(args), env(), "pod")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Demand.WritesRequests(); got != want {
			t.Errorf("%q: requests are written: %v", args, got)
		}
	}
}
