package machinepool

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi/capacity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// offers makes a shard say what it makes instances from.
func offers(name string, static bool) func(*state) {
	return func(st *state) {
		s := st.shards[name]
		s.group = &nstancev1.GroupStatus{
			Key: "web", IsStatic: static, Arch: "amd64", Zone: name + "1", Region: "r", InstanceType: "m",
			Capacity: map[string]string{"cpu": "4", "memory": "1000Mi"},
		}
		st.shards[name] = s
	}
}

func TestO17_APoolSaysWhatItsNextNodeHas(t *testing.T) {
	st := settled(0, 0).with(offers("a", false), offers("b", false))
	next := st.status(plan{}, nil, nil, start)
	want := infrav1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("925Mi")}
	if diff := cmp.Diff(want, next.Capacity); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}, next.NodeInfo); diff != "" {
		t.Error(diff)
	}
	careful := settled(0, 0).with(offers("a", false), offers("b", false), func(st *state) { st.memoryShare = 0.5 })
	if got := careful.status(plan{}, nil, nil, start).Capacity["memory"]; got.Cmp(resource.MustParse("500Mi")) != 0 {
		t.Errorf("with half of the memory for Pods they get %v", &got)
	}
	silent := settled(0, 0).with(offers("a", false), func(st *state) { st.pool.Status.Capacity = want })
	if diff := cmp.Diff(want, silent.status(plan{}, nil, nil, start).Capacity); diff != "" {
		t.Error("a shard that has not been heard:", diff)
	}
}

func TestO17_AMachinePoolIsDescribed(t *testing.T) {
	const labels = "node.kubernetes.io/instance-type=m,nstance.dev/group=web,topology.kubernetes.io/region=r"
	st := settled(1, 1).with(offers("a", true), offers("b", false))
	machinePool := st.machinePool.DeepCopy()
	machinePool.Annotations = map[string]string{"mine": "stays"}
	if !st.describe(machinePool) || st.describe(machinePool) {
		t.Error("it is not described at once, and once")
	}
	want := map[string]string{"mine": "stays", capacity.AnnotationLabels: labels, infrav1.AnnotationManagedAnnotations: capacity.AnnotationLabels}
	if diff := cmp.Diff(want, machinePool.Annotations); diff != "" {
		t.Error(diff)
	}
	if machinePool.Labels[infrav1.LabelStatic] != "true" {
		t.Error("the guard of static groups does not see it")
	}
	offers("a", false)(&st)
	if !st.describe(machinePool) || machinePool.Labels[infrav1.LabelStatic] != "" {
		t.Error("it is still guarded")
	}
}

// An empty pool offers what its Nodes turned out to have, not what a table promises.
func TestO17_APoolLearnsFromItsNodes(t *testing.T) {
	leaves := func(id, cpu string) func(*state) {
		return func(st *state) {
			for _, s := range st.shards {
				for _, in := range s.instances {
					in.InstanceType, in.Template = "m", "base"
				}
			}
			st.infraMachines[id].Status.Allocatable = infrav1.ResourceList{"cpu": resource.MustParse(cpu)}
		}
	}
	template := func(st *state) {
		for _, s := range st.shards {
			s.group.Template = "base"
		}
	}
	st := settled(1, 1).with(offers("a", false), offers("b", false), template, leaves("a1", "3900m"), leaves("b1", "3800m"))
	learned := st.status(plan{}, nil, nil, start)
	if cpu := learned.Capacity["cpu"]; cpu.String() != "3800m" {
		t.Errorf("%s are offered, want the least that a node left", cpu.String())
	}
	empty := settled(0, 0).with(offers("a", false), offers("b", false), template)
	empty.pool.Status.Learned = learned.Learned
	if diff := cmp.Diff(learned.Capacity, empty.status(plan{}, nil, nil, start).Capacity); diff != "" {
		t.Error("without nodes:", diff)
	}
	silent := settled(0, 0).with(offers("a", false))
	silent.pool.Status.Learned = learned.Learned
	if diff := cmp.Diff(learned.Learned, silent.status(plan{}, nil, nil, start).Learned); diff != "" {
		t.Error("a shard that has not been heard:", diff)
	}
}

func TestO17_APoolOfUnknownCapacitySaysSo(t *testing.T) {
	limits := func(st *state) {
		st.machinePool.Annotations = map[string]string{autoscalerMin: "0", autoscalerMax: "9"}
	}
	silent := func(st *state) { // the provider does not describe its machine types
		for _, s := range st.shards {
			s.group.Capacity = nil
		}
	}
	annotated := func(st *state) {
		st.machinePool.Annotations[capacity.AnnotationCPU] = "4"
		st.machinePool.Annotations[capacity.AnnotationMemory] = "8Gi"
	}
	half := func(st *state) {
		st.pool.Spec.NodeTemplate = &infrav1.NodeTemplate{Capacity: infrav1.ResourceList{"cpu": resource.MustParse("4")}}
	}
	for _, tt := range []struct {
		name    string
		changes []func(*state)
		want    metav1.ConditionStatus
		lacks   string
	}{
		{"no autoscaler asks", []func(*state){silent}, metav1.ConditionTrue, ""},
		{"the shards report it", []func(*state){limits}, metav1.ConditionTrue, ""},
		{"nothing is known", []func(*state){limits, silent}, metav1.ConditionFalse, "cpu and memory of a machine"},
		{"the user says half of it", []func(*state){limits, silent, half}, metav1.ConditionFalse, "memory of a machine"},
		{"annotations say it", []func(*state){limits, silent, annotated}, metav1.ConditionTrue, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := settled(0, 0).with(append([]func(*state){offers("a", false), offers("b", false)}, tt.changes...)...)
			got := meta.FindStatusCondition(st.status(plan{}, nil, nil, start).Conditions, infrav1.ConditionCapacityKnown)
			if got == nil || got.Status != tt.want || !strings.Contains(got.Message, tt.lacks) {
				t.Errorf("CapacityKnown is %+v, want %s and %q", got, tt.want, tt.lacks)
			}
		})
	}
}
