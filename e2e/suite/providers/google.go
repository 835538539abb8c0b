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
)

// googleTemplate is a spot machine that an agent of this box's architecture can live in.
func googleTemplate() object {
	of := map[string]struct {
		kinds []string
		image string
	}{
		"amd64": {[]string{"e2-small", "e2-medium", "n2-standard-2"}, "debian-12"},
		"arm64": {[]string{"t2a-standard-1", "c4a-standard-2", "n4a-standard-2"}, "debian-12-arm64"},
	}[runtime.GOARCH]
	return object{"instance_type": of.kinds, "args": object{
		"SourceImage": "projects/debian-cloud/global/images/family/" + of.image, "ProvisioningModel": "SPOT",
	}}
}

// Google is a project with a subnet, in which changes show a second later than they
// happen. All machines are spot machines.
func Google(t testing.TB) *Cloud {
	t.Helper()
	h := newHosts(t)
	h.everyBoot = true // the start-up script
	usual := gcpfake.Conditions{
		Boot: 300 * time.Millisecond, End: 500 * time.Millisecond, Work: 100 * time.Millisecond, Lag: time.Second,
	}
	cloud := gcpfake.New(gcpfake.Options{
		Conditions: usual,
		PageSize:   2,
		Run:        func(m gcpfake.Machine) (func(), error) { return h.run(m.Name, []byte(m.Metadata["startup-script"])) },
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
	c := &Cloud{
		Name:     "Google",
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
		Remove:    func(id identity.ID) { cloud.Remove(string(id)) },
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
	}
	googleTroubles(c, cloud, h, usual)
	return c
}

// googleTroubles is what can go wrong with a project in which things are usually so.
func googleTroubles(c *Cloud, cloud *gcpfake.Cloud, h *hosts, usual gcpfake.Conditions) {
	c.calls = calls{create: "instances.insert", remove: "instances.delete", list: "instances.list", share: 0.2}
	c.Faults = c.calls.faults
	c.Troubles = c.calls.troubles(h, cloud.Gate(), func(behind bool) {
		now := usual
		if behind {
			now.Lag = staleness
		}
		cloud.SetConditions(now)
	})
	c.Troubles["broken-page"] = c.calls.brokenPages()
	c.Hide = cloud.Hide
	c.SlowEnd = func(slow bool) {
		now := usual
		if slow {
			now.End = slowEnd
		}
		cloud.SetConditions(now)
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
