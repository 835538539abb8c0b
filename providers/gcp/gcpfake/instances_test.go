package gcpfake_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"nstance.dev/providers/gcp/gcpfake"
)

func TestAMachineComesAndGoes(t *testing.T) {
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: 20 * time.Second, End: 10 * time.Second}}, func(t *testing.T, a *account) {
		op, err := a.instances.Insert(t.Context(), a.request("knc1"))
		if err != nil || op.Done() || a.status("knc1") != "PROVISIONING" {
			t.Fatalf("insert: %v, done %v, then %s", err, op.Done(), a.status("knc1"))
		}
		later(10 * time.Second)
		if s := a.status("knc1"); s != "STAGING" {
			t.Errorf("halfway it is %s", s)
		}
		later(10 * time.Second)
		if err := op.Poll(t.Context()); err != nil || !op.Done() || a.status("knc1") != "RUNNING" {
			t.Errorf("in the end: %v, done %v, %s", err, op.Done(), a.status("knc1"))
		}

		gone, err := a.instances.Delete(t.Context(), &computepb.DeleteInstanceRequest{Project: a.Project(), Zone: a.zone, Instance: "knc1"})
		if err != nil || a.status("knc1") != "STOPPING" {
			t.Fatalf("delete: %v, then %s", err, a.status("knc1"))
		}
		if err := a.delete("knc1"); said(err) != "400 resourceNotReady" {
			t.Errorf("delete while it is being deleted: %v", err)
		}
		if err := gone.Wait(t.Context()); err != nil || a.status("knc1") != "404 notFound" {
			t.Errorf("after the delete: %v, %s", err, a.status("knc1"))
		}
		if err := a.delete("knc1"); said(err) != "404 notFound" {
			t.Errorf("delete of what is gone: %v", err)
		}
	})
}

func TestAMachineIsShownAsTheServiceShowsIt(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("knc1")
		got, err := a.get("knc1")
		if err != nil {
			t.Fatal(err)
		}
		const root = "https://www.googleapis.com/compute/v1/projects/nstance-fake/"
		want := &computepb.Instance{
			Kind: new("compute#instance"), Id: got.Id, Name: new("knc1"), Status: new("RUNNING"),
			CreationTimestamp: new("2000-01-01T00:00:00.000+00:00"), LastStartTimestamp: new("2000-01-01T00:00:00.000+00:00"),
			Zone:        new(root + "zones/europe-west1-b"),
			SelfLink:    new(root + "zones/europe-west1-b/instances/knc1"),
			MachineType: new(root + "zones/europe-west1-b/machineTypes/e2-medium"),
			CpuPlatform: new("Unknown CPU Platform"),
			Labels:      map[string]string{"team": "one"}, LabelFingerprint: got.LabelFingerprint, Fingerprint: got.Fingerprint,
			Scheduling: &computepb.Scheduling{OnHostMaintenance: new("MIGRATE"), AutomaticRestart: new(true), Preemptible: new(false), ProvisioningModel: new("STANDARD")},
			Disks: []*computepb.AttachedDisk{{Kind: new("compute#attachedDisk"), Boot: new(true), AutoDelete: new(true), Index: new(int32(0)),
				Type: new("PERSISTENT"), Mode: new("READ_WRITE"), Source: new(root + "zones/europe-west1-b/disks/knc1")}},
			NetworkInterfaces: []*computepb.NetworkInterface{{Kind: new("compute#networkInterface"), Name: new("nic0"), NetworkIP: new("10.0.0.2"),
				Network: new(root + "global/networks/nstance"), Subnetwork: new(root + "regions/europe-west1/subnetworks/nstance"),
				StackType: new("IPV4_ONLY"), Fingerprint: got.GetNetworkInterfaces()[0].Fingerprint}},
		}
		if !proto.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		if got.GetLabelFingerprint() == "" || got.GetNetworkInterfaces()[0].GetFingerprint() == "" {
			t.Error("there are no fingerprints")
		}
	})
}

func TestABadRequestIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*computepb.Instance)
		want  string
	}{
		"no name":                    {func(m *computepb.Instance) { m.Name = nil }, "400 required"},
		"a name in capitals":         {func(m *computepb.Instance) { m.Name = new("KNC") }, "400 invalid"},
		"a name that is too long":    {func(m *computepb.Instance) { m.Name = new(strings.Repeat("a", 64)) }, "400 invalid"},
		"no machine type":            {func(m *computepb.Instance) { m.MachineType = nil }, "400 required"},
		"a type that does not exist": {func(m *computepb.Instance) { m.MachineType = new("zones/europe-west1-b/machineTypes/huge") }, "400 invalid"},
		"a type of another zone":     {func(m *computepb.Instance) { m.MachineType = new("zones/europe-west1-c/machineTypes/e2-medium") }, "400 invalid"},
		"a type without its URL":     {func(m *computepb.Instance) { m.MachineType = new("e2-medium") }, "400 invalid"},
		"another architecture":       {func(m *computepb.Instance) { m.MachineType = new("zones/europe-west1-b/machineTypes/t2a-standard-1") }, "400 invalid"},
		"no disk":                    {func(m *computepb.Instance) { m.Disks = nil }, "400 invalid"},
		"no boot disk":               {func(m *computepb.Instance) { m.Disks[0].Boot = nil }, "400 invalid"},
		"an unknown image": {func(m *computepb.Instance) {
			m.Disks[0].InitializeParams.SourceImage = new("projects/debian-cloud/global/images/none")
		}, "400 invalid"},
		"an unknown family": {func(m *computepb.Instance) {
			m.Disks[0].InitializeParams.SourceImage = new("projects/debian-cloud/global/images/family/none")
		}, "404 notFound"},
		"no interface": {func(m *computepb.Instance) { m.NetworkInterfaces = nil }, "400 invalid"},
		"no subnet":    {func(m *computepb.Instance) { m.NetworkInterfaces[0].Subnetwork = nil }, "400 badRequest"},
		"an unknown subnet": {func(m *computepb.Instance) {
			m.NetworkInterfaces[0].Subnetwork = new("regions/europe-west1/subnetworks/none")
		}, "400 invalid"},
		"a subnet of another region": {func(m *computepb.Instance) {
			m.NetworkInterfaces[0].Subnetwork = new("regions/us-east1/subnetworks/nstance")
		}, "400 invalid"},
		"an address from elsewhere":   {func(m *computepb.Instance) { m.NetworkInterfaces[0].NetworkIP = new("192.0.2.1") }, "400 invalid"},
		"the address of the gateway":  {func(m *computepb.Instance) { m.NetworkInterfaces[0].NetworkIP = new("10.0.0.1") }, "400 invalid"},
		"a label in capitals":         {func(m *computepb.Instance) { m.Labels = map[string]string{"a": "B"} }, "400 invalid"},
		"a label's key with a dot":    {func(m *computepb.Instance) { m.Labels = map[string]string{"a.b": "c"} }, "400 invalid"},
		"a label that is too long":    {func(m *computepb.Instance) { m.Labels = map[string]string{"a": strings.Repeat("b", 64)} }, "400 invalid"},
		"metadata that is too large":  {metadataItems("startup-script", strings.Repeat("a", 256<<10+1)), "400 invalid"},
		"a metadata key with a slash": {metadataItems("a/b", "c"), "400 invalid"},
		"a spot machine that restarts": {func(m *computepb.Instance) {
			m.Scheduling = &computepb.Scheduling{ProvisioningModel: new("SPOT"), AutomaticRestart: new(true)}
		}, "400 badRequest"},
		"a spot machine that moves": {func(m *computepb.Instance) {
			m.Scheduling = &computepb.Scheduling{ProvisioningModel: new("SPOT"), OnHostMaintenance: new("MIGRATE")}
		}, "400 badRequest"},
		"an unknown model":     {func(m *computepb.Instance) { m.Scheduling = &computepb.Scheduling{ProvisioningModel: new("CHEAP")} }, "400 invalid"},
		"a stranger's account": {func(m *computepb.Instance) { m.ServiceAccounts = []*computepb.ServiceAccount{{Email: new("x@y.z")}} }, "400 invalid"},
		"an unknown policy": {func(m *computepb.Instance) {
			m.ResourcePolicies = []string{"regions/europe-west1/resourcePolicies/none"}
		}, "404 notFound"},
		"what only the service say": {func(m *computepb.Instance) { m.Status = new("RUNNING") }, "400 badRequest"},
	} {
		within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
			if err := a.insert("knc1", c.spoil); said(err) != c.want {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
			if all := a.Machines(); len(all) > 0 {
				t.Errorf("%s: it made %+v", name, all)
			}
		})
	}
}

func metadataItems(key, value string) func(*computepb.Instance) {
	return func(m *computepb.Instance) {
		m.Metadata = &computepb.Metadata{Items: []*computepb.Items{{Key: &key, Value: &value}}}
	}
}

func TestWhatTheAPIDoesNotHaveIsRefused(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		for name, c := range map[string]struct{ method, path, body, want string }{
			"another project":         {"GET", "projects/other/zones/europe-west1-b/instances", "", "404 Not Found"},
			"another zone":            {"GET", "projects/nstance-fake/zones/us-east1-b/instances", "", "400 Bad Request"},
			"an unknown parameter":    {"GET", "projects/nstance-fake/zones/europe-west1-b/instances?maxresults=3", "", "400 Bad Request"},
			"a parameter's type":      {"GET", "projects/nstance-fake/zones/europe-west1-b/instances?maxResults=many", "", "400 Bad Request"},
			"an unknown field":        {"POST", "projects/nstance-fake/zones/europe-west1-b/instances", `{"nam":"knc1"}`, "400 Bad Request"},
			"a field's type":          {"POST", "projects/nstance-fake/zones/europe-west1-b/instances", `{"name":[]}`, "400 Bad Request"},
			"no body":                 {"POST", "projects/nstance-fake/zones/europe-west1-b/instances", "", "400 Bad Request"},
			"a body where none is":    {"GET", "projects/nstance-fake/zones/europe-west1-b/instances", `{}`, "400 Bad Request"},
			"a method that is not":    {"PUT", "projects/nstance-fake/zones/europe-west1-b/instances", "", "404 Not Found"},
			"a system parameter":      {"GET", "projects/nstance-fake/zones/europe-west1-b/instances?%24alt=json", "", "200 OK"},
			"a request id of its own": {"DELETE", "projects/nstance-fake/zones/europe-west1-b/instances/knc1?requestId=mine", "", "400 Bad Request"},
		} {
			req, _ := http.NewRequestWithContext(t.Context(), c.method, gcpfake.Endpoint+"/compute/v1/"+c.path, strings.NewReader(c.body))
			resp, err := a.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.Status != c.want {
				t.Errorf("%s: %s, want %s", name, resp.Status, c.want)
			}
		}
	})
}

func TestANameIsTakenUntilItsMachineIsGone(t *testing.T) {
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{End: time.Minute}}, func(t *testing.T, a *account) {
		a.must("knc1")
		if err := a.insert("knc1"); said(err) != "409 alreadyExists" {
			t.Errorf("insert of a name that is taken: %v", err)
		}
		a.zone = a.Region() + "-c"
		a.must("knc1") // names are a zone's own
	})
}

func TestAListingLagsBehind(t *testing.T) {
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Lag: time.Minute}}, func(t *testing.T, a *account) {
		a.must("knc1")
		if s := a.status("knc1"); s != "404 notFound" {
			t.Errorf("right after the insert: %s", s)
		}
		if m, ok := a.Machine("knc1"); !ok || m.Status != "RUNNING" {
			t.Errorf("the truth is %+v, %v", m, ok)
		}
		if err := a.insert("knc1"); said(err) != "409 alreadyExists" {
			t.Errorf("insert of a name that is taken and does not show: %v", err)
		}
		later(time.Minute)
		if s := a.status("knc1"); s != "RUNNING" {
			t.Errorf("a minute later: %s", s)
		}
		if err := a.delete("knc1"); err != nil {
			t.Fatal(err)
		}
		if all, err := a.names("", 0); err != nil || len(all) != 1 || a.status("knc1") != "STOPPING" {
			t.Errorf("right after the delete: %v, %v, %s", all, err, a.status("knc1"))
		}
		later(time.Minute)
		if all, err := a.names("", 0); err != nil || len(all) != 0 {
			t.Errorf("a minute later: %v, %v", all, err)
		}
	})
}

func TestAListingHasPagesAndAFilter(t *testing.T) {
	within(t, gcpfake.Options{PageSize: 3}, func(t *testing.T, a *account) {
		var want []string
		for n := range 8 {
			name := fmt.Sprintf("knc%d", n)
			a.must(name, func(m *computepb.Instance) {
				m.Labels = map[string]string{"nstance-shard": fmt.Sprint(n % 2), "n": fmt.Sprint(n)}
			})
			if n%2 == 1 {
				want = append(want, name)
			}
		}
		for _, size := range []uint32{0, 1, 2, 500} {
			before := a.Gate().Count("instances.list")
			got, err := a.names("(labels.nstance-shard=1) AND (labels.n:*)", size)
			if err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("in pages of %d", size), got, want)
			pages := map[uint32]int{0: 2, 1: 4, 2: 2, 500: 2}[size]
			if n := a.Gate().Count("instances.list") - before; n != pages {
				t.Errorf("in pages of %d: %d calls, want %d", size, n, pages)
			}
		}
		if _, err := a.names("labels.n=", 0); said(err) != "400 invalid" {
			t.Errorf("half a filter: %v", err)
		}
		if _, err := a.names("", 501); said(err) != "400 invalid" {
			t.Errorf("a page that is too large: %v", err)
		}
	})
}

func TestF21_HiddenMachinesAreFoundByName(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("knc1")
		a.Hide(true)
		if all, err := a.names("", 0); len(all) > 0 || err != nil {
			t.Errorf("a listing has %v, %v", all, err)
		}
		if s := a.status("knc1"); s != "RUNNING" {
			t.Errorf("by name it is %s", s)
		}
		a.Hide(false)
		if all, err := a.names("", 0); len(all) != 1 || err != nil {
			t.Errorf("a listing afterwards has %v, %v", all, err)
		}
	})
}
