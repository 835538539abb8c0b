package chart_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"nstance.dev/operator/config"
	"nstance.dev/operator/demand/translate"
)

func operator(t *testing.T, v values) corev1.PodSpec {
	t.Helper()
	return as[appsv1.Deployment](t, find(t, render(t, v), "Deployment", "nstance-operator")).Spec.Template.Spec
}

// TestTheOperatorHasNoPowerOverItsNode: the Pod meets the restricted Pod security
// standard.
func TestTheOperatorHasNoPowerOverItsNode(t *testing.T) {
	pod := operator(t, least())
	c := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		!slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%+v, %+v", pod.SecurityContext, c.SecurityContext)
	}
}

// TestPortsFollowTheirAddresses: probes, metrics and webhooks are found where the
// operator listens.
func TestPortsFollowTheirAddresses(t *testing.T) {
	ports := func(v values) map[string]int32 {
		got := map[string]int32{}
		for _, p := range operator(t, v).Containers[0].Ports {
			got[p.Name] = p.ContainerPort
		}
		return got
	}
	for _, tt := range []struct {
		values values
		want   map[string]int32
	}{
		{nil, map[string]int32{"health": 8081, "metrics": 8080, "webhook": 9443}},
		{values{"metrics": values{"address": "0"}, "webhook": values{"enabled": false}}, map[string]int32{"health": 8081}},
		{values{"metrics": values{"address": "[::]:9000"}, "healthProbeAddr": "127.0.0.1:9001", "webhook": values{"port": 9002}},
			map[string]int32{"health": 9001, "metrics": 9000, "webhook": 9002}},
	} {
		if diff := cmp.Diff(tt.want, ports(least(tt.values))); diff != "" {
			t.Error(diff)
		}
	}
}

// TestTheConfigurationIsOneTheOperatorTakes: what the chart writes is read as it was
// meant.
func TestTheConfigurationIsOneTheOperatorTakes(t *testing.T) {
	r := render(t, least(values{"config": values{
		"tenant": "red", "import": values{"pools": "per-shard", "exclude": []any{"control-plane"}},
		"shards": values{"us-west-2c": values{"operator_addr": "a:1, b:2", "registration_addr": "c:3"}},
	}}))
	file := as[corev1.ConfigMap](t, find(t, r, "ConfigMap", "nstance-operator-config")).Data["config.yaml"]
	shards := as[corev1.ConfigMap](t, find(t, r, "ConfigMap", "nstance-shards")).Data
	got, err := config.Parse(config.Sources{File: []byte(file), Shards: shards})
	if err != nil {
		t.Fatalf("%v\n%s\n%v", err, file, shards)
	}
	var names []string
	for _, s := range got.Shards {
		names = append(names, s.Name)
	}
	if got.ClusterID != "example" || got.Tenant != "red" || got.Import.Pools != config.PerShard || !slices.Equal(got.Import.Exclude, []string{"control-plane"}) ||
		!slices.Equal(names, []string{"us-west-2a", "us-west-2b", "us-west-2c"}) {
		t.Errorf("%+v", got)
	}
}

// TestTheNetworkPolicyLetsTheOperatorOut: to the addresses that it works with, and those that
// it registers at, also where nobody wrote them down.
func TestTheNetworkPolicyLetsTheOperatorOut(t *testing.T) {
	r := render(t, least(values{"networkPolicy": values{"enabled": true}, "config": values{"shards": values{
		"us-west-2c": values{"operator_addr": "10.0.0.3:1, 10.0.0.4:2", "registration_addr": "10.0.0.5:3"}, "us-west-2d": values{"operator_addr": "d.example.com:4"},
	}}}))
	var got []string
	for _, rule := range as[networkingv1.NetworkPolicy](t, find(t, r, "NetworkPolicy", "nstance-operator")).Spec.Egress {
		to := "anywhere"
		if len(rule.To) > 0 {
			to = rule.To[0].IPBlock.CIDR
		}
		for _, port := range rule.Ports {
			got = append(got, to+" "+port.Port.String())
		}
	}
	want := []string{
		"anywhere 443", "anywhere 6443", "anywhere 53", "anywhere 53", "10.0.0.1/32 8993", "10.0.0.1/32 8992", "fd00::1/128 8993", "fd00::1/128 8992",
		"10.0.0.3/32 1", "10.0.0.4/32 2", "10.0.0.5/32 3", "anywhere 4", "anywhere 8992",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestS14_TheTokenStandsInASecretAlone: it is neither an argument nor a variable.
func TestS14_TheTokenStandsInASecretAlone(t *testing.T) {
	r := render(t, least(values{"registration": values{"jwt": "planted-token"}}))
	for _, o := range r.Objects {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "planted-token") != (o.GetKind() == "Secret") {
			t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), text)
		}
	}
}

// allOfDemand are values of demand mode that are not the defaults.
func allOfDemand() values {
	return values{
		"enabled": true, "podSource": "cr", "affinityAlternatives": false, "volumeTopology": false,
		"penaltyAnnotationPrefixes": []any{"other.example", "nstance.dev"},
		"priorityClassPenalties":    values{"batch": values{"interruptionPenalty": "0.01", "reclamationPenalty": 2}},
		"reconnectInitialBackoff":   "1s", "reconnectMaxBackoff": "1m", "outboxCapacity": 10, "dispatchConcurrency": 8, "maxMessage": 2000000, "keepaliveInterval": "30s",
		"keepaliveTimeout": "5s", "defaultDrainGrace": "2m", "reclaimFitCheck": false, "foreignAnnotations": false, "kubeApiQps": 20, "kubeApiBurst": 100000, "rollupInterval": "5s", "rollupMinInterval": "0s",
		"acknowledgeConcurrency": 4, "countForeignNodes": true, "unitClasses": "off", "daemonsetOverhead": "template", "stuckPodSurcharge": false,
		"upc": values{"qps": 2000, "burst": 4000, "workers": 32, "pageSize": 1000},
	}
}

// sessionsOfDemand and rollupsOfDemand are what they say of the rest.
var (
	sessionsOfDemand = config.DemandSessions{
		InitialBackoff: time.Second, MaxBackoff: time.Minute, Outbox: 10, Dispatch: 8, MaxMessage: 2000000, KeepaliveInterval: 30 * time.Second, KeepaliveTimeout: 5 * time.Second,
		DrainGrace: 2 * time.Minute, QPS: 20, Burst: 100000,
	}
	rollupsOfDemand = config.DemandRollups{
		Interval: 5 * time.Second, Acknowledgements: 4, CountForeign: true, UnitClasses: config.UnitClassesOff, Overhead: config.OverheadTemplate,
	}
)

// podsOfDemand is what they say of Pods.
var podsOfDemand = config.DemandPods{
	QPS: 2000, Burst: 4000, Workers: 32, PageSize: 1000,
	PenaltyPrefixes: []string{"other.example", "nstance.dev"}, PenaltyFile: "/etc/nstance/penalties/classes.yaml",
}

// TestTheProcessOfPodsTakesItsArguments: it knows every flag that the chart gives it, they are those of the
// operator, and the file of penalties is one that it reads.
func TestTheProcessOfPodsTakesItsArguments(t *testing.T) {
	v := least(values{"demand": allOfDemand()}, values{"demand": values{"upc": values{"ownProcess": true}}, "metrics": values{"secure": true}, "pprofAddr": "127.0.0.1:6060", "cacheSyncTimeout": "1h"})
	r := render(t, v)
	pod := as[appsv1.Deployment](t, find(t, r, "Deployment", "nstance-operator-pod-demand")).Spec.Template.Spec
	c := pod.Containers[0]
	got, err := config.PodDemand.ParseFlags(c.Args, func(string) string { return "" }, "nstance")
	if err != nil {
		t.Fatal(err)
	}
	want := config.Settings{
		Namespace: "nstance", LeaderElect: true, KubeAPI: config.KubeAPI{CacheSyncTimeout: time.Hour},
		Listeners: config.Listeners{ProbeAddress: ":8081", MetricsAddress: ":8080", PprofAddress: "127.0.0.1:6060", MetricsSecure: true},
		OnDemand:  config.OnDemandOff, Demand: config.Demand{Pods: podsOfDemand},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(c.Command, []string{"/nstance-pod-demand"}) || !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		c.VolumeMounts[0].MountPath != "/etc/nstance/penalties" {
		t.Errorf("container %+v", c)
	}
	file := as[corev1.ConfigMap](t, find(t, r, "ConfigMap", pod.Volumes[0].ConfigMap.Name)).Data["classes.yaml"]
	classes, err := translate.ParseClasses([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if batch := classes["batch"]; batch.Interruption.String() != "10m" || batch.Reclamation.String() != "2" {
		t.Errorf("penalties %v of\n%s", batch, file)
	}
}

// TestTheOperatorTakesItsArguments: it knows every flag and variable that the chart gives
// it, and they arrive.
func TestTheOperatorTakesItsArguments(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values values
		want   func(*config.Settings)
	}{
		{"least", nil, func(*config.Settings) {}},
		{"all else", values{
			"replicaCount": 1, "leaderElection": values{"enabled": false}, "watchFilter": "red", "machinePoolMachines": false,
			"registration":   values{"secretName": "given", "key": "token"},
			"managedSecrets": values{"key": "k", "cert": "c"}, "ca": values{"configMapName": "authority"},
			"onDemand": values{"mode": "off", "provisionTimeout": "20m", "linger": "2m", "namespaces": []any{"red", "blue"}, "maxPerNamespace": 100000}, "memoryFactor": 0.8,
			"drain":   values{"concurrency": 3, "force": "Never", "evictionQps": 0.5},
			"capi":    values{"serviceAccountName": "core", "endpoint": "https://api.example.com:6443", "apiServer": "https://10.0.0.9:6443"},
			"webhook": values{"port": 9999, "certManager": values{"enabled": true}},
			"metrics": values{"address": "0", "secure": true}, "healthProbeAddr": ":9001", "pprofAddr": "127.0.0.1:6060", "cacheSyncTimeout": "20m", "log": values{"level": "debug", "format": "text"},
			"extraArgs": []any{"--poll-interval=1m"},
		}, func(s *config.Settings) {
			s.LeaderElect, s.WatchFilter, s.MachinePoolMachines = false, "red", false
			s.NonceSecret, s.NonceKey, s.KeySecret, s.CertSecret, s.CAConfigMap = "given", "token", "k", "c", "authority"
			s.OnDemand, s.OnDemandProvisionTimeout, s.OnDemandLinger = config.OnDemandOff, 20*time.Minute, 2*time.Minute
			s.OnDemandNamespaces, s.OnDemandMaxPerNamespace, s.MemoryFactor = []string{"red", "blue"}, 100000, 0.8
			s.DrainConcurrency, s.DrainForce, s.EvictionQPS = 3, config.ForceNever, 0.5
			s.ServiceAccount, s.WorkloadEndpoint, s.APIServer = "core", "https://api.example.com:6443", "https://10.0.0.9:6443"
			s.WebhookPort, s.WebhookCertDir = 9999, "/etc/nstance/webhook"
			s.MetricsAddress, s.MetricsSecure, s.ProbeAddress = "0", true, ":9001"
			s.PprofAddress, s.KubeAPI.CacheSyncTimeout = "127.0.0.1:6060", 20*time.Minute
			s.LogLevel, s.LogText, s.PollInterval = slog.LevelDebug, true, time.Minute
		}},
		{"demand mode", values{"demand": values{"enabled": true}}, func(s *config.Settings) { s.Demand.Enabled = true }},
		{"demand mode, all else", values{"demand": allOfDemand()}, func(s *config.Settings) {
			s.Demand = config.Demand{Enabled: true, PodSource: config.PodSourceCR, Bootstrap: s.Demand.Bootstrap, Pods: podsOfDemand, Sessions: sessionsOfDemand, Rollups: rollupsOfDemand}
			s.Demand.Pods.Controller = true
		}},
		{"demand mode, Pods in a process of their own", values{"demand": values{"enabled": true, "upc": values{"ownProcess": true}}}, func(s *config.Settings) {
			s.Demand.Enabled, s.Demand.Pods.Controller = true, false
		}},
		{"no webhooks", values{"webhook": values{"enabled": false}}, func(s *config.Settings) { s.Webhooks = false }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, err := config.ParseFlags(nil, func(string) string { return "" }, "nstance")
			if err != nil {
				t.Fatal(err)
			}
			want.LeaderElect, want.MetricsAddress, want.MetricsSecure = true, ":8080", false // the chart's own defaults
			tt.want(&want)
			c := operator(t, least(tt.values)).Containers[0]
			env := map[string]string{"NSTANCE_NAMESPACE": "nstance"}
			for _, e := range c.Env {
				if e.ValueFrom == nil {
					env[e.Name] = e.Value
				}
			}
			asked := map[string]bool{}
			got, err := config.ParseFlags(c.Args, func(name string) string { asked[name] = true; return env[name] }, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			for name := range env {
				if !asked[name] {
					t.Errorf("the operator does not know %s", name)
				}
			}
		})
	}
}
