package gcpfake_test

import (
	"slices"
	"testing"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/gcpfake"
)

func TestACallNeedsItsPermissions(t *testing.T) {
	with := func(m *computepb.Instance) {
		m.ServiceAccounts = []*computepb.ServiceAccount{{Email: new("default")}}
	}
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("knc1", with)
		enough := a.Permissions()
		same(t, "for a machine with labels and a service account", enough, []string{
			"compute.disks.create", "compute.instances.create", "compute.instances.setLabels", "compute.instances.setServiceAccount",
			"compute.subnetworks.use", "compute.zoneOperations.get", "iam.serviceAccounts.actAs"})
		for _, missing := range enough {
			b := open(t, gcpfake.New(gcpfake.Options{Permissions: slices.DeleteFunc(slices.Clone(enough), func(p string) bool { return p == missing })}))
			if err := b.insert("knc1", with); said(err) != "403 forbidden" {
				t.Errorf("without %s: %v", missing, err)
			}
		}
	})
}
