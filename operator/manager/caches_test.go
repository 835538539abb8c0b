package manager

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/credentials/kubeconfig"
)

// TestS22_CachesKeepWhatIsRead: what a cluster has much of and nobody reads costs no memory,
// and of the namespace's Secrets only the one is read that controllers follow.
func TestS22_CachesKeepWhatIsRead(t *testing.T) {
	of := caches{config.Settings{Namespace: "ns", Environment: config.Environment{ShardsConfigMap: "shards", CAConfigMap: "ca"}}, "c"}
	options := of.options("")
	about := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: "u", ResourceVersion: "7", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		}
	}
	without := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		m.ManagedFields = nil
		return m
	}
	unannotated := without(about("o"))
	unannotated.Annotations = nil
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	asks := about("o")
	asks.Annotations = map[string]string{infrav1.OnDemandGroup: "web"}
	tests := []struct {
		name      string
		had, kept client.Object
	}{
		{
			"a Node",
			&corev1.Node{ObjectMeta: about("o"), Spec: corev1.NodeSpec{ProviderID: "p"}, Status: corev1.NodeStatus{
				Conditions: ready, Images: make([]corev1.ContainerImage, 50), VolumesInUse: []corev1.UniqueVolumeName{"v"},
			}},
			&corev1.Node{ObjectMeta: without(about("o")), Spec: corev1.NodeSpec{ProviderID: "p"}, Status: corev1.NodeStatus{Conditions: ready}},
		},
		{
			"a Pod",
			&corev1.Pod{ObjectMeta: about("o"), Spec: corev1.PodSpec{NodeName: "n"}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "o", UID: "u", ResourceVersion: "7"}},
		},
		{
			"a Pod that asks for an instance",
			&corev1.Pod{ObjectMeta: asks, Spec: corev1.PodSpec{NodeName: "n"}},
			&corev1.Pod{ObjectMeta: asks, Spec: corev1.PodSpec{NodeName: "n"}},
		},
		{
			"a DaemonSet",
			&appsv1.DaemonSet{ObjectMeta: about("o"), Spec: appsv1.DaemonSetSpec{MinReadySeconds: 1}},
			&appsv1.DaemonSet{ObjectMeta: unannotated},
		},
		{
			"the ConfigMap of the shards",
			&corev1.ConfigMap{ObjectMeta: about("shards"), Data: map[string]string{"a": "a:1"}},
			&corev1.ConfigMap{ObjectMeta: without(about("shards")), Data: map[string]string{"a": "a:1"}},
		},
		{
			"another ConfigMap",
			&corev1.ConfigMap{ObjectMeta: about("o"), Data: map[string]string{"a": "a:1"}},
			&corev1.ConfigMap{ObjectMeta: without(about("o"))},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for kind, by := range options.ByObject {
				if reflect.TypeOf(kind) == reflect.TypeOf(test.had) {
					kept, err := by.Transform(test.had)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(any(test.kept), kept); diff != "" {
						t.Error(diff)
					}
					return
				}
			}
			t.Error("it is cached as it is")
		})
	}
	for kind, by := range options.ByObject {
		_, secret := kind.(*corev1.Secret)
		seen := by.Field == nil || by.Field.Matches(fields.Set{"metadata.name": "nstance-operator-key"})
		if secret && (seen || !by.Field.Matches(fields.Set{"metadata.name": kubeconfig.Name("c")})) {
			t.Errorf("Secrets are selected by %v", by.Field)
		}
	}
}
