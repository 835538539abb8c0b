package demandsim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/sim/demandsim/cluster"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// RackLabel is the topology key of the racks that machines stand in.
const RackLabel = "topology.example.com/rack"

// kinds are the workloads that events name. Each makes one of a name and number of Pods.
var kinds = map[string]func(*cluster.Workload){
	"tiny":    func(w *cluster.Workload) { asks(w, 350, 450*mib) },
	"service": func(w *cluster.Workload) { asks(w, 3000, 6*gib); w.MinAvailable = w.Replicas / 2 },
	"batch":   func(w *cluster.Workload) { asks(w, 6000, 12*gib); w.RunsFor = 4 * time.Minute },
	"huge":    func(w *cluster.Workload) { asks(w, 14000, 48*gib) },
	"giant":   func(w *cluster.Workload) { asks(w, 64000, 512*gib) }, // fits on no machine
	"bare":    func(w *cluster.Workload) { asks(w, 1000, 2*gib); w.Bare = true },
	"roll":    func(w *cluster.Workload) { asks(w, 1000, 2*gib); w.AfterLast = true },
	"sidecar": func(w *cluster.Workload) {
		asks(w, 500, gib)
		always := corev1.ContainerRestartPolicyAlways
		w.Template.Spec.InitContainers = []corev1.Container{container("proxy", 200, 256*mib), container("load", 2000, gib)}
		w.Template.Spec.InitContainers[0].RestartPolicy = &always
	},
	"urgent": func(w *cluster.Workload) { asks(w, 1000, 2*gib); setPriority(w, 1_000_000) },
	"boss":   func(w *cluster.Workload) { asks(w, 14000, 48*gib); setPriority(w, 1_000_000) },
	"costly": func(w *cluster.Workload) {
		asks(w, 1000, 2*gib)
		w.Template.Annotations = map[string]string{"nstance.dev/interruption-penalty": "200", "nstance.dev/reclamation-penalty": "5"}
	},
	"stubborn": func(w *cluster.Workload) { asks(w, 1000, 2*gib); w.MinAvailable = w.Replicas },
	"apart": func(w *cluster.Workload) {
		asks(w, 1000, 2*gib)
		affinity(w).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{own(w, corev1.LabelHostname)}}
	},
	"racked": func(w *cluster.Workload) { // all in one rack
		asks(w, 1500, 4*gib)
		affinity(w).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{own(w, RackLabel)}}
	},
	"spread": func(w *cluster.Workload) { // evenly over the racks
		asks(w, 1000, 2*gib)
		w.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			TopologyKey: RackLabel, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: own(w, "").LabelSelector,
		}}
	},
	"gpu": func(w *cluster.Workload) { asks(w, 2000, 8*gib); tolerateGPU(w, 1) },
	"gang": func(w *cluster.Workload) { // whole machines of one rack, all or none
		asks(w, 12000, 40*gib)
		tolerateGPU(w, 8)
		affinity(w).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{own(w, RackLabel)}}
		w.Template.Annotations = map[string]string{"nstance.dev/all-or-nothing": "true"}
	},
	"either": func(w *cluster.Workload) { // one of two racks, by alternatives
		asks(w, 1000, 2*gib)
		affinity(w).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: RackLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"r1"}}}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"large"}}}},
		}}}
	},
	"daemon": func(w *cluster.Workload) { asks(w, 100, 128*mib); w.Daemon = true },
}

// kindNames are those of kinds, in their order.
var kindNames = slices.Sorted(maps.Keys(kinds))

// workload makes one of a kind.
func workload(kind, name string, replicas int) (cluster.Workload, error) {
	set, known := kinds[kind]
	if !known {
		return cluster.Workload{}, fmt.Errorf("there is no kind %q of workload; there are %v", kind, kindNames)
	}
	w := cluster.Workload{Name: name, Replicas: replicas, Again: 2 * time.Second}
	set(&w)
	return w, nil
}

func container(name string, cpu, memory int64) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: cluster.Vector{cpu, memory}.List()}}
}

func asks(w *cluster.Workload, cpu, memory int64) {
	w.Template.Spec.Containers = []corev1.Container{container("main", cpu, memory)}
}

func setPriority(w *cluster.Workload, priority int32) { w.Template.Spec.Priority = &priority }

func affinity(w *cluster.Workload) *corev1.Affinity {
	if w.Template.Spec.Affinity == nil {
		w.Template.Spec.Affinity = &corev1.Affinity{}
	}
	return w.Template.Spec.Affinity
}

// own is the term that selects the workload's own Pods.
func own(w *cluster.Workload, key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{cluster.AppLabel: w.Name}}}
}

func tolerateGPU(w *cluster.Workload, gpus int64) {
	w.Template.Spec.Containers[0].Resources.Requests[cluster.GPU] = cluster.Vector{4: gpus}.List()[cluster.GPU]
	w.Template.Spec.Tolerations = []corev1.Toleration{{Key: string(cluster.GPU), Operator: corev1.TolerationOpExists}}
}
