//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/inventory"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// hostTenant is that of the operator.
const hostTenant = "default"

// hostShard is what the operator knows of the one shard that there is.
type hostShard struct {
	hub   *inventory.Hub
	store *inventory.Store
	rev   int64
}

// newHostShard returns a shard that has listed everything, which is nothing.
func newHostShard() *hostShard {
	s := &hostShard{hub: inventory.NewHub()}
	s.store = inventory.NewStore(hostTenant, func(shard string, changes []inventory.Change) { s.hub.Changed(shard, changes...) })
	s.store.Configure([]string{"a"})
	s.update(func(sh *inventory.Shard) []inventory.Change { return sh.Connected(1, time.Now()) })
	s.labels(nil)
	s.list()
	return s
}

func (s *hostShard) update(change func(*inventory.Shard) []inventory.Change) {
	s.store.Update("a", change)
}

// labels gives the Nodes of the group web labels.
func (s *hostShard) labels(labels map[string]string) {
	s.rev++
	s.update(func(sh *inventory.Shard) []inventory.Change {
		return sh.ListedGroups(inventory.GroupList{Asked: time.Now(), Groups: []*nstancev1.GroupStatus{{
			Key: "web", Tenant: hostTenant, Zone: "z1", Revision: s.rev, Node: &nstancev1.NodeSettings{Labels: labels},
		}}}, time.Now())
	})
}

// list lists these instances of group web, and none beside them. It is believed at once, as a second listing is.
func (s *hostShard) list(ids ...string) {
	var all []*nstancev1.InstanceStatus
	for _, id := range ids {
		all = append(all, s.instance(id, ""))
	}
	s.update(func(sh *inventory.Shard) []inventory.Change {
		return sh.ListedInstances(inventory.InstanceList{Instances: all, Complete: true, Asked: time.Now()}, time.Now())
	})
}

// bind says what the binding of an instance is.
func (s *hostShard) bind(id, binding string) {
	in := s.instance(id, binding)
	s.update(func(sh *inventory.Shard) []inventory.Change {
		return sh.InstanceEvent(&nstancev1.InstanceEvent{
			InstanceId: id, Tenant: hostTenant, Group: "web", Status: "binding", Revision: in.GetRevision(), Instance: proto.CloneOf(in),
		}, time.Now())
	})
}

func (s *hostShard) instance(id, binding string) *nstancev1.InstanceStatus {
	s.rev++
	at := timestamppb.Now()
	return &nstancev1.InstanceStatus{
		InstanceId: id, Tenant: hostTenant, Group: "web", Template: "base", InstanceType: "small", Status: inventory.StatusRunning, Revision: s.rev,
		CreatedAt: at, RegisteredAt: at, ProviderUri: "nstance://a/" + id, Machine: &nstancev1.InstanceMachine{Arch: "amd64", Binding: binding},
	}
}

func hostIDs(t *testing.T, n int) (ids []string) {
	t.Helper()
	for range n {
		id, err := identity.NewID("wrk")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id.String())
	}
	return ids
}

// awaitMachines waits until these HostMachines exist, and no other, with what a condition wants of each.
func (w *hostWorld) awaitMachines(t *testing.T, what string, ids []string, is func(*hostsv1.HostMachine) error) {
	t.Helper()
	kube.Await(t, what, func(ctx context.Context) error {
		var all hostsv1.HostMachineList
		if err := w.admin.List(ctx, &all); err != nil {
			return err
		}
		var names []string
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
			if err := is(&all.Items[i]); err != nil {
				return fmt.Errorf("%s: %w", all.Items[i].Name, err)
			}
		}
		slices.Sort(names)
		if want := slices.Sorted(slices.Values(ids)); !slices.Equal(names, want) {
			return fmt.Errorf("HostMachines %v, want %v", names, want)
		}
		return nil
	})
}

// described wants the labels of an instance, with more, and that it says that its host runs.
func described(more map[string]string) func(*hostsv1.HostMachine) error {
	return func(m *hostsv1.HostMachine) error {
		want := map[string]string{
			hostsv1.LabelGroup: "web", hostsv1.LabelShard: "a", hostsv1.LabelTenant: hostTenant, hostsv1.LabelTemplate: "base", hostsv1.LabelKind: "wrk",
			hostsv1.LabelArch: "amd64", hostsv1.LabelInstanceType: "small", hostsv1.LabelZone: "z1", hostsv1.LabelOnDemand: "false",
		}
		maps.Copy(want, more)
		switch {
		case !maps.Equal(m.Labels, want):
			return fmt.Errorf("labels %v, want %v", m.Labels, want)
		case !meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionProvisioned):
			return errors.New("it does not say that its host runs")
		}
		return nil
	}
}

// M3, M4, M5, M7: the life of the HostMachines of instances on a real server with the policies in force: made, labelled
// and kept right, edited by users where that is theirs, not deleted by them, and gone with the instance or the binding.
func TestM3M4M5M7_HostMachinesOfInstancesOnARealServer(t *testing.T) {
	ownCluster(t)
	w := newHostWorld(t)
	ids := hostIDs(t, 3)
	w.known.labels(map[string]string{"example.com/tier": "batch"})
	w.known.list(ids...)
	tier := map[string]string{"example.com/tier": "batch"}
	w.awaitMachines(t, "HostMachines of instances", ids, described(tier))

	m := &hostsv1.HostMachine{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: ids[0]}, m); err != nil {
		t.Fatal(err)
	}
	if m.Spec.Provisioner != hostsv1.ProvisionerNstance || m.Spec.ProviderID != "nstance://a/"+ids[0] || string(m.Spec.Instance.ID) != ids[0] {
		t.Errorf("spec %+v", m.Spec)
	}
	if err := w.admin.Delete(t.Context(), m); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "delete the instance") {
		t.Errorf("a user deletes it: %v", err)
	}
	patch := client.MergeFrom(m.DeepCopy())
	m.Spec.ConfigurationRef, m.Spec.Paused, m.Spec.FailurePolicy = &hostsv1.ConfigurationReference{Name: "gpu"}, true, hostsv1.FailureHold
	m.Labels[hostsv1.LabelGroup], m.Labels["mine"] = "other", "1"
	m.Annotations["mine"] = "1"
	if err := w.admin.Patch(t.Context(), m, patch); err != nil {
		t.Fatalf("a user edits what is theirs: %v", err)
	}
	w.awaitMachines(t, "labels after an edit", ids, func(m *hostsv1.HostMachine) error {
		if m.Name != ids[0] {
			return described(tier)(m)
		}
		if !m.Spec.Paused || m.Spec.FailurePolicy != hostsv1.FailureHold || m.Spec.ConfigurationRef == nil || m.Annotations["mine"] != "1" {
			return fmt.Errorf("an edit is lost: %+v", m.Spec)
		}
		return described(map[string]string{"example.com/tier": "batch", "mine": "1"})(m)
	})
	w.known.labels(nil)
	w.awaitMachines(t, "labels of the group are gone", ids, func(m *hostsv1.HostMachine) error {
		if m.Name == ids[0] {
			return described(map[string]string{"mine": "1"})(m)
		}
		return described(nil)(m)
	})

	w.known.list(ids[1:]...)
	w.awaitMachines(t, "one instance is gone", ids[1:], described(nil))
	w.known.bind(ids[1], "idle")
	w.awaitMachines(t, "a binding has ended", ids[2:], described(nil))
	w.known.bind(ids[1], "configuring")
	w.awaitMachines(t, "bound again", ids[1:], described(nil))
	w.known.update((*inventory.Shard).Lost)
	w.known.list()
	for _, id := range ids[1:] { // each is looked at after that, and its label is put right
		mine := &hostsv1.HostMachine{}
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: id}, mine); err != nil {
			t.Fatal(err)
		}
		patch := client.MergeFrom(mine.DeepCopy())
		mine.Labels[hostsv1.LabelGroup] = "other"
		if err := w.admin.Patch(t.Context(), mine, patch); err != nil {
			t.Fatal(err)
		}
	}
	w.awaitMachines(t, "while the shard is out of sight", ids[1:], described(nil))
}
