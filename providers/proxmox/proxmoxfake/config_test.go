package proxmoxfake_test

import (
	"slices"
	"testing"

	proxmox "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/proxmoxfake"
)

func TestDisksComeAndGoWithOptions(t *testing.T) {
	const config = "/nodes/pve1/qemu/10000/config"
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.clone(10000, "knc1")
		b.do("POST", config, params{"scsi1": "local-lvm:4,discard=on", "ide2": "none,media=cdrom"})
		got := b.vm(10000).VirtualMachineConfig
		if got.SCSIs["scsi1"] != "local-lvm:vm-10000-disk-1,discard=on,size=4G" || got.IDEs["ide2"] != "none,media=cdrom" {
			b.Errorf("%v, %v", got.SCSIs, got.IDEs)
		}
		b.SetRoom("local-lvm", "pve1", proxmoxfake.GiB)
		if exit := b.end(b.begin("POST", config, params{"scsi2": "local-lvm:4"})); exit == "OK" {
			b.Error("a full storage took a disk")
		}
		b.do("POST", config, params{"delete": "scsi1,ide2"})
		if got := b.Machines()[0].Config; got["scsi1"] != "" || got["ide2"] != "" || got["scsi0"] == "" {
			b.Errorf("%v", got)
		}
		b.do("DELETE", "/nodes/pve1/qemu/10000", nil)
		if got := b.Volumes(); slices.ContainsFunc(got, func(v string) bool { return v == "local-lvm:vm-10000-disk-1@pve1" }) {
			b.Errorf("a disk outlives its machine: %v", got)
		}
	})
}

func TestListsOfEverything(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.clone(10000, "knc1")
		machines, err := (&proxmox.Node{}).New(b.api, "pve1").VirtualMachines(b.Context())
		if err != nil || len(machines) != 3 || machines[2].Name != "knc1" || !machines[0].Template {
			b.Errorf("%+v, %v", machines, err)
		}
		kinds := map[string]int{}
		var list proxmox.ClusterResources
		if problem := b.call("GET", "/cluster/resources", nil, &list); problem != "" {
			b.Fatal(problem)
		}
		for _, r := range list {
			kinds[r.Type]++
		}
		if kinds["qemu"] != 5 || kinds["node"] != 3 || kinds["storage"] != 9 {
			b.Errorf("%v", kinds)
		}
		var granted proxmox.Permissions
		if problem := b.call("GET", "/access/permissions", nil, &granted); problem != "" || !granted["/"]["VM.Clone"] {
			b.Errorf("%s, %v", problem, granted)
		}
	})
}

// A clone has the firewall file of what it was cloned from, and it holds for the network
// devices that say so.
func TestFirewallOfAClone(t *testing.T) {
	inBubble(t, proxmoxfake.Options{Templates: []proxmoxfake.Template{{
		VMID: 9001, Name: "debian-13", Node: "pve1", Storage: "local-lvm", Firewall: "[OPTIONS]\nenable: 1\n",
		Config: map[string]string{"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1"},
	}}}, func(b *bench) {
		b.clone(10000, "knc1")
		if m := b.Machines()[0]; !m.Filtered("net0") || m.Filtered("net1") {
			b.Errorf("%+v", m)
		}
		b.do("POST", "/nodes/pve1/qemu/10000/config", params{"net0": "virtio,bridge=vmbr0"})
		if m := b.Machines()[0]; m.Filtered("net0") {
			b.Errorf("%+v", m)
		}
	})
}
