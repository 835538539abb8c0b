//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// autoscalerRights are the rights that the example gives to the autoscaler, for pools in the
// given namespace; what it needs to read the kinds of this provider is the chart's to give.
func autoscalerRights(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	example, err := os.ReadFile("../../../operator/examples/autoscaler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest := strings.ReplaceAll(string(example), "namespace: nstance\n", "namespace: "+namespace+"\n")
	return slices.DeleteFunc(objects(t, manifest), func(o *unstructured.Unstructured) bool {
		return !strings.Contains(o.GetAPIVersion(), "rbac.authorization.k8s.io")
	})
}

// autoscaler makes the calls of the cluster autoscaler's provider for Cluster API, in its
// order and with its rights: how it finds groups, what it reads of an empty one, how it
// grows one, how it takes a Node away. What it decides is not here.
type autoscaler struct {
	t         *testing.T
	client    dynamic.Interface
	namespace string
	cluster   string
}

func (s *system) autoscaler(t *testing.T) *autoscaler {
	t.Helper()
	apply(t, s.Cluster, autoscalerRights(t, s.namespace)...)
	config, err := s.ServiceAccount("kube-system", "cluster-autoscaler")
	return &autoscaler{t: t, client: clientOf(t, config, err), namespace: s.namespace, cluster: s.cluster()}
}

func (a *autoscaler) resource(group, version, plural string) dynamic.ResourceInterface {
	return a.client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural}).Namespace(a.namespace)
}

func (a *autoscaler) pools() dynamic.ResourceInterface {
	return a.resource("cluster.x-k8s.io", "v1beta2", "machinepools")
}

// groups finds node groups: MachinePools of the cluster that have both limits and are not
// paused.
func (a *autoscaler) groups() map[string]unstructured.Unstructured {
	a.t.Helper()
	all, err := a.pools().List(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	groups := map[string]unstructured.Unstructured{}
	for _, pool := range all.Items {
		notes := pool.GetAnnotations()
		_, paused := notes[clusterv1.PausedAnnotation]
		least, errLeast := strconv.Atoi(notes[clusterv1.AutoscalerMinSizeAnnotation])
		most, errMost := strconv.Atoi(notes[clusterv1.AutoscalerMaxSizeAnnotation])
		if text(&pool, "spec", "clusterName") == a.cluster && !paused && errLeast == nil && errMost == nil && most > 0 && most >= least {
			groups[pool.GetName()] = pool
		}
	}
	return groups
}

// tails are the last segments of the provider ids of all pools, each with its pool. Two that
// are equal stop the autoscaler.
func (a *autoscaler) tails() map[string]string {
	a.t.Helper()
	all, err := a.pools().List(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	tails := map[string]string{}
	for _, pool := range all.Items {
		ids, _, _ := unstructured.NestedStringSlice(pool.Object, "spec", "providerIDList")
		for _, id := range ids {
			if other, there := tails[tail(id)]; there {
				a.t.Errorf("%s is in %s and in %s", id, other, pool.GetName())
			}
			tails[tail(id)] = pool.GetName()
		}
	}
	return tails
}

// tail is what the autoscaler compares of a provider id.
func tail(id string) string { return id[strings.LastIndex(id, "/")+1:] }

// offer is what a Node of an empty group will have: what its infrastructure says, and over
// it what the MachinePool's annotations say. The autoscaler reads capacity as text alone,
// and takes a group without cpu or memory for none.
func (a *autoscaler) offer(group string) (capacity map[string]string, annotations map[string]string) {
	a.t.Helper()
	pool, err := a.pools().Get(a.t.Context(), group, metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	if kind := text(pool, "spec", "template", "spec", "infrastructureRef", "kind"); kind != infrav1.KindMachinePool {
		a.t.Fatalf("group %s has the infrastructure %s", group, kind)
	}
	infra, err := a.resource("infrastructure.cluster.x-k8s.io", "v1beta1", "nstancemachinepools").
		Get(a.t.Context(), text(pool, "spec", "template", "spec", "infrastructureRef", "name"), metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	capacity, _, err = unstructured.NestedStringMap(infra.Object, "status", "capacity")
	if err != nil {
		a.t.Fatalf("the autoscaler would ignore all of it: %v", err)
	}
	return capacity, pool.GetAnnotations()
}

// size is the target size of a group.
func (a *autoscaler) size(group string) int64 {
	a.t.Helper()
	scale, err := a.pools().Get(a.t.Context(), group, metav1.GetOptions{}, "scale")
	if err != nil {
		a.t.Fatal(err)
	}
	size, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	return size
}

// resize changes the target size of a group by so many.
func (a *autoscaler) resize(group string, by int64) {
	a.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, a.size(group)+by)
	if _, err := a.pools().Patch(a.t.Context(), group, types.MergePatchType, patch, metav1.PatchOptions{}, "scale"); err != nil {
		a.t.Fatal(err)
	}
}

// remove takes Nodes away, as the autoscaler does it: for each it marks the Machine with its
// provider id, and makes the group smaller by one. Where somebody else has just changed the
// Machine, the autoscaler tries again in its next round.
func (a *autoscaler) remove(group string, providerIDs ...string) {
	a.t.Helper()
	for _, id := range providerIDs {
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return a.mark(id) }); err != nil {
			a.t.Fatal(err)
		}
		a.resize(group, -1)
	}
}

// mark names the Machine with a provider id as the one that is to go.
func (a *autoscaler) mark(id string) error {
	machines := a.resource("cluster.x-k8s.io", "v1beta2", "machines")
	all, err := machines.List(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, machine := range all.Items {
		if tail(text(&machine, "spec", "providerID")) != tail(id) {
			continue
		}
		notes := maps.Clone(machine.GetAnnotations())
		if notes == nil {
			notes = map[string]string{}
		}
		notes[clusterv1.DeleteMachineAnnotation] = metav1.Now().String()
		machine.SetAnnotations(notes)
		_, err := machines.Update(a.t.Context(), &machine, metav1.UpdateOptions{})
		return err
	}
	return fmt.Errorf("no Machine has the provider id %s: the autoscaler would make the group smaller and name nobody", id)
}

// unregistered are the machines of a group that have no Node.
func (a *autoscaler) unregistered(group string) []string {
	a.t.Helper()
	all, err := a.client.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	joined := map[string]bool{}
	for _, node := range all.Items {
		joined[tail(text(&node, "spec", "providerID"))] = true
	}
	var ids []string
	for id, of := range a.tails() {
		if of == group && !joined[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// awaitUnregistered returns the machines of a group without a Node once there are that many.
func (a *autoscaler) awaitUnregistered(group string, want int) func(context.Context) error {
	return func(context.Context) error {
		if got := a.unregistered(group); len(got) != want {
			return fmt.Errorf("without a Node are %v", got)
		}
		return nil
	}
}

// limit gives a pool the limits that make it a group of the autoscaler.
func (s *system) limit(t *testing.T, pool string, least, most int) {
	t.Helper()
	s.merge(t, "MachinePool", pool, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d",%q:"%d"}}}`,
		clusterv1.AutoscalerMinSizeAnnotation, least, clusterv1.AutoscalerMaxSizeAnnotation, most))
}
