package ondemand

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/testworld"
)

// A Pod that waits for a group, or for a shard, is served when these are there, and not
// when somebody looks again.
func TestO12_WhomNewsConcern(t *testing.T) {
	builder := testworld.NewClientBuilder(t)
	for field, index := range PodIndexes() {
		builder.WithIndex(&corev1.Pod{}, field, index)
	}
	for uid, change := range map[string]func(*corev1.Pod){
		"web":   func(*corev1.Pod) {},
		"db":    func(pod *corev1.Pod) { pod.Annotations[infrav1.OnDemandGroup] = "db" },
		"none":  func(pod *corev1.Pod) { pod.Annotations = nil },
		"bound": func(pod *corev1.Pod) { pod.Spec.NodeName = "n" },
		"found": func(pod *corev1.Pod) { pod.Annotations[infrav1.OnDemandState] = string(infrav1.OnDemandJoined) },
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "apps", Name: uid, UID: types.UID(uid), Annotations: map[string]string{infrav1.OnDemandGroup: "web"},
		}}
		change(pod)
		builder.WithObjects(pod)
	}
	r := New(Options{Workload: builder.Build()})
	for _, test := range []struct {
		change inventory.Change
		want   []string
	}{
		{inventory.Change{Kind: inventory.GroupChanged, Group: "web"}, []string{"web"}},
		{inventory.Change{Kind: inventory.GroupChanged, Group: "other"}, nil},
		{inventory.Change{Kind: inventory.ShardChanged}, []string{"db", "web"}},
		{inventory.Change{Kind: inventory.InstanceChanged, Group: "web", Instance: "i"}, nil},
	} {
		var got []string
		for _, request := range r.concerned(t.Context(), []inventory.ShardChange{{Shard: "a", Change: test.change}}) {
			got = append(got, request.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v: %s", test.change, diff)
		}
	}
}
