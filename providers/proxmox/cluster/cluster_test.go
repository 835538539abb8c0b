package cluster

import (
	"testing"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/placement"
)

const gib = 1 << 30

// What guests that run may take of their node counts, containers too; templates and what
// is stopped does not.
func TestCommittedMemory(t *testing.T) {
	guest := func(kind, status string, template uint64, memory uint64) api.Resource {
		return api.Resource{ClusterResource: pve.ClusterResource{Type: kind, Node: "pve1", Status: status, Template: template, MaxMem: memory}}
	}
	c := Of([]api.Resource{
		guest("qemu", "running", 0, 4*gib), guest("lxc", "running", 0, 2*gib), guest("qemu", "paused", 0, gib),
		guest("qemu", "stopped", 0, 16*gib), guest("qemu", "stopped", 1, 8*gib), guest("qemu", "unknown", 0, 0),
		{ClusterResource: pve.ClusterResource{Type: "node", Node: "pve1", Status: "online", MaxMem: 32 * gib, Mem: 3 * gib, MaxCPU: 8}},
	})
	if len(c.Nodes) != 1 || c.Nodes[0].Memory != 29*gib || c.Nodes[0].Uncommitted != 25*gib || placement.Committed(c.Nodes)[0].Memory != 25*gib {
		t.Errorf("%+v, want 29 GiB that are not used, 25 that are nobody's", c.Nodes)
	}
}
