package config

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// demandSettings are those of demand mode as a whole.
var demandSettings = []setting{
	toggle("demand", false, "demand mode: the cluster's machines follow from what its Pods ask for", func(s *Settings) *bool { return &s.Demand.Enabled }),
	choice("pod-source", "both", "what a Pod adds to what the shards are asked for, in demand mode: both (its CapacityRequest, and until there is one the Pod itself), cr (its CapacityRequest alone) or direct (the Pod itself; none are written for Pods)", func(s *Settings) *PodSource { return &s.Demand.PodSource }, PodSourceBoth, PodSourceCR, PodSourceDirect),
	toggle("pod-controller", true, "write a CapacityRequest for each Pod, in demand mode; false where nstance-pod-demand or another workload API writes them", func(s *Settings) *bool { return &s.Demand.Pods.Controller }),
}

// podSettings say how Pods become CapacityRequests: nstance-pod-demand has them too.
var podSettings = []setting{
	rate("demand-upc-qps", "50", "calls to the API server in a second, over time, of the controller that writes CapacityRequests for Pods", func(s *Settings) *float32 { return &s.Demand.Pods.QPS }),
	number("demand-upc-burst", "100", "calls of that controller at once", func(s *Settings) *int { return &s.Demand.Pods.Burst }, 1, 100000),
	number("demand-upc-workers", "16", "Pods that it works on at once", func(s *Settings) *int { return &s.Demand.Pods.Workers }, 1, 1000),
	number("demand-upc-page-size", "500", "objects in an answer to the first list of all Pods, where the API server neither streams it nor has it in memory", func(s *Settings) *int { return &s.Demand.Pods.PageSize }, 1, 100000),
	toggle("affinity-alternatives", true, "carry several terms of node affinity, and Gt and Lt; false: the first term counts alone, and Gt and Lt count as Exists", func(s *Settings) *bool { return &s.Demand.Pods.Alternatives }),
	toggle("volume-topology", true, "carry the zones and regions of a Pod's volumes", func(s *Settings) *bool { return &s.Demand.Pods.VolumeTopology }),
	list("penalty-annotation-prefix", "nstance.dev", "prefix of the Pod annotations PREFIX/interruption-penalty and PREFIX/reclamation-penalty; given more than once, the first that a Pod has counts", func(s *Settings) *[]string { return &s.Demand.Pods.PenaltyPrefixes }, annotationPrefix),
	text("priority-class-penalties", "", "YAML file with the default penalties of PriorityClasses; it is followed. Empty: there are none", func(s *Settings) *string { return &s.Demand.Pods.PenaltyFile }, anything),
}

// PodDemand is nstance-pod-demand, which does in a process of its own what the operator's controller of Pods does.
var PodDemand = Program{
	name: "nstance-pod-demand", summary: "writes a CapacityRequest for each Pod of a Kubernetes cluster",
	table: slices.Concat(
		[]setting{{
			flag: "namespace", env: "NSTANCE_NAMESPACE", fallback: "", meaning: "namespace of the Lease that its replicas elect a leader with; the Pod's own where it is not set",
			set: into(func(s *Settings) *string { return &s.Namespace }, namespace),
		}},
		named(processSettings, "kubeconfig", "health-probe-bind-address", "metrics-bind-address", "pprof-bind-address", "metrics-secure", "leader-elect", "cache-sync-timeout"),
		podSettings, logSettings,
	),
}

// named returns the settings with these flags, in their order.
func named(of []setting, flags ...string) []setting {
	return slices.DeleteFunc(slices.Clone(of), func(s setting) bool { return !slices.Contains(flags, s.flag) })
}

// annotationPrefix accepts what may stand before the slash of an annotation.
func annotationPrefix(value string) error { return said(value, validation.IsDNS1123Subdomain(value)) }
