package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// setting is a flag, an environment variable, or both: then the flag is the stronger.
type setting struct {
	flag     string // without dashes; empty: there is none
	env      string // empty: there is none
	fallback string
	meaning  string
	boolean  bool // the flag may stand alone
	repeated bool // the flag may be given more than once; its values are joined by commas
	set      func(*Settings, string) error
}

// name returns how people call the setting.
func (s setting) name() string {
	if s.flag == "" {
		return s.env
	}
	return "--" + s.flag
}

// table is every setting of the operator, in the order of the help.
var table = slices.Concat(processSettings, demandSettings, bootstrapSettings, podSettings, sessionSettings, rollupSettings, logSettings, environmentSettings)

// processSettings are those of the process and of its controllers.
var processSettings = []setting{
	text("config", "/etc/nstance/operator/config.yaml", "configuration file", func(s *Settings) *string { return &s.Config }, required),
	{
		flag: "namespace", env: "NSTANCE_NAMESPACE", fallback: "", meaning: "the one namespace of all objects that the operator keeps; the Pod's own where it is not set",
		set: into(func(s *Settings) *string { return &s.Namespace }, namespace),
	},
	text("kubeconfig", "", "kubeconfig to run outside of a cluster with; then the namespace must be set", func(s *Settings) *string { return &s.Kubeconfig }, anything),

	text("health-probe-bind-address", ":8081", "address of /healthz and /readyz", func(s *Settings) *string { return &s.ProbeAddress }, listenAddress),
	text("metrics-bind-address", "0", "address of /metrics; 0 is off", func(s *Settings) *string { return &s.MetricsAddress }, addressOrOff),
	text("pprof-bind-address", "0", "address of /debug/pprof/, which shows to everybody who reaches it what is in the process's memory: keep it on loopback, as 127.0.0.1:6060; 0 is off", func(s *Settings) *string { return &s.PprofAddress }, addressOrOff),
	toggle("metrics-secure", true, "serve metrics over TLS, to those whom the API server admits", func(s *Settings) *bool { return &s.MetricsSecure }),
	toggle("leader-elect", true, "run beside other replicas: one of them acts; false only where there is one process", func(s *Settings) *bool { return &s.LeaderElect }),

	{
		flag: "disable-webhooks", fallback: "false", boolean: true, meaning: "serve no webhooks",
		set: func(s *Settings, value string) error {
			off, err := boolean(value)
			s.Webhooks = !off
			return err
		},
	},
	number("webhook-port", "9443", "port of the webhooks", func(s *Settings) *int { return &s.WebhookPort }, 1, 65535),
	text("webhook-cert-dir", "", "directory with tls.crt and tls.key for the webhooks; empty: the operator makes them", func(s *Settings) *string { return &s.WebhookCertDir }, anything),

	text("watch-filter", "", "only objects with this value of the label cluster.x-k8s.io/watch-filter", func(s *Settings) *string { return &s.WatchFilter }, labelValue),
	toggle("machinepool-machines", true, "a Machine for each instance of a pool; without it the MachinePool has no Machines, only replicas, and the servers choose which instance goes", func(s *Settings) *bool { return &s.MachinePoolMachines }),
	number("max-concurrent-reconciles", "10", "objects of a kind that are worked on at once", func(s *Settings) *int { return &s.MaxConcurrentReconciles }, 1, 1000),
	rateOrNone("kube-api-qps", "-1", "calls to the API server in a second, over time; -1: no limit here, the API server's priority and fairness decides", func(s *Settings) *float32 { return &s.KubeAPI.QPS }),
	number("kube-api-burst", "100", "calls to the API server at once, where --kube-api-qps is a limit", func(s *Settings) *int { return &s.KubeAPI.Burst }, 1, 100000),
	duration("cache-sync-timeout", "10m", "time that the first list of all objects of a kind may take; a process that waits longer than that ends", func(s *Settings) *time.Duration { return &s.KubeAPI.CacheSyncTimeout }, time.Second, 24*time.Hour),

	number("drain-concurrency", "10", "Nodes that are drained at once", func(s *Settings) *int { return &s.DrainConcurrency }, 1, 1000),
	rate("eviction-qps", "20", "evictions in a second", func(s *Settings) *float32 { return &s.EvictionQPS }),
	choice("drain-force", "AtDeadline", "when Pods that budgets hold are deleted: AtDeadline, shortly before the machine ends, or Never", func(s *Settings) *DrainForce { return &s.DrainForce }, ForceAtDeadline, ForceNever),

	choice("on-demand", "gated", "Pods that ask for an instance of their own, in the namespaces of --on-demand-namespaces: gated, annotate (without the webhook) or off", func(s *Settings) *OnDemand { return &s.OnDemand }, OnDemandGated, OnDemandAnnotate, OnDemandOff),
	duration("on-demand-provision-timeout", "15m", "time for such an instance until its Node is ready", func(s *Settings) *time.Duration { return &s.OnDemandProvisionTimeout }, time.Minute, 24*time.Hour),
	duration("on-demand-linger", "60s", "time that it stays when its Pod has ended", func(s *Settings) *time.Duration { return &s.OnDemandLinger }, 0, 24*time.Hour),
	list("on-demand-namespaces", "", "namespaces whose Pods may ask, separated by commas; empty: none, *: all", func(s *Settings) *[]string { return &s.OnDemandNamespaces }, namespaceOrAll),
	number("on-demand-max-per-namespace", "10", "how many such instances a namespace may have; 0: no limit", func(s *Settings) *int { return &s.OnDemandMaxPerNamespace }, 0, 100000),

	toggle("hosts", false, "host machines: keep the versions of MachineConfigurations, and have hosts build nodes from them", func(s *Settings) *bool { return &s.Hosts }),
	text("hosts-api-server", "", "`https://host:port` of the API server as the kubelets of host machines reach it; empty: as the operator or Cluster API does", func(s *Settings) *string { return &s.HostsAPIServer }, endpointOrNone),

	duration("poll-interval", "30s", "how often shards are asked for everything, beside what they say by themselves", func(s *Settings) *time.Duration { return &s.PollInterval }, 5*time.Second, time.Hour),
	{
		flag: "shard-unreachable-grace", fallback: "30s,60s",
		meaning: "time without an answer until a shard counts as unreachable, and until what it should get more goes to other shards",
		set:     graces,
	},
	toggle("set-node-provider-id", true, "set spec.providerID of Nodes that have none", func(s *Settings) *bool { return &s.SetNodeProviderID }),
	toggle("delete-orphan-nodes", true, "delete Nodes whose instance was deleted", func(s *Settings) *bool { return &s.DeleteOrphanNodes }),
	{
		flag: "memory-factor", fallback: "0.925", meaning: "share of a machine's memory that is taken to be left for Pods, until a Node has shown it",
		set: func(s *Settings, value string) (err error) {
			s.MemoryFactor, err = strconv.ParseFloat(value, 64)
			if err != nil || !(s.MemoryFactor > 0 && s.MemoryFactor <= 1) {
				return fmt.Errorf("%q is not a number above 0 and up to 1", value)
			}
			return nil
		},
	},
}

var logSettings = []setting{
	{
		flag: "log-level", fallback: "info", meaning: "debug, info, warn or error",
		set: func(s *Settings, value string) error {
			if err := s.LogLevel.UnmarshalText([]byte(value)); err != nil {
				return fmt.Errorf("%q must be one of debug, info, warn and error", value)
			}
			return nil
		},
	},
	{
		flag: "log-format", fallback: "json", meaning: "json or text",
		set: func(s *Settings, value string) error {
			s.LogText = value == "text"
			return oneOf(value, "json", "text")
		},
	},
}

// environmentSettings are variables: names of objects that the chart makes.
var environmentSettings = []setting{
	variable("NSTANCE_CA_CONFIGMAP", "nstance-cluster-ca", "ConfigMap whose `ca.crt` is the cluster's CA bundle", func(s *Settings) *string { return &s.CAConfigMap }, objectName),
	variable("NSTANCE_NONCE_SECRET", "nstance-operator-nonce", "Secret with the token that the operator registers with", func(s *Settings) *string { return &s.NonceSecret }, objectName),
	variable("NSTANCE_NONCE_KEY", "nonce.jwt", "key of that token in its Secret", func(s *Settings) *string { return &s.NonceKey }, entryName),
	variable("NSTANCE_KEY_SECRET", "nstance-operator-key", "Secret for the operator's key; the operator makes it", func(s *Settings) *string { return &s.KeySecret }, objectName),
	variable("NSTANCE_CERT_SECRET", "nstance-operator-cert", "Secret for the operator's certificate; the operator makes it", func(s *Settings) *string { return &s.CertSecret }, objectName),
	variable("NSTANCE_SHARDS_CONFIGMAP", "nstance-shards", "ConfigMap with the shards; where there is none, those of the file count", func(s *Settings) *string { return &s.ShardsConfigMap }, objectName),
	variable("NSTANCE_CAPI_ENDPOINT", "", "`https://host:port` of the workload cluster's API server, where that is another one", func(s *Settings) *string { return &s.WorkloadEndpoint }, endpointOrNone),
	variable("NSTANCE_CAPI_SERVICEACCOUNT", "nstance-capi-workload", "service account that Cluster API's own controllers act as", func(s *Settings) *string { return &s.ServiceAccount }, objectName),
	variable("NSTANCE_CAPI_APISERVER", "https://kubernetes.default.svc:443", "API server as the Pods of Cluster API reach it", func(s *Settings) *string { return &s.APIServer }, endpoint),
	variable("NSTANCE_WEBHOOK_SERVICE", "nstance-operator-webhook", "Service in front of the webhooks", func(s *Settings) *string { return &s.WebhookService }, objectName),
	variable("NSTANCE_WEBHOOK_CONFIGURATION", "nstance-operator", "name of the validating and of the mutating webhook configuration", func(s *Settings) *string { return &s.WebhookConfiguration }, objectName),
	variable("NSTANCE_WEBHOOK_SECRET", "nstance-operator-webhook-cert", "Secret for the webhooks' certificate; the operator makes it", func(s *Settings) *string { return &s.WebhookSecret }, objectName),
	{
		env: "NSTANCE_K8S_JSON", fallback: "false", meaning: "`true`: speak JSON with the API server, to look at the traffic",
		set: func(s *Settings, value string) (err error) {
			s.JSON, err = boolean(value)
			return err
		},
	},
}

func text(flag, fallback, meaning string, where func(*Settings) *string, check func(string) error) setting {
	return setting{flag: flag, fallback: fallback, meaning: meaning, set: into(where, check)}
}

func variable(env, fallback, meaning string, where func(*Settings) *string, check func(string) error) setting {
	return setting{env: env, fallback: fallback, meaning: meaning, set: into(where, check)}
}

func into(where func(*Settings) *string, check func(string) error) func(*Settings, string) error {
	return func(s *Settings, value string) error {
		*where(s) = value
		return check(value)
	}
}

func toggle(flag string, fallback bool, meaning string, where func(*Settings) *bool) setting {
	return setting{flag: flag, fallback: strconv.FormatBool(fallback), meaning: meaning, boolean: true, set: func(s *Settings, value string) (err error) {
		*where(s), err = boolean(value)
		return err
	}}
}

func number(flag, fallback, meaning string, where func(*Settings) *int, least, most int) setting {
	return setting{flag: flag, fallback: fallback, meaning: meaning, set: func(s *Settings, value string) (err error) {
		*where(s), err = strconv.Atoi(value)
		if err != nil || *where(s) < least || *where(s) > most {
			return fmt.Errorf("%q is not a number from %d to %d", value, least, most)
		}
		return nil
	}}
}

// rateOrNone is a rate, or -1.
func rateOrNone(flag, fallback, meaning string, where func(*Settings) *float32) setting {
	limited := rate(flag, fallback, meaning, where)
	return setting{flag: flag, fallback: fallback, meaning: meaning, set: func(s *Settings, value string) error {
		if value == "-1" {
			*where(s) = -1
			return nil
		}
		if err := limited.set(s, value); err != nil {
			return fmt.Errorf("%w, and not -1", err)
		}
		return nil
	}}
}

func rate(flag, fallback, meaning string, where func(*Settings) *float32) setting {
	return setting{flag: flag, fallback: fallback, meaning: meaning, set: func(s *Settings, value string) error {
		f, err := strconv.ParseFloat(value, 32)
		*where(s) = float32(f)
		if err != nil || !(f > 0 && f <= 100000) {
			return fmt.Errorf("%q is not a number above 0 and up to 100000", value)
		}
		return nil
	}}
}

func duration(flag, fallback, meaning string, where func(*Settings) *time.Duration, least, most time.Duration) setting {
	return setting{flag: flag, fallback: fallback, meaning: meaning, set: func(s *Settings, value string) (err error) {
		*where(s), err = time.ParseDuration(value)
		if err != nil || *where(s) < least || *where(s) > most {
			return fmt.Errorf("%q is not a time from %v to %v, such as 90s or 15m", value, least, most)
		}
		return nil
	}}
}

func choice[T ~string](flag, fallback, meaning string, where func(*Settings) *T, values ...T) setting {
	return setting{flag: flag, fallback: fallback, meaning: meaning, set: func(s *Settings, value string) error {
		*where(s) = T(value)
		return oneOf(T(value), values...)
	}}
}

func list(flag, fallback, meaning string, where func(*Settings) *[]string, check func(string) error) setting {
	return setting{flag: flag, fallback: fallback, meaning: meaning, repeated: true, set: func(s *Settings, value string) error {
		*where(s) = nil
		if value == "" {
			return nil
		}
		*where(s) = strings.Split(value, ",")
		var errs []error
		for _, one := range *where(s) {
			if one == "" {
				errs = append(errs, errors.New("a name between two commas is empty"))
				continue
			}
			errs = append(errs, check(one))
		}
		return errors.Join(errs...)
	}}
}

// graces reads the two times of --shard-unreachable-grace.
func graces(s *Settings, value string) error {
	first, second, two := strings.Cut(value, ",")
	var err1, err2 error
	s.UnreachableGrace, err1 = time.ParseDuration(first)
	s.RedirectAfter, err2 = time.ParseDuration(second)
	if !two || err1 != nil || err2 != nil || s.UnreachableGrace < 5*time.Second || s.RedirectAfter < s.UnreachableGrace {
		return fmt.Errorf("%q is not two times such as 30s,60s: the first at least 5s, the second not below it", value)
	}
	return nil
}

func boolean(value string) (bool, error) {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", value)
	}
	return b, nil
}

func oneOf[T ~string](value T, values ...T) error {
	if slices.Contains(values, value) {
		return nil
	}
	return fmt.Errorf("%q must be one of %v", string(value), values)
}

func anything(string) error { return nil }

func required(value string) error {
	if value == "" {
		return errors.New("it is empty")
	}
	return nil
}

// namespace accepts "" too: that there is none is noticed where the last resort is known.
func namespace(value string) error {
	if value == "" {
		return nil
	}
	return said(value, validation.IsDNS1123Label(value))
}

// namespaceOrAll takes * for all namespaces, too.
func namespaceOrAll(value string) error {
	if value == AllNamespaces {
		return nil
	}
	return namespace(value)
}

func objectName(value string) error { return said(value, validation.IsDNS1123Subdomain(value)) }

func entryName(value string) error { return said(value, validation.IsConfigMapKey(value)) }

func labelValue(value string) error { return said(value, validation.IsValidLabelValue(value)) }

// said makes an error of Kubernetes' own findings.
func said(value string, findings []string) error {
	if len(findings) == 0 {
		return nil
	}
	return fmt.Errorf("%q: %s", value, strings.Join(findings, "; "))
}

func listenAddress(value string) error {
	_, port, err := net.SplitHostPort(value)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return fmt.Errorf("%q is not an address such as :8081 or 127.0.0.1:8081", value)
	}
	return nil
}

func addressOrOff(value string) error {
	if value == "0" {
		return nil
	}
	return listenAddress(value)
}

func endpoint(value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("%q is not of the form https://host:port", value)
	}
	return nil
}

func endpointOrNone(value string) error {
	if value == "" {
		return nil
	}
	return endpoint(value)
}
