package providers

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver/drivertest/wire"
)

// googleTemplate is a spot machine that an agent of this box's architecture can live in.
func googleTemplate() object {
	of := map[string]struct{ kind, image string }{
		"amd64": {"e2-small", "debian-12"}, "arm64": {"t2a-standard-1", "debian-12-arm64"},
	}[runtime.GOARCH]
	return object{"instance_type": of.kind, "args": object{
		"SourceImage": "projects/debian-cloud/global/images/family/" + of.image, "ProvisioningModel": "SPOT",
	}}
}

// Google is a project with a subnet, in which changes show a second later than they
// happen. All machines are spot machines.
func Google(t testing.TB) *Cloud {
	t.Helper()
	h := newHosts(t)
	h.everyBoot = true // the start-up script
	cloud := gcpfake.New(gcpfake.Options{
		Conditions: gcpfake.Conditions{
			Boot: 300 * time.Millisecond, End: 500 * time.Millisecond, Work: 100 * time.Millisecond, Lag: time.Second,
		},
		PageSize: 3,
		Run:      func(m gcpfake.Machine) (func(), error) { return h.run(m.Name, []byte(m.Metadata["startup-script"])) },
	})
	t.Cleanup(cloud.Close)
	h.metadata = cloud.Metadata
	zone, url := cloud.Region()+"-b", serve(t, cloud)
	leader := netip.MustParseAddr("10.0.0.200")
	planted := map[string]bool{}
	plant := func(name string, labels map[string]string) {
		if err := cloud.Plant(zone, name, labels); err != nil {
			t.Fatal(err)
		}
	}
	return &Cloud{
		Program:  "nstance-server-gcp",
		Provider: object{"kind": "google", "zone": zone, "options": object{"project": cloud.Project(), "endpoint": url}},
		Leader:   object{"ip": leader.String()},
		Subnets:  []string{gcpfake.DefaultSubnet.Name},
		UserData: "shell.sh",
		Template: googleTemplate(),
		Gate:     cloud.Gate(),
		Server: func(id string) []string {
			if !planted[id] {
				planted[id] = true
				plant(id, nil)
			}
			return []string{"GCE_METADATA_HOST=" + strings.TrimPrefix(serve(t, cloud.Metadata(id)), "http://"), "GOOGLE_APPLICATION_CREDENTIALS="}
		},
		Machines:  func() []Machine { return googleMachines(cloud) },
		Kill:      func(id identity.ID) { cloud.Kill(string(id)) },
		Interrupt: func(id identity.ID) bool { return cloud.Interrupt(string(id)) },
		Plant: func(tags map[string]string) {
			labels := map[string]string{}
			for tag, value := range tags {
				labels[identity.Label(tag)] = value
			}
			plant(tags[identity.TagInstanceID], labels)
		},
		Holder: func() string {
			for _, m := range cloud.Machines() {
				if slices.Contains(m.Aliases, leader.String()+"/32") {
					return m.Name
				}
			}
			return ""
		},
		Faults: func(seed uint64) wire.Faults { return faults(seed, 0.2, "instances.insert") },
	}
}

// googleMachines are those that are not being deleted.
func googleMachines(cloud *gcpfake.Cloud) (found []Machine) {
	for _, m := range cloud.Machines() {
		if !m.Deleting {
			found = append(found, Machine{Name: m.Name, ID: m.Labels[identity.Label(identity.TagInstanceID)], Runs: m.Status == "RUNNING"})
		}
	}
	return found
}
