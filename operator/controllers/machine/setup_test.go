package machine

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/nodes"
	"nstance.dev/operator/testworld"
)

// known is a reconciler that knows two machines with instances and one that waits for a
// place in each of two groups.
func known(t *testing.T) *Reconciler {
	t.Helper()
	builder := testworld.NewClientBuilder(t)
	for _, group := range []string{"db", "web"} {
		for name, place := range map[string][2]string{"1": {"a", group + "-i1"}, "2": {"b", group + "-i2"}, "waits": {}} {
			m := &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: group + "-" + name}}
			m.Spec.GroupRef.Name, m.Spec.Shard, m.Spec.InstanceID = group, place[0], place[1]
			builder.WithObjects(m)
		}
	}
	for field, index := range nodes.MachineIndexes() {
		builder.WithIndex(&infrav1.NstanceMachine{}, field, index)
	}
	return &Reconciler{Options: Options{Client: builder.Build()}}
}

func woken(requests []reconcile.Request) []string {
	var all []string
	for _, request := range requests {
		all = append(all, request.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestWhomNewsConcern(t *testing.T) {
	r := known(t)
	for _, test := range []struct {
		change inventory.ShardChange
		want   []string
	}{
		{inventory.ShardChange{Shard: "a", Change: inventory.Change{Kind: inventory.InstanceChanged, Group: "web", Instance: "web-i1"}}, []string{"web-1"}},
		{inventory.ShardChange{Shard: "b", Change: inventory.Change{Kind: inventory.InstanceGone, Group: "web", Instance: "web-i2"}}, []string{"web-2"}},
		{inventory.ShardChange{Shard: "b", Change: inventory.Change{Kind: inventory.InstanceGone, Group: "web", Instance: "i9"}}, nil},
		{inventory.ShardChange{Shard: "a", Change: inventory.Change{Kind: inventory.GroupChanged, Group: "web"}}, []string{"web-waits"}},
		{inventory.ShardChange{Shard: "a", Change: inventory.Change{Kind: inventory.ShardChanged}}, []string{"db-1", "db-waits", "web-1", "web-waits"}},
	} {
		if diff := cmp.Diff(test.want, woken(r.changed(t.Context(), []inventory.ShardChange{test.change}))); diff != "" {
			t.Errorf("%+v: %s", test.change, diff)
		}
	}
}

func TestWhomAPartConcerns(t *testing.T) {
	shardGroup := &infrav1.NstanceShardGroup{Spec: infrav1.NstanceShardGroupSpec{Group: "web", Shard: "a", Retiring: []string{"web-i1"}}}
	if diff := cmp.Diff([]string{"web-1", "web-waits"}, woken(known(t).ofShardGroup(t.Context(), shardGroup))); diff != "" {
		t.Error(diff)
	}
}

// A machine that waits for the work of its Node is woken by the Node, and no other machine is.
func TestWhomANodeConcerns(t *testing.T) {
	r := known(t)
	for _, name := range []string{"web-1", "web-2", "db-1"} {
		m := &infrav1.NstanceMachine{}
		if err := r.Client.Get(t.Context(), key("ns", name), m); err != nil {
			t.Fatal(err)
		}
		m.Finalizers = []string{infrav1.FinalizerMachine}
		if err := r.Client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if name == "web-2" {
			continue // nobody deletes it
		}
		if err := r.Client.Delete(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for instance, want := range map[string][]string{"web-i1": {"web-1"}, "web-i2": nil, "unknown": nil} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{infrav1.LabelInstanceID: instance}}}
		if diff := cmp.Diff(want, woken(r.ofNode(t.Context(), node))); diff != "" {
			t.Errorf("node of %s: %s", instance, diff)
		}
	}
}
