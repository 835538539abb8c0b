//go:build kube && operator

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// A pool becomes a demand pool and goes back, with Cluster API beside it: its MachinePool, Machines and
// NstanceMachines go and come, and no machine and no Node does.
func TestDemand_APoolIsSwitchedBothWays(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	s.pool(t, "shifted", "shards: [a, b], rebalance: Never", 3)
	t.Cleanup(func() { s.endPool(t, "shifted") })
	began, before := time.Now(), s.names(t, "shifted")

	s.merge(t, infrav1.KindMachinePool, "shifted", `{"spec":{"demand":{"max":7}}}`)
	kube.Await(t, "it is said what has to be done first", s.switched("shifted", infrav1.PoolFixed, infrav1.ReasonMachinePoolExists))
	s.merge(t, infrav1.KindMachinePool, "shifted", fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, infrav1.AnnotationNoMachinePool))
	kube.Await(t, "it is a demand pool", s.switched("shifted", infrav1.PoolDemand, infrav1.ReasonAllowed))
	if diff := cmp.Diff(map[string]int64{"a": 4, "b": 3}, s.most(t, "shifted")); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
	for _, kind := range []string{"MachinePool", "Machine", infrav1.KindMachine} {
		all, err := s.list(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if slices.Contains(append(before, "shifted"), one.GetName()) {
				t.Errorf("%s %s is left", kind, one.GetName())
			}
		}
	}
	s.sameMachines(t, "shifted", before)

	s.merge(t, infrav1.KindMachinePool, "shifted", fmt.Sprintf(`{"spec":{"demand":null},"metadata":{"annotations":{%q:null}}}`, infrav1.AnnotationNoMachinePool))
	kube.Await(t, "it has a MachinePool again", s.settled("shifted", 3))
	if diff := cmp.Diff(before, s.names(t, "shifted")); diff != "" {
		t.Errorf("machines (-before +after):\n%s", diff)
	}
	s.sameMachines(t, "shifted", before)
	if gone := s.deletedNodes(t, began); len(gone) > 0 {
		t.Errorf("Nodes were deleted: %v", gone)
	}
}

// switched returns nil once a pool is of a mode and says that of whether it may be a demand pool.
func (i *installation) switched(pool string, mode infrav1.PoolMode, reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		var object infrav1.NstanceMachinePool
		if err := i.read(ctx, infrav1.KindMachinePool, pool, &object); err != nil {
			return err
		}
		for _, c := range object.Status.Conditions {
			if c.Type == infrav1.ConditionDemandAllowed && c.Reason == reason && object.Status.Mode == mode {
				return nil
			}
		}
		return fmt.Errorf("mode %s, conditions %+v", object.Status.Mode, object.Status.Conditions)
	}
}

// most are the most machines that the shards of a demand pool may have.
func (i *installation) most(t *testing.T, pool string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, shard := range []string{"a", "b"} {
		var part infrav1.NstanceShardGroup
		if err := i.read(t.Context(), infrav1.KindShardGroup, pool+"--"+shard, &part); err != nil {
			t.Fatal(err)
		}
		if part.Spec.Demand != nil && part.Spec.Demand.Max != nil {
			all[shard] = int64(*part.Spec.Demand.Max)
		}
	}
	return all
}

// sameMachines fails unless the servers have exactly these instances of a group, and none of them is to end.
func (s *system) sameMachines(t *testing.T, group string, want []string) {
	t.Helper()
	var got []string
	for _, shard := range []string{"a", "b"} {
		instances, _, err := s.shards.Instances(t.Context(), shard)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range instances {
			if in.GetGroup() == group && in.GetCondemned() == nil {
				got = append(got, in.GetInstanceId())
			}
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances of the servers (-want +got):\n%s", diff)
	}
}

// endPool deletes a pool that has no MachinePool by which it could be deleted.
func (i *installation) endPool(t *testing.T, pool string) {
	t.Helper()
	ctx := shared.Context()
	if _, err := i.get(ctx, "MachinePool", pool); err == nil {
		return
	}
	if err := i.resource(infrav1.KindMachinePool).Delete(ctx, pool, metav1.DeleteOptions{}); err != nil {
		t.Error(errors.Join(errors.New("delete the pool"), err))
	}
}
