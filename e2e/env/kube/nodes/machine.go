package nodes

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Machine is what an agent reports about the machine that it runs on.
type Machine struct {
	// Name is that of the Node. Required.
	Name string

	// Life tells apart the times that a machine is a Node: one that has left and joined again in
	// the meantime has another. It may be empty where machines do not.
	Life string

	// ProviderID becomes spec.providerID of the Node; it may be empty.
	ProviderID string

	// Labels and Taints are those that the Node registers with.
	Labels map[string]string
	Taints []corev1.Taint

	// Addresses are those of the Node, an InternalIP among them. Empty means 127.0.0.1.
	Addresses []corev1.NodeAddress

	// Capacity is all that Pods may use. Empty means 4 CPUs, 8 GiB and 110 Pods.
	Capacity corev1.ResourceList

	// Heartbeat is the time between two renewals of the Lease. 0 means 10s.
	Heartbeat time.Duration
}

// leaseLasts is for how many heartbeats a Lease is good, as with kubelets.
const leaseLasts = 4

// withDefaults returns the machine with its zero fields filled in.
func (m Machine) withDefaults() Machine {
	if len(m.Addresses) == 0 {
		m.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	}
	if len(m.Capacity) == 0 {
		m.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("4"),
			corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}
	}
	if m.Heartbeat == 0 {
		m.Heartbeat = 10 * time.Second
	}
	return m
}

// address returns the address that the machine's Pods have too.
func (m Machine) address() string {
	for _, a := range m.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// node returns the Node as it registers.
func (m Machine) node(ready bool, now time.Time) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:   m.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
	for key, value := range m.Labels {
		labels[key] = value
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: m.ProviderID, Taints: m.Taints},
		Status: corev1.NodeStatus{
			Addresses:   m.Addresses,
			Capacity:    m.Capacity,
			Allocatable: m.Capacity,
			Conditions:  append(pressures(now), readyCondition(ready, now)),
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: m.Name, OperatingSystem: "linux", Architecture: "amd64",
				KubeletVersion: "v1.36.3", ContainerRuntimeVersion: "none://0",
			},
		},
	}
}

// pressures are what a kubelet says besides, of a machine that lacks nothing. Cluster API takes
// a Node that does not say so for one of which it knows nothing, and no Machine of such a Node
// for available.
func pressures(now time.Time) (all []corev1.NodeCondition) {
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		all = append(all, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficient" + strings.TrimSuffix(string(kind), "Pressure"),
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		})
	}
	return all
}

func readyCondition(ready bool, now time.Time) corev1.NodeCondition {
	condition := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	if !ready {
		condition.Status, condition.Reason = corev1.ConditionFalse, "KubeletNotReady"
	}
	return condition
}

// restated returns the conditions of a Node with what the machine says of its readiness
// now, and whether that differs from what stood there.
func restated(conditions []corev1.NodeCondition, ready bool, now time.Time) ([]corev1.NodeCondition, bool) {
	want := readyCondition(ready, now)
	var all []corev1.NodeCondition
	for _, is := range conditions {
		if is.Type != corev1.NodeReady {
			all = append(all, is)
			continue
		}
		if is.Status == want.Status {
			return conditions, false
		}
	}
	return append(all, want), true
}
