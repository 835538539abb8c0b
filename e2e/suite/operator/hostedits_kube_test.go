//go:build kube && operator

package operator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// M15: a template edit costs a fleet of instances one write each, and a few for the
// configuration and its versions, as the audit log has it; what else is known of them costs nothing.
func TestM15_AnEditCostsAFleetOneWriteEach(t *testing.T) {
	ownCluster(t)
	fleet := *hostFleet
	w := newHostWorld(t)
	w.configure(t)
	w.awaitVersions(t, "gpu-v1 v1.36.0")
	ids := hostIDs(t, fleet)
	w.known.list(ids...)
	w.awaitDesired(t, fleet, 1, hostsv1.ReasonNotPaved)
	content, err := w.versions.Lock(t.Context(), "gpu", 1, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids { // what the controller of hosts will write
		kube.Await(t, "assign "+id, func(ctx context.Context) error {
			m := &hostsv1.HostMachine{}
			if err := w.admin.Get(ctx, client.ObjectKey{Name: id}, m); err != nil {
				return err
			}
			m.Status.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: content.Reference, Epoch: 1}
			m.Status.Configuration.Applied = &hostsv1.AppliedVersion{VersionReference: content.Reference}
			return w.admin.Status().Update(ctx, m)
		})
	}
	w.awaitDesired(t, fleet, 1, hostsv1.ReasonUpToDate) // no write that follows from an assignment comes later
	w.awaitCounters(t, int32(fleet), 0)                 //nolint:gosec // a few hundred
	began := time.Now()
	w.edit(t, func(s *hostsv1.MachineConfigurationSpec) { s.Template.Kubernetes.Version = "v1.36.1" })
	w.awaitDesired(t, fleet, 2, hostsv1.ReasonOutdated)
	w.awaitCounters(t, int32(fleet), int32(fleet)) //nolint:gosec // a few hundred
	var n map[string]int
	kube.Await(t, "all writes are in the audit log", func(context.Context) error {
		if n = w.writes(t, began); n["hostmachines"] < fleet {
			return fmt.Errorf("there are %d", n["hostmachines"])
		}
		return nil
	})
	for resource, n := range n {
		t.Logf("measured: %d writes of %s", n, resource)
	}
	if n["hostmachines"] != fleet {
		t.Errorf("%d writes of machines, want %d", n["hostmachines"], fleet)
	}
	if n := n["machineconfigurations"] + n["machineconfigurationversions"]; n > 40 {
		t.Errorf("%d writes of configuration and versions, want a few", n)
	}
}
