//go:build kube && operator

package operator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/kube"
)

// elastic is the spec of a pool that says what its Nodes have.
const elastic = `shards: [b], nodeTemplate: {labels: {disk: fast}, taints: [{key: only, value: batch, effect: NoSchedule}], capacity: {cpu: "4", memory: 8Gi}}`

// O17: what the cluster autoscaler reads of a pool and does to it, from nothing and back: an
// empty pool says what its Nodes will be like, it grows, and the Nodes that the autoscaler
// chose are the machines that end, also two at a time.
func TestO17_AnAutoscalerGrowsAndShrinksAPool(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "elastic", elastic, 0)
	a := s.autoscaler(t)
	if _, is := a.groups()["elastic"]; is {
		t.Error("a pool without limits is a group")
	}
	s.limit(t, "elastic", 0, 10)
	if _, is := a.groups()["elastic"]; !is {
		t.Fatal("a pool with limits is no group")
	}
	kube.Await(t, "it says what its Nodes will be like", func(context.Context) error {
		capacity, notes := a.offer("elastic")
		got := map[string]string{
			"cpu": capacity["cpu"], "memory": capacity["memory"],
			"labels": notes["capacity.cluster-autoscaler.kubernetes.io/labels"], "taints": notes["capacity.cluster-autoscaler.kubernetes.io/taints"],
		}
		want := map[string]string{"cpu": "4", "memory": "8Gi", "taints": "only=batch:NoSchedule", "labels": got["labels"]}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	a.resize("elastic", 5)
	kube.Await(t, "five Machines run", s.settled("elastic", 5))

	names := s.names(t, "elastic")
	tails := a.tails()
	for _, name := range names {
		if tails[name] != "elastic" {
			t.Errorf("the autoscaler takes machine %s for one of %q", name, tails[name])
		}
	}
	a.remove("elastic", "nstance://b/"+names[1], "nstance://b/"+names[3])
	kube.Await(t, "three are left", s.settled("elastic", 3))
	if diff := cmp.Diff([]string{names[0], names[2], names[4]}, s.names(t, "elastic")); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	a.remove("elastic", "nstance://b/"+names[0], "nstance://b/"+names[2], "nstance://b/"+names[4])
	kube.Await(t, "none is left", s.settled("elastic", 0))
}

// O17: machines whose Nodes never come. The autoscaler asks for fewer without naming one, and
// those are the ones that go; it also names one, and that one goes.
func TestO17_AnAutoscalerGivesUpMachinesThatNeverJoin(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "absent", elastic, 2)
	s.limit(t, "absent", 0, 10)
	a, joined := s.autoscaler(t), s.names(t, "absent")
	there := a.tails()
	s.ground.powerOff(t, func(name string) bool { return there[name] == "" }) // none that comes gets a Node
	a.resize("absent", 2)
	kube.Await(t, "two machines have no Node", a.awaitUnregistered("absent", 2))
	a.resize("absent", -1)
	kube.Await(t, "one of them is given up", a.awaitUnregistered("absent", 1))
	a.remove("absent", a.unregistered("absent")[0])
	kube.Await(t, "and the other", s.settled("absent", 2))
	if diff := cmp.Diff(joined, s.names(t, "absent")); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
}
