package providers

import (
	"slices"
	"strings"
	"testing"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver/drivertest/wire"
)

// Proxmox is a cluster of three nodes, fifty times as fast as one with discs. It moves
// no address, and warns nobody.
func Proxmox(t testing.TB) *Cloud {
	t.Helper()
	h := newHosts(t)
	cloud := proxmoxfake.New(proxmoxfake.Options{
		Speed: 50,
		Run: func(g proxmoxfake.Guest) (proxmoxfake.Running, error) {
			stop, err := h.run(g.Name, g.UserData)
			return running(stop), err
		},
	})
	t.Cleanup(cloud.Close)
	url := serve(t, cloud)
	free := 500
	return &Cloud{
		Program:  "nstance-server-proxmox",
		Provider: object{"kind": "proxmox", "zone": "lab"},
		Subnets:  []string{"vmbr0"},
		UserData: "cloud-init.yaml",
		Template: object{"instance_type": "cpu:1,memory:1024,disk:4", "args": object{
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
				found = append(found, Machine{Name: m.Name, ID: tagged(m.Config["tags"]), Runs: m.Running})
			}
			return found
		},
		Kill: func(id identity.ID) { cloud.Kill(string(id)) },
		Plant: func(tags map[string]string) {
			free++
			cloud.Plant(proxmoxfake.Machine{VMID: free, Name: tags[identity.TagInstanceID], Node: "pve1", Running: true, Config: map[string]string{
				"tags": strings.Join([]string{
					"nstance", "nstance-c-" + tags[identity.TagClusterID], "nstance-s-" + tags[identity.TagShard], instanceTag + tags[identity.TagInstanceID],
				}, ";"),
			}})
		},
		// A create is a dozen calls here, and some more to see how its tasks are.
		Faults: func(seed uint64) wire.Faults { return faults(seed, 0.03, "POST /nodes/{node}/qemu/{vmid}/clone") },
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

// tagged returns the identity that tags give a machine.
func tagged(tags string) string {
	list := strings.Split(tags, ";")
	if i := slices.IndexFunc(list, func(tag string) bool { return strings.HasPrefix(tag, instanceTag) }); i >= 0 {
		return strings.TrimPrefix(list[i], instanceTag)
	}
	return ""
}
