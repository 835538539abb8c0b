//go:build kube && operator

package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// stamped is a MachineDeployment of two machines of group GROUP, with one template and another
// to go over to.
const stamped = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachineTemplate
metadata: {name: GROUP-first}
spec: {template: {spec: {groupRef: {name: GROUP}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachineTemplate
metadata: {name: GROUP-second}
spec: {template: {spec: {groupRef: {name: GROUP}, vars: {color: blue}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: GROUP}
spec:
  clusterName: CLUSTER
  replicas: 2
  selector: {matchLabels: {stamped: GROUP}}
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}
  template:
    metadata: {labels: {stamped: GROUP}}
    spec:
      clusterName: CLUSTER
      bootstrap: {dataSecretName: ""}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: NstanceMachineTemplate, name: GROUP-first}
`

// O12: a MachineDeployment stamps machines from a template, each with an instance and a Node of
// its own; it grows, shrinks, goes over to another template machine by machine, and ends with
// all of them.
func TestO12_AMachineDeploymentStampsMachines(t *testing.T) {
	s := startSystem(t)
	s.onDemand(t, "stamped")
	s.make(t, strings.NewReplacer("GROUP", "stamped", "CLUSTER", s.cluster()).Replace(stamped))
	t.Cleanup(func() {
		for _, name := range []string{"stamped-first", "stamped-second"} {
			if err := s.resource(infrav1.KindMachineTemplate).Delete(shared.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	var first, second []string
	kube.Await(t, "two machines run", s.stamps("stamped", 2, &first))
	s.merge(t, "MachineDeployment", "stamped", `{"spec":{"replicas":3}}`)
	kube.Await(t, "so does a third", s.stamps("stamped", 3, &first))
	s.merge(t, "MachineDeployment", "stamped", `{"spec":{"replicas":1}}`)
	kube.Await(t, "one is left", s.stamps("stamped", 1, &first))

	s.merge(t, "MachineDeployment", "stamped", `{"spec":{"template":{"spec":{"infrastructureRef":{"name":"stamped-second"}}}}}`)
	kube.Await(t, "another one runs instead", func(ctx context.Context) error {
		if err := s.stamps("stamped", 1, &second)(ctx); err != nil {
			return err
		}
		if slices.Equal(first, second) {
			return fmt.Errorf("it is still %v", first)
		}
		return nil
	})
	kube.Await(t, "the first one's Node is gone", s.vanished(first[0]))
	kube.Await(t, "the servers have the one instance", s.onServers("stamped", second))

	if err := s.resource("MachineDeployment").Delete(t.Context(), "stamped", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "its Node is gone", s.vanished(second[0]))
	kube.Await(t, "none is left", s.stamps("stamped", 0, &second))
	kube.Await(t, "nor on the servers", s.onServers("stamped", nil))
}

// stamps returns nil once a MachineDeployment has exactly that many machines, all of them
// Running, and puts the ids of their instances into ids.
func (s *system) stamps(name string, size int, ids *[]string) func(context.Context) error {
	return func(ctx context.Context) error {
		var machines clusterv1.MachineList
		list, err := s.resource("Machine").List(ctx, metav1.ListOptions{LabelSelector: "stamped=" + name})
		if err != nil {
			return err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.UnstructuredContent(), &machines); err != nil {
			return err
		}
		*ids = nil
		for _, m := range machines.Items {
			if m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
				return fmt.Errorf("%s is %s", m.Name, m.Status.Phase)
			}
			*ids = append(*ids, m.Spec.ProviderID[strings.LastIndex(m.Spec.ProviderID, "/")+1:])
		}
		slices.Sort(*ids)
		if len(*ids) != size {
			return fmt.Errorf("machines of %v, want %d", *ids, size)
		}
		return nil
	}
}

// onServers returns nil once the shards have exactly these instances of a group.
func (s *system) onServers(group string, want []string) func(context.Context) error {
	return func(ctx context.Context) error {
		var ids []string
		for _, shard := range s.shards.Shards() {
			all, _, err := s.shards.Instances(ctx, shard)
			if err != nil {
				return err
			}
			for _, in := range all {
				if in.GetGroup() == group && in.GetStatus() != "terminated" {
					ids = append(ids, in.GetInstanceId())
				}
			}
		}
		slices.Sort(ids)
		if !slices.Equal(ids, want) {
			return fmt.Errorf("there are %v, want %v", ids, want)
		}
		return nil
	}
}
