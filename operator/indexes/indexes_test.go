package indexes_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/indexes"
	"nstance.dev/operator/testworld"
)

// indexer has a fake client learn the indexes that a cache would get.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, of client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(of, field, values)
	return nil
}

func named(name string, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: testworld.Namespace, Name: name, Labels: map[string]string{}}
	for pair := range slices.Chunk(labels, 2) {
		m.Labels[pair[0]] = pair[1]
	}
	return m
}

func machinePool(name, infrastructure string) *clusterv1.MachinePool {
	m := &clusterv1.MachinePool{ObjectMeta: named(name)}
	m.Spec.Template.Spec.InfrastructureRef.Name = infrastructure
	return m
}

// objects are those of two pools, and some of none.
func objects() []client.Object {
	return []client.Object{
		&infrav1.NstanceMachine{ObjectMeta: named("web-1", infrav1.LabelGroup, "web", infrav1.LabelShard, "a")},
		&infrav1.NstanceMachine{ObjectMeta: named("web-2", infrav1.LabelGroup, "web", infrav1.LabelShard, "b")},
		&infrav1.NstanceMachine{ObjectMeta: named("jobs-1", infrav1.LabelGroup, "jobs", infrav1.LabelShard, "a")},
		&infrav1.NstanceMachine{ObjectMeta: named("no-group")},
		&infrav1.NstanceShardGroup{ObjectMeta: named("web--a", infrav1.LabelGroup, "web")},
		&infrav1.NstanceShardGroup{ObjectMeta: named("jobs--a", infrav1.LabelGroup, "jobs")},
		&infrav1.NstanceMachinePool{ObjectMeta: named("web"), Spec: infrav1.NstanceMachinePoolSpec{Group: "web"}},
		&infrav1.NstanceMachinePool{ObjectMeta: named("jobs"), Spec: infrav1.NstanceMachinePoolSpec{Group: "jobs"}},
		&clusterv1.Machine{ObjectMeta: named("m-1", clusterv1.MachinePoolNameLabel, "web")},
		&clusterv1.Machine{ObjectMeta: named("m-2", clusterv1.MachinePoolNameLabel, "jobs")},
		&clusterv1.Machine{ObjectMeta: named("m-3")},
		machinePool("web", "web"), machinePool("jobs", "jobs"),
	}
}

// TestListsByAnIndexAreThoseWithout: each list asks its cache by the index, and answers what the API server answers.
func TestListsByAnIndexAreThoseWithout(t *testing.T) {
	var field string
	builder := testworld.NewClientBuilder(t).WithObjects(objects()...).WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		o := (&client.ListOptions{}).ApplyOptions(options)
		if field = ""; o.FieldSelector != nil {
			field = o.FieldSelector.String()
		}
		return c.List(ctx, list, options...)
	}})
	if err := indexes.Register(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	plain := builder.Build()
	cached := indexes.Client(plain)

	group := client.MatchingLabels{infrav1.LabelGroup: "web"}
	for name, test := range map[string]struct {
		list    client.ObjectList
		options []client.ListOption
		want    []string
		field   string
		wide    bool // without the index more is listed, which the caller filters
	}{
		"NstanceMachines": {&infrav1.NstanceMachineList{}, []client.ListOption{group, indexes.OfGroup("web")}, []string{"web-1", "web-2"}, "index.group=web", false},
		"NstanceMachines of a shard": {
			&infrav1.NstanceMachineList{}, []client.ListOption{client.MatchingLabels{infrav1.LabelGroup: "web", infrav1.LabelShard: "b"}, indexes.OfGroup("web")},
			[]string{"web-2"}, "index.group=web", false,
		},
		"NstanceShardGroups":  {&infrav1.NstanceShardGroupList{}, []client.ListOption{indexes.OfGroup("web"), group}, []string{"web--a"}, "index.group=web", false},
		"NstanceMachinePools": {&infrav1.NstanceMachinePoolList{}, []client.ListOption{indexes.OfGroup("web")}, []string{"web"}, "index.group=web", true},
		"Machines": {
			&clusterv1.MachineList{}, []client.ListOption{client.MatchingLabels{clusterv1.MachinePoolNameLabel: "web"}, indexes.OfMachinePool("web")},
			[]string{"m-1"}, "index.pool=web", false,
		},
		"MachinePools":               {&clusterv1.MachinePoolList{}, []client.ListOption{indexes.OfInfrastructure("web")}, []string{"web"}, "index.infrastructureRef=web", true},
		"nothing has the label":      {&infrav1.NstanceMachineList{}, []client.ListOption{client.MatchingLabels{infrav1.LabelGroup: "none"}, indexes.OfGroup("none")}, nil, "index.group=none", false},
		"nothing to look for":        {&infrav1.NstanceMachinePoolList{}, []client.ListOption{indexes.OfGroup("")}, []string{"jobs", "web"}, "", false},
		"a list that names no index": {&infrav1.NstanceMachineList{}, []client.ListOption{group}, []string{"web-1", "web-2"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			options := append([]client.ListOption{client.InNamespace(testworld.Namespace)}, test.options...)
			if diff := cmp.Diff(test.want, list(t, cached, test.list, options)); diff != "" {
				t.Errorf("of the cache (-want +got):\n%s", diff)
			}
			if field != test.field {
				t.Errorf("it is asked by %q, want %q", field, test.field)
			}
			got := list(t, plain, test.list, options)
			if field != "" {
				t.Errorf("the API server is asked by %q, an index that it does not have", field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" && !test.wide {
				t.Errorf("of the API server (-want +got):\n%s", diff)
			}
		})
	}
}

func list(t *testing.T, reader client.Reader, of client.ObjectList, options []client.ListOption) []string {
	t.Helper()
	if err := reader.List(t.Context(), of, options...); err != nil {
		t.Fatal(err)
	}
	var names []string
	err := meta.EachListItem(of, func(o runtime.Object) error {
		item, err := meta.Accessor(o)
		if err == nil {
			names = append(names, item.GetName())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}
