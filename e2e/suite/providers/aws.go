package providers

import (
	"maps"
	"path"
	"runtime"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws/awsfake"
)

// awsTemplate is a spot instance that an agent of this box's architecture can live in.
func awsTemplate() object {
	of := map[string]struct {
		kinds []string
		image string
	}{
		"amd64": {[]string{"m7i.large", "c7i.large", "t3.small"}, "ami-0a1100000000000004"},
		"arm64": {[]string{"m7g.large", "t4g.small", "t4g.nano"}, "ami-0a1100000000000003"},
	}[runtime.GOARCH]
	return object{"instance_type": of.kinds, "args": object{
		"ImageId":               of.image,
		"InstanceMarketOptions": object{"MarketType": "spot"},
	}}
}

// AWS is an account with a subnet, in which changes show a second later than they
// happen. All machines are spot instances.
func AWS(t testing.TB) *Cloud {
	t.Helper()
	h := newHosts(t)
	cloud := awsfake.New(awsfake.Options{
		// The servers' keys are good for their bucket and for EC2.
		Keys: map[string]string{"test": "test-secret"},
		Boot: 300 * time.Millisecond, Stop: 300 * time.Millisecond, End: 500 * time.Millisecond, Lag: time.Second,
		PageSize: 2,
		Run:      func(m awsfake.Machine) (func(), error) { return h.run(m.ID, m.UserData) },
	})
	t.Cleanup(cloud.Close)
	h.metadata = cloud.Metadata
	account := awsfake.DefaultAccount("us-east-1")
	eni, url := account.Interfaces[0], serve(t, cloud)
	servers := map[string]string{} // machines, by the servers on them
	machine := func(id identity.ID) string {
		for _, m := range cloud.Alive() {
			if m.Tags[identity.TagInstanceID] == string(id) {
				return m.ID
			}
		}
		return ""
	}
	c := &Cloud{
		Name:     "AWS",
		Program:  "nstance-server-aws",
		Provider: object{"kind": "aws", "region": "us-east-1", "zone": "us-east-1a"},
		Leader:   object{"ip": eni.IPv4.String(), "interface_id": eni.ID},
		Subnets:  []string{eni.Subnet},
		UserData: "cloud-init.yaml",
		Template: awsTemplate(),
		Gate:     cloud.Gate(),
		Server: func(id string) []string {
			if servers[id] == "" {
				servers[id] = cloud.Plant(map[string]string{"Name": id})
			}
			return []string{
				"AWS_ENDPOINT_URL_EC2=" + url, "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2=" + url,
				"AWS_EC2_METADATA_DISABLED=false", "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + serve(t, cloud.Metadata(servers[id])),
			}
		},
		Machines: func() (found []Machine) {
			for _, m := range cloud.Alive() {
				found = append(found, Machine{Name: m.ID, ID: m.Tags[identity.TagInstanceID], Runs: path.Base(string(m.State)) == "running"})
			}
			return found
		},
		Kill:      func(id identity.ID) { cloud.Kill(machine(id)) },
		Remove:    func(id identity.ID) { cloud.Remove(machine(id)) },
		Interrupt: func(id identity.ID) bool { return cloud.Interrupt(machine(id)) },
		Plant:     func(tags map[string]string) { cloud.Plant(maps.Clone(tags)) },
		Holder: func() string {
			holder := cloud.Holder(eni.ID)
			for id, machine := range servers {
				if machine == holder {
					return id
				}
			}
			return holder
		},
	}
	awsTroubles(c, cloud, h)
	return c
}

// awsTroubles is what can go wrong with an account.
func awsTroubles(c *Cloud, cloud *awsfake.Cloud, h *hosts) {
	c.calls = calls{create: "RunInstances", remove: "TerminateInstances", list: "DescribeInstances", share: 0.2}
	c.Faults = c.calls.faults
	c.Troubles = c.calls.troubles(h, cloud.Gate(), func(behind bool) {
		cloud.SetLag(time.Second)
		if behind {
			cloud.SetLag(staleness)
		}
	})
	c.Troubles["broken-page"] = c.calls.brokenPages()
	c.Hide = cloud.Hide
	c.SlowEnd = func(slow bool) {
		cloud.SetEnd(500 * time.Millisecond)
		if slow {
			cloud.SetEnd(slowEnd)
		}
	}
}
