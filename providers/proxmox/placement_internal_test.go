package proxmox

import (
	"testing"

	pve "github.com/luthermonson/go-proxmox"
)

// What guests that run may take of their node counts, containers too; templates and what
// is stopped does not.
func TestCommittedMemory(t *testing.T) {
	guest := func(kind, status string, template uint64, memory uint64) resource {
		return resource{ClusterResource: pve.ClusterResource{Type: kind, Node: "pve1", Status: status, Template: template, MaxMem: memory}}
	}
	c := clusterOf([]resource{
		guest("qemu", "running", 0, 4*gib), guest("lxc", "running", 0, 2*gib), guest("qemu", "paused", 0, gib),
		guest("qemu", "stopped", 0, 16*gib), guest("qemu", "stopped", 1, 8*gib), guest("qemu", "unknown", 0, 0),
		{ClusterResource: pve.ClusterResource{Type: "node", Node: "pve1", Status: "online", MaxMem: 32 * gib, Mem: 3 * gib, MaxCPU: 8}},
	})
	if len(c.nodes) != 1 || c.nodes[0].memory != 29*gib || c.nodes[0].uncommitted != 25*gib || careful(c.nodes)[0].memory != 25*gib {
		t.Errorf("%+v, want 29 GiB that are not used, 25 that are nobody's", c.nodes)
	}
}
