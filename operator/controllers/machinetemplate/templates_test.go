package machinetemplate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// template asks for group web, and for more with changes.
func template(changes ...func(*infrav1.MachineSettings)) *infrav1.NstanceMachineTemplate {
	t := &infrav1.NstanceMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 3}}
	t.Spec.Template.Spec.GroupRef.Name = "web"
	for _, change := range changes {
		change(&t.Spec.Template.Spec)
	}
	return t
}

// web is a shard that has the group, with machines of so much memory.
func web(name, memory string, changes ...func(*nstancev1.GroupStatus)) Shard {
	g := &nstancev1.GroupStatus{Key: "web", Template: "base", Arch: "arm64", InstanceType: "m", Capacity: map[string]string{"cpu": "4", "memory": memory}}
	for _, change := range changes {
		change(g)
	}
	return Shard{Name: name, Listed: true, Group: g}
}

func list(cpu, memory string) infrav1.ResourceList {
	return infrav1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

func TestO17_ATemplateSaysWhatItsNodesHave(t *testing.T) {
	old := list("1", "1Mi")
	arm, linux := &infrav1.NodeInfo{Architecture: "arm64", OperatingSystem: "linux"}, infrav1.OperatingSystemLinux
	for _, tt := range []struct {
		name     string
		settings func(*infrav1.MachineSettings)
		shards   []Shard
		before   infrav1.ResourceList
		// capacity and nodeInfo are those of the status, known is its condition.
		capacity infrav1.ResourceList
		nodeInfo *infrav1.NodeInfo
		known    string
	}{
		{"what every shard has", nil, []Shard{web("a", "1000Mi"), web("b", "800Mi"), {Name: "c", Listed: true}}, old, list("4", "400Mi"), arm, "True GroupFound: on a, b"},
		{"on its own shard", func(s *infrav1.MachineSettings) { s.Shard = "a" }, []Shard{web("a", "1000Mi"), web("b", "800Mi")}, old, list("4", "500Mi"), arm, "True GroupFound: on a"},
		{"a shard is silent", nil, []Shard{web("a", "1000Mi"), {Name: "b"}}, old, old, nil, "True GroupFound: on a"},
		{"a shard is silent, and nothing was known before", nil, []Shard{web("a", "1000Mi"), {Name: "b"}}, nil, list("4", "500Mi"), arm, "True GroupFound: on a"},
		{"all are silent", nil, []Shard{{Name: "a"}}, old, old, nil, "Unknown WaitingForShards: waiting for a to say whether they have group web"},
		{"no shard has the group", nil, []Shard{{Name: "a", Listed: true}}, old, nil, nil, "False GroupNotFound: no shard has group web; make the group, or another template"},
		{
			"the group is on its way out", nil, []Shard{web("a", "1000Mi", func(g *nstancev1.GroupStatus) { g.Deleting = true })}, old,
			nil, nil, "False GroupNotFound: no shard has group web; make the group, or another template",
		},
		{"a shard that is not there", func(s *infrav1.MachineSettings) { s.Shard = "x" }, []Shard{web("a", "1000Mi")}, nil, nil, nil, "False ShardNotConfigured: shard x is not in the operator's configuration"},
		{"another machine type", func(s *infrav1.MachineSettings) { s.InstanceType = "xl" }, []Shard{web("a", "1000Mi")}, old, nil, arm, "True GroupFound: on a"},
		{"the group's own machine type", func(s *infrav1.MachineSettings) { s.InstanceType = "m" }, []Shard{web("a", "1000Mi")}, old, list("4", "500Mi"), arm, "True GroupFound: on a"},
		{"another template of the servers", func(s *infrav1.MachineSettings) { s.Template = "gpu" }, []Shard{web("a", "1000Mi")}, old, nil, nil, "True GroupFound: on a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := template()
			if tt.settings != nil {
				object = template(tt.settings)
			}
			object.Status.Capacity = tt.before
			got := Status(object, tt.shards, 0.5, now)
			c := meta.FindStatusCondition(got.Conditions, infrav1.ConditionGroupKnown)
			if known := string(c.Status) + " " + c.Reason + ": " + c.Message; known != tt.known {
				t.Errorf("GroupKnown is %s, want %s", known, tt.known)
			}
			if diff := cmp.Diff(tt.capacity, got.Capacity); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.nodeInfo, got.NodeInfo); diff != "" {
				t.Error(diff)
			}
			if got.ObservedGeneration != 3 || got.NodeInfo != nil && got.NodeInfo.OperatingSystem != linux {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestO17_ATemplateFollowsItsGroup(t *testing.T) {
	testworld.Run(t, []string{"a"}, func(t *testing.T, w *testworld.World) {
		r := &Reconciler{Client: w.Client, Shards: func() []string { return []string{"a"} }, Inventory: w.Inventory, Now: time.Now}
		w.Create(template())
		status := func() infrav1.NstanceMachineTemplateStatus {
			t.Helper()
			request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: testworld.Namespace, Name: "web"}}
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			object := &infrav1.NstanceMachineTemplate{}
			w.Get("web", object)
			return object.Status
		}
		if s := status(); !meta.IsStatusConditionFalse(s.Conditions, infrav1.ConditionGroupKnown) || s.Capacity != nil {
			t.Errorf("without a group: %+v", s)
		}
		w.Shard("a").AddGroup(testworld.Tenant, shardtest.Group{Key: "web", Capacity: map[string]string{"cpu": "4", "memory": "1000Mi"}})
		w.After(time.Second)
		first := status()
		if diff := cmp.Diff(list("4", "925Mi"), first.Capacity); diff != "" {
			t.Error(diff)
		}
		object := &infrav1.NstanceMachineTemplate{}
		w.Change("web", object, func() { object.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""} })
		w.Shard("a").SetStatic(testworld.Tenant, "web", true)
		paused := status()
		if c := meta.FindStatusCondition(paused.Conditions, infrav1.ConditionPaused); c == nil || c.Status != metav1.ConditionTrue || c.Reason != infrav1.ReasonPaused {
			t.Errorf("paused: %+v", c)
		}
		for _, s := range []*infrav1.NstanceMachineTemplateStatus{&first, &paused} {
			meta.RemoveStatusCondition(&s.Conditions, infrav1.ConditionPaused)
		}
		if diff := cmp.Diff(first, paused); diff != "" {
			t.Error("paused, more than that is written:", diff)
		}
		w.Change("web", object, func() { object.Annotations = nil })
		if c := meta.FindStatusCondition(status().Conditions, infrav1.ConditionPaused); c == nil || c.Status != metav1.ConditionFalse || c.Reason != infrav1.ReasonNotPaused {
			t.Errorf("afterwards: %+v", c)
		}
	})
}

func TestWhomNewsConcern(t *testing.T) {
	builder := testworld.NewClientBuilder(t)
	for _, group := range []string{"db", "web"} {
		object := template(func(s *infrav1.MachineSettings) { s.GroupRef.Name = group })
		object.Namespace, object.Name = "ns", group+"-template"
		builder.WithObjects(object)
	}
	r := &Reconciler{Client: builder.Build()}
	names := func(requests []reconcile.Request) (all []string) {
		for _, request := range requests {
			all = append(all, request.Name)
		}
		return all
	}
	for _, test := range []struct {
		change inventory.Change
		want   []string
	}{
		{inventory.Change{Kind: inventory.GroupChanged, Group: "web"}, []string{"web-template"}},
		{inventory.Change{Kind: inventory.GroupGone, Group: "db"}, []string{"db-template"}},
		{inventory.Change{Kind: inventory.InstanceChanged, Group: "web", Instance: "i"}, nil},
		{inventory.Change{Kind: inventory.ShardChanged}, []string{"db-template", "web-template"}},
	} {
		got := names(r.concerned(t.Context(), []inventory.ShardChange{{Shard: "a", Change: test.change}}))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v: %s", test.change, diff)
		}
	}
}
