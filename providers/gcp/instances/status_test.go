package instances

import (
	"net/netip"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1/computepb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/server/driver"
)

// Every status that the SDK knows has a meaning, and one that it does not know
// has none.
func TestStatuses(t *testing.T) {
	for word, n := range compute.Instance_Status_value {
		if _, known := statuses[word]; !known && n != 0 {
			t.Errorf("status %s has no meaning", word)
		}
	}
	for word, want := range map[string]driver.Status{
		"PROVISIONING": driver.Pending, "STAGING": driver.Pending, "RUNNING": driver.Running,
		"STOPPING": driver.Stopping, "SUSPENDING": driver.Stopping, "SUSPENDED": driver.Suspended, "TERMINATED": driver.Stopped,
		"REPAIRING": driver.Unknown, "DEPROVISIONING": driver.Deleting, "": driver.Unknown, "DREAMING": driver.Unknown,
	} {
		if got := statusOf(word); got != want {
			t.Errorf("%q is %q, want %q", word, got, want)
		}
	}
}

func TestMachine(t *testing.T) {
	compare := cmpopts.EquateComparable(netip.Addr{})
	labels := `"labels": {"nstance-instance-id": "knc068a3cp3thz5z2mv1gejwftabc", "nstance-tenant": "default", "nstance-group": "web", "nstance-template": "worker", "nstance-kind": "knc"}`
	for name, tt := range map[string]struct {
		text string
		want driver.Machine
	}{
		"in full": {`{"name": "knc068a3cp3thz5z2mv1gejwftabc", "status": "RUNNING", "creationTimestamp": "2024-07-11T05:31:16.500-07:00", ` + labels + `,
			"machineType": "https://www.googleapis.com/compute/v1/projects/p/zones/z/machineTypes/e2-medium",
			"networkInterfaces": [{"networkIP": "10.0.0.2", "ipv6Address": "2001:db8::1", "subnetwork": "https://www.googleapis.com/compute/v1/projects/nstance-fake/regions/europe-west1/subnetworks/nstance"}]}`,
			driver.Machine{
				InstanceID: testID, RawID: string(testID), ProviderID: string(testID), Status: driver.Running, Hostname: string(testID),
				CreatedAt: time.Date(2024, 7, 11, 12, 31, 16, 500e6, time.UTC), IPv4: netip.MustParseAddr("10.0.0.2"), IPv6: netip.MustParseAddr("2001:db8::1"),
				Tenant: "default", Group: "web", Template: "worker", Kind: "knc", SubnetID: "nstance", Type: "e2-medium",
			}},
		"without anything": {`{"name": "x"}`, driver.Machine{ProviderID: "x", Hostname: "x", Status: driver.Unknown}},
		"a copy": {`{"name": "copy-1", "labels": {"nstance-instance-id": "knc068a3cp3thz5z2mv1gejwftabc"}}`,
			driver.Machine{RawID: string(testID), ProviderID: "copy-1", Hostname: "copy-1", Status: driver.Unknown}},
		"an id that is none": {`{"name": "x", "hostname": "x.example", "labels": {"nstance-instance-id": "mine"}}`,
			driver.Machine{RawID: "mine", ProviderID: "x", Hostname: "x.example", Status: driver.Unknown}},
	} {
		got := machineOf(here, instanceFrom(t, tt.text))
		got.CreatedAt = got.CreatedAt.UTC()
		if diff := cmp.Diff(tt.want, got, compare); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestOwnerFilter(t *testing.T) {
	got := ownerFilter(driver.Owner{Cluster: "prod", Shard: "eu-1"})
	want := `(labels.nstance-managed = "true") AND (labels.nstance-cluster-id = "prod") AND (labels.nstance-shard = "eu-1")`
	if got != want {
		t.Errorf("the filter is %s, want %s", got, want)
	}
}
