package providers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/proxmoxfake"
)

// proxmoxSpeed is how much faster the cluster is than one with discs.
const proxmoxSpeed = 50

// Proxmox is a cluster of three nodes. It moves no address, and warns nobody.
func Proxmox(t testing.TB) *Cloud {
	t.Helper()
	h := newHosts(t)
	cloud := proxmoxfake.New(proxmoxfake.Options{
		Speed: proxmoxSpeed,
		Run: func(g proxmoxfake.Guest) (proxmoxfake.Running, error) {
			stop, err := h.run(g.Name, g.UserData)
			return running(stop), err
		},
	})
	t.Cleanup(cloud.Close)
	url := serve(t, cloud)
	free := 500
	c := &Cloud{
		Name:     "Proxmox",
		Program:  "nstance-server-proxmox",
		Provider: object{"kind": "proxmox", "zone": "lab"},
		Subnets:  []string{"vmbr0"},
		UserData: "cloud-init.yaml",
		Template: object{"instance_type": []string{"cpu:1,memory:1024,disk:4", "cpu:1,memory:768,disk:4", "cpu:1,memory:512,disk:4"}, "args": object{
			"StoragePool": "local-lvm", "TemplateName": "debian-13",
		}},
		Gate: cloud.Gate,
		Server: func(string) []string {
			return []string{
				"PROXMOX_API_URL=" + url + "/api2/json",
				"PROXMOX_TOKEN_ID=" + proxmoxfake.DefaultToken.ID, "PROXMOX_TOKEN_SECRET=" + proxmoxfake.DefaultToken.Secret,
			}
		},
		Machines: func() (found []Machine) {
			for _, m := range cloud.Machines() {
				found = append(found, Machine{Name: m.Name, ID: idOf(m), Runs: m.Running})
			}
			return found
		},
		Kill:   func(id identity.ID) { cloud.Kill(string(id)) },
		Remove: func(id identity.ID) { cloud.Remove(string(id)) },
		Plant: func(tags map[string]string) {
			free++
			cloud.Plant(proxmoxfake.Machine{VMID: free, Name: tags[identity.TagInstanceID], Node: "pve1", Running: true, Config: map[string]string{
				"tags": strings.Join([]string{
					"nstance", "nstance-c-" + tags[identity.TagClusterID], "nstance-s-" + tags[identity.TagShard], instanceTag + tags[identity.TagInstanceID],
				}, ";"),
			}})
		},
	}
	proxmoxTroubles(c, cloud, h)
	return c
}

// proxmoxTroubles is what can go wrong with a cluster.
func proxmoxTroubles(c *Cloud, cloud *proxmoxfake.Cloud, h *hosts) {
	c.calls = calls{
		create: "POST /nodes/{node}/qemu/{vmid}/clone", remove: "DELETE /nodes/{node}/qemu/{vmid}", list: "GET /cluster/resources",
		share: 0.03, // a create is a dozen calls here, and some more to see how its tasks are
	}
	c.Faults = c.calls.faults
	c.Troubles = c.calls.troubles(h, cloud.Gate, func(behind bool) {
		cloud.SetLag(10 * time.Second)
		if behind {
			cloud.SetLag(proxmoxSpeed * staleness)
		}
	})
	c.Troubles["node-away"] = nodeAway(cloud)
	c.Troubles["number-taken"] = numbersTaken(cloud)
	c.Hide = cloud.Hide
	c.SlowEnd = func(slow bool) {
		cloud.SetDuration("qmdestroy", 2*time.Second)
		if slow {
			cloud.SetDuration("qmdestroy", proxmoxSpeed*slowEnd)
		}
	}
}

// nodeAway takes the node away on which most machines are, until there is one more on
// the others than there was.
func nodeAway(cloud *proxmoxfake.Cloud) Trouble {
	var away string
	var before int
	elsewhere := func() (n int) {
		for _, m := range cloud.Machines() {
			if m.Running && m.Node != away && idOf(m) != "" {
				n++
			}
		}
		return n
	}
	return Trouble{
		Begin: func() {
			on, most := map[string]int{}, 0
			for _, m := range cloud.Machines() {
				if idOf(m) == "" {
					continue
				}
				if on[m.Node]++; on[m.Node] > most {
					away, most = m.Node, on[m.Node]
				}
			}
			before = elsewhere()
			cloud.SetOnline(away, false)
		},
		Felt: func() error {
			if n := elsewhere(); n <= before {
				return fmt.Errorf("%d machines run on other nodes than %s, and did before", n, away)
			}
			return nil
		},
		End:   func() { cloud.SetOnline(away, true) },
		Costs: true,
	}
}

// numbersTaken has somebody else be faster with the numbers of three machines.
func numbersTaken(cloud *proxmoxfake.Cloud) Trouble {
	return Trouble{
		Begin: func() { cloud.SetRivals(3) },
		Felt: func() error {
			if left := cloud.Rivals(); left > 0 {
				return fmt.Errorf("%d more numbers have to be taken", left)
			}
			return nil
		},
		End: func() { cloud.SetRivals(0) },
	}
}

// running is a machine that runs. Whether it is asked to end or killed is the same to it.
type running func()

// Stop implements [proxmoxfake.Running].
func (stop running) Stop() { stop() }

// Kill implements [proxmoxfake.Running].
func (stop running) Kill() { stop() }

// instanceTag stands before the identity of a machine.
const instanceTag = "nstance-i-"

// idOf returns the identity of a machine: from its tags, or from its name if it is so new
// that it has none.
func idOf(m proxmoxfake.Machine) string {
	if id := tagged(m.Config["tags"]); id != "" {
		return id
	}
	id, _ := identity.ParseID(m.Name) // of other names there is none
	return string(id)
}

// tagged returns the identity that tags give a machine.
func tagged(tags string) string {
	list := strings.Split(tags, ";")
	if i := slices.IndexFunc(list, func(tag string) bool { return strings.HasPrefix(tag, instanceTag) }); i >= 0 {
		return strings.TrimPrefix(list[i], instanceTag)
	}
	return ""
}
