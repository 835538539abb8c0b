package scale

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// workNamespace is where the Pods are.
const workNamespace = "work"

// images is how many images a kubelet lists in its Node unless it is told otherwise.
const images = 50

// node returns the Node of an instance as its kubelet registers it and has filled it in
// after a while.
func node(in *nstancev1.InstanceStatus, shard string, now time.Time) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: in.GetInstanceId(),
			Labels: map[string]string{
				corev1.LabelHostname: in.GetInstanceId(), corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
				"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", // kubelets still set them
				corev1.LabelInstanceTypeStable: in.GetInstanceType(), corev1.LabelTopologyZone: shard, corev1.LabelTopologyRegion: "test",
			},
			Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Spec: corev1.NodeSpec{ProviderID: in.GetProviderUri(), PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24"}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: in.GetAddresses()[0]}, {Type: corev1.NodeHostName, Address: in.GetInstanceId()},
			},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: in.GetInstanceId(), OperatingSystem: "linux", Architecture: "amd64", KernelVersion: "6.12.0-1-amd64",
				OSImage: "Debian GNU/Linux 13", ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.36.3",
			},
		},
	}
	n.Status.Conditions = nodeConditions(metav1.NewTime(now))
	for i := range images {
		repository := fmt.Sprintf("registry.example.com/team/component-%02d", i)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{repository + "@sha256:" + strings.Repeat("0a", 32), repository + ":v1.2.3"}, SizeBytes: 123456789,
		})
	}
	return n
}

// nodeConditions are those of a Node that is well.
func nodeConditions(at metav1.Time) []corev1.NodeCondition {
	var all []corev1.NodeCondition
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		c := corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: "Kubelet" + string(kind), Message: "the kubelet says so",
			LastHeartbeatTime: at, LastTransitionTime: at,
		}
		if kind == corev1.NodeReady {
			c.Status = corev1.ConditionTrue
		}
		all = append(all, c)
	}
	return all
}

// replicaSet returns what owns the Pods of a pool's Nodes.
func replicaSet(pool string, replicas int) *appsv1.ReplicaSet {
	n := int32(replicas) //nolint:gosec // a few
	labels := map[string]string{"app": pool}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: workNamespace, Name: pool, Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec("")},
		},
	}
}

// pod returns one Pod of a set that is bound to a Node.
func pod(set *appsv1.ReplicaSet, node string, number int) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: workNamespace, Name: fmt.Sprintf("%s-%d", node, number),
			Labels:      map[string]string{"app": set.Labels["app"], "pod-template-hash": "6c8b449b8f", "app.kubernetes.io/part-of": "scale"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": strings.Repeat("1f", 32)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: podSpec(node),
	}
}

// podSpec is that of a service with a helper beside it.
func podSpec(node string) corev1.PodSpec {
	container := func(name string, port int32) corev1.Container {
		c := corev1.Container{
			Name: name, Image: "registry.example.com/team/" + name + ":v1.2.3",
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/ready"}}}},
			VolumeMounts:   []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true}, {Name: "scratch", MountPath: "/tmp"}},
		}
		for i := range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i), Value: "a value of ordinary length"})
		}
		return c
	}
	return corev1.PodSpec{
		NodeName:   node,
		Containers: []corev1.Container{container("service", 8080), container("helper", 8081)},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
}

// heartbeat is what a kubelet sends when it has nothing new to say of its Node: the times
// of its conditions.
func heartbeat(now time.Time) []byte {
	return fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, now.UTC().Format(time.RFC3339))
}
