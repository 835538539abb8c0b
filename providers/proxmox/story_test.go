package proxmox_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver"
)

// inBubble runs a test over a cluster in fake time.
func inBubble(t *testing.T, test func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := proxmoxfake.New(proxmoxfake.Options{})
		defer cloud.Close()
		test(t, cloud, open(t, cloud))
	})
}

func made(t *testing.T, d *proxmox.Driver, req driver.CreateRequest) driver.Machine {
	t.Helper()
	m, err := untilSure(t, d, req)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func get(t *testing.T, d *proxmox.Driver, ref driver.Ref) driver.Machine {
	t.Helper()
	m, err := d.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Machines go to the nodes that are there, wherever the one that is away would rank.
func TestF30_NodeIsOffline(t *testing.T) {
	inBubble(t, func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver) {
		cloud.SetOnline("pve1", false)
		for range 4 {
			made(t, d, requestFor(t, onLVM()))
		}
		for _, m := range cloud.Machines() {
			if m.Node == "pve1" || !m.Running {
				t.Errorf("%+v", m)
			}
		}
	})
}

// Machines of a node that goes away stay known, by their tags, to a server that
// starts then too; nothing is said about how they are.
func TestF30_MachinesOfANodeThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver) {
		req := requestFor(t, onLVM())
		m := made(t, d, req)
		cloud.SetOnline(cloud.Machines()[0].Node, false)
		time.Sleep(time.Minute)
		for name, d := range map[string]*proxmox.Driver{"the same": d, "another": open(t, cloud)} {
			list, err := d.List(t.Context(), owner)
			if err != nil || len(list) != 1 || list[0].InstanceID != req.InstanceID || list[0].ProviderID != m.ProviderID || list[0].Status != driver.Unknown {
				t.Errorf("%s server lists %+v, %v", name, list, err)
			}
			if got := get(t, d, driver.Ref{InstanceID: req.InstanceID}); got.Status != driver.Unknown {
				t.Errorf("%s server gets %+v", name, got)
			}
			if err := d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}); driver.ClassOf(err) != driver.Transient {
				t.Errorf("%s server deletes it: %v", name, err)
			}
		}
	})
}

// Servers of two shards that know nothing of each other ask for the same numbers.
// Each machine is made once, and whoever lost a number leaves nothing behind.
func TestF30_RaceForNumbers(t *testing.T) {
	inBubble(t, func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver) {
		var requests []driver.CreateRequest
		var wg sync.WaitGroup
		for _, d := range []*proxmox.Driver{d, open(t, cloud), open(t, cloud)} {
			for range 4 {
				req := requestFor(t, onLVM())
				requests = append(requests, req)
				wg.Go(func() { made(t, d, req) })
			}
		}
		wg.Wait()
		machines, volumes := traces(cloud)
		if len(machines) != len(requests) || len(volumes) != 2*len(requests) {
			t.Errorf("%d machines were asked for, there are %q, %q", len(requests), machines, volumes)
		}
		for _, req := range requests {
			if n := strings.Count(fmt.Sprint(machines), string(req.InstanceID)+" "); n != 1 {
				t.Errorf("%s is there %d times", req.InstanceID, n)
			}
		}
	})
}

// A copy that takes longer than the server waits for is gone on with.
func TestCloneTakesLongerThanACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := proxmoxfake.New(proxmoxfake.Options{Durations: map[string]time.Duration{"qmclone:full": 5 * time.Minute}})
		defer cloud.Close()
		d := open(t, cloud)
		req := requestFor(t, map[string]any{"StoragePool": "ceph", "TemplateVMID": 9001})
		ctx, cancel := context.WithTimeout(t.Context(), serverTimeout)
		defer cancel()
		if _, err := d.Create(ctx, req); driver.ClassOf(err) != driver.Ambiguous {
			t.Fatalf("after %v: %v", serverTimeout, err)
		}
		if m := get(t, d, driver.Ref{InstanceID: req.InstanceID}); m.Status != driver.Pending {
			t.Errorf("meanwhile it is %+v", m)
		}
		if list, err := d.List(t.Context(), owner); err != nil || len(list) != 1 || list[0].Status != driver.Pending {
			t.Errorf("meanwhile there is %+v, %v", list, err)
		}
		made(t, d, req)
		if n := cloud.Gate.Count("POST /nodes/{node}/qemu/{vmid}/clone"); n != 1 {
			t.Errorf("it was copied %d times", n)
		}
	})
}

// Machines that are asked for at once are spread, though no node shows yet what is
// on its way to it.
func TestCreatesAtOnceAreSpread(t *testing.T) {
	inBubble(t, func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver) {
		var wg sync.WaitGroup
		for range 6 {
			req := requestFor(t, onLVM())
			wg.Go(func() { made(t, d, req) })
		}
		wg.Wait()
		on := map[string]int{}
		for _, m := range cloud.Machines() {
			on[m.Node]++
		}
		for _, node := range []string{"pve1", "pve2", "pve3"} {
			if on[node] != 2 {
				t.Fatalf("machines by node: %v, want two each", on)
			}
		}
	})
}

// A node that fills up is passed over, and what it can't take is made elsewhere.
func TestL8_NodeWithoutRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver) {
		cloud.SetRoom("local-lvm", "pve1", 0)
		cloud.SetRoom("local", "pve2", 0)
		made(t, d, requestFor(t, map[string]any{"StoragePool": "local-lvm", "TemplateVMID": 9003}))
		full := map[string]any{"StoragePool": "local-lvm", "TemplateName": "debian-13", "DiskSize": "8G"}
		for range 3 {
			made(t, d, requestFor(t, full))
		}
		machines, volumes := traces(cloud)
		if len(machines) != 4 || len(volumes) != 8 {
			t.Errorf("there is %q, %q", machines, volumes)
		}
		for _, m := range cloud.Machines() {
			if m.Node == "pve2" {
				t.Errorf("%+v", m)
			}
		}
	})
}

// A machine that was moved is found where it is.
func TestMachineMoves(t *testing.T) {
	inBubble(t, func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver) {
		req := requestFor(t, map[string]any{"StoragePool": "ceph", "TemplateVMID": 9100})
		m := made(t, d, req)
		ref := driver.Ref{InstanceID: req.InstanceID, ProviderID: m.ProviderID}
		for _, node := range []string{"pve1", "pve2", "pve3"} {
			cloud.Move(string(req.InstanceID), node)
			if got := get(t, d, ref); got.Status != driver.Running || got.ProviderID != m.ProviderID {
				t.Errorf("on %s: %+v", node, got)
			}
		}
		if err := d.Power(t.Context(), ref, driver.PowerOff); err != nil {
			t.Error(err)
		}
		untilGone(t, d, req.InstanceID)
		if left := cloud.Machines(); len(left) > 0 {
			t.Errorf("there is %+v", left)
		}
	})
}

// Machines of people are never ours, whatever number, name or tags they have in
// common with ours.
func TestF29_OthersMachines(t *testing.T) {
	inBubble(t, func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver) {
		req, copied := requestFor(t, onLVM()), requestFor(t, onLVM())
		m := made(t, d, req)
		tags := cloud.Machines()[0].Config["tags"]
		for i, pet := range []proxmoxfake.Machine{
			{Name: "web", Config: map[string]string{"tags": "prod;rack-1"}},
			{Name: string(copied.InstanceID)}, // one that is called like ours, and has neither tags nor notes
			{Name: "Copy-of-VM-" + string(req.InstanceID), Config: map[string]string{"tags": tags}},
		} {
			pet.VMID, pet.Node, pet.Running = 500+i, "pve1", true
			cloud.Plant(pet)
		}
		time.Sleep(time.Minute)
		list, err := d.List(t.Context(), owner)
		if err != nil || len(list) != 2 {
			t.Fatalf("listed are %+v, %v", list, err)
		}
		for _, l := range list {
			if l.ProviderID != m.ProviderID && (l.InstanceID != "" || !strings.HasPrefix(l.RawID, "Copy-of-VM-")) {
				t.Errorf("the copy is listed as %+v", l)
			}
		}
		if got, err := d.Get(t.Context(), driver.Ref{InstanceID: copied.InstanceID, ProviderID: "501"}); !driver.IsNotFound(err) {
			t.Errorf("by the number of another: %+v, %v", got, err)
		}
		for _, id := range []string{"500", "501", "502"} {
			if err := d.Delete(t.Context(), driver.Ref{ProviderID: id}); driver.ClassOf(err) != driver.Invalid {
				t.Errorf("delete by number alone: %v", err)
			}
			if err := d.Delete(t.Context(), driver.Ref{InstanceID: copied.InstanceID, ProviderID: id}); err != nil {
				t.Error(err)
			}
		}
		untilGone(t, d, req.InstanceID)
		if left := cloud.Machines(); len(left) != 3 || slices.ContainsFunc(left, func(m proxmoxfake.Machine) bool { return !m.Running }) {
			t.Errorf("left are %+v", left)
		}
	})
}

// A cloud-init drive that the template has gives way to the machine's CD, wherever it is,
// for a server that has the documented role and no other privilege. One at most is left
// for cloud-init to find.
func TestTemplateWithACloudInitDrive(t *testing.T) {
	for _, option := range []string{"ide2", "scsi1"} {
		synctest.Test(t, func(t *testing.T) {
			token := proxmoxfake.DefaultToken
			token.Privileges = role(t)
			cloud := proxmoxfake.New(proxmoxfake.Options{
				Tokens: []proxmoxfake.Token{token},
				Templates: []proxmoxfake.Template{{
					VMID: 9001, Name: "debian-13", Node: "pve2", Storage: "local-lvm", Config: map[string]string{option: "local-lvm:cloudinit"},
				}},
			})
			defer cloud.Close()
			req := requestFor(t, onLVM())
			made(t, open(t, cloud), req)
			config := cloud.Machines()[0].Config
			if !strings.HasPrefix(config["ide2"], "local:iso/"+string(req.InstanceID)+".iso,media=cdrom") {
				t.Errorf("%s: its CD is %q", option, config["ide2"])
			}
			_, volumes := traces(cloud)
			if config["scsi1"] != "" || slices.ContainsFunc(volumes, func(v string) bool { return strings.Contains(v, ":vm-1") && strings.Contains(v, "cloudinit") }) {
				t.Errorf("%s: it still has a cloud-init drive: %v, %q", option, config, volumes)
			}
		})
	}
}

// What the template's network device has beside bridge and VLAN is the machine's too, above
// all that the firewall filters it; but for the hardware address.
func TestNetworkDeviceKeepsItsOptions(t *testing.T) {
	const rules = "[OPTIONS]\nenable: 1\npolicy_in: DROP\n"
	for name, c := range map[string]struct {
		device   string
		firewall any // the argument; nil: none
		subnet   string
		want     string // with MAC for the hardware address
		filtered bool
	}{
		"another VLAN":        {"virtio=BC:24:11:00:00:01,bridge=vmbr1,firewall=1,mtu=1450,queues=4,rate=10,trunks=2;3,tag=7", nil, "vmbr0.100", "virtio=MAC,bridge=vmbr0,firewall=1,mtu=1450,queues=4,rate=10,trunks=2;3,tag=100", true},
		"no VLAN":             {"virtio=BC:24:11:00:00:01,bridge=vmbr1,tag=7,firewall=1", nil, "vmbr0", "virtio=MAC,bridge=vmbr0,firewall=1", true},
		"another model, down": {"e1000=BC:24:11:00:00:01,bridge=vmbr0,link_down=1", nil, "vmbr0", "e1000=MAC,bridge=vmbr0,link_down=1", false},
		"the long form":       {"model=vmxnet3,macaddr=BC:24:11:00:00:01,bridge=vmbr0,firewall=1", nil, "vmbr0.5", "vmxnet3=MAC,bridge=vmbr0,firewall=1,tag=5", true},
		"no bridge":           {"virtio=BC:24:11:00:00:01", nil, "vmbr0.5", "virtio=MAC,bridge=vmbr0,tag=5", false},
		"filtered by request": {"virtio=BC:24:11:00:00:01,bridge=vmbr0", true, "vmbr0", "virtio=MAC,bridge=vmbr0,firewall=1", true},
		"not filtered":        {"virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1", "false", "vmbr0", "virtio=MAC,bridge=vmbr0,firewall=0", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := proxmoxfake.New(proxmoxfake.Options{Templates: []proxmoxfake.Template{{
					VMID: 9001, Name: "debian-13", Node: "pve2", Storage: "local-lvm", Firewall: rules, Config: map[string]string{"net0": c.device},
				}}})
				defer cloud.Close()
				req := requestFor(t, onLVM())
				req.SubnetID = c.subnet
				if c.firewall != nil {
					req.Args["Firewall"] = c.firewall
				}
				made(t, open(t, cloud), req)
				m := cloud.Machines()[0]
				got := regexp.MustCompile(`=BC:24(:[0-9A-F]{2}){4}`).ReplaceAllString(m.Config["net0"], "=MAC")
				if got != c.want || m.Filtered("net0") != c.filtered {
					t.Errorf("net0 is %q, filtered %t; want %q, %t", got, m.Filtered("net0"), c.want, c.filtered)
				}
				if strings.Contains(m.Config["net0"], "BC:24:11:00:00:01") {
					t.Errorf("the machine has the template's hardware address: %q", m.Config["net0"])
				}
			})
		})
	}
}

// The text that a template has in its notes is there in its machines, beside ours;
// so are its tags.
func TestWhatATemplateHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := proxmoxfake.New(proxmoxfake.Options{Templates: []proxmoxfake.Template{{
			VMID: 9001, Name: "debian-13", Node: "pve2", Storage: "local-lvm",
			Config: map[string]string{"description": "Ask Ada.", "tags": "debian"},
		}}})
		defer cloud.Close()
		d, req := open(t, cloud), requestFor(t, onLVM())
		req.Args["StartOnBoot"] = true
		made(t, d, req)
		config := cloud.Machines()[0].Config
		for option, want := range map[string]string{
			"description": "Ask Ada.\n\n# >>> nstance metadata", "tags": "debian;nstance;nstance-c-prod", "onboot": "1", "cores": "2", "memory": "2048",
			"scsi0": "size=4G", "ide2": "local:iso/" + string(req.InstanceID) + ".iso,media=cdrom", "boot": "order=scsi0", "net0": "bridge=vmbr0",
		} {
			if !strings.Contains(config[option], want) {
				t.Errorf("%s is %q, want one with %q", option, config[option], want)
			}
		}
		if m := get(t, d, driver.Ref{InstanceID: req.InstanceID}); m.SubnetID != "vmbr0" || m.Type != req.InstanceType || !m.CreatedAt.Equal(req.CreatedAt.Truncate(time.Second)) {
			t.Errorf("get: %+v", m)
		}
	})
}

// One clone at a time is made onto a storage; more if the options say so, and then copies
// are made beside each other.
func TestClonesWaitForTheStorage(t *testing.T) {
	for parallel, most := range map[int]time.Duration{0: 5 * 30 * time.Second, 1: 5 * 30 * time.Second, 5: 60 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			cloud := proxmoxfake.New(proxmoxfake.Options{})
			defer cloud.Close()
			d := openWith(t, cloud, func(o *proxmox.Options) { o.ParallelClones = parallel })
			begun := time.Now()
			var wg sync.WaitGroup
			for range 5 {
				req := requestFor(t, map[string]any{"StoragePool": "ceph", "TemplateVMID": 9001}) // a copy: 20 s each
				wg.Go(func() { made(t, d, req) })
			}
			wg.Wait()
			if took := time.Since(begun); took > most || parallel < 2 && took < 5*20*time.Second {
				t.Errorf("%d at once: five copies took %v, at most %v are right", parallel, took, most)
			}
			var last time.Time
			for _, c := range cloud.Gate.Calls() {
				if c.Op != "POST /nodes/{node}/qemu/{vmid}/clone" || parallel > 1 {
					continue
				}
				if c.At.Sub(last) < 20*time.Second {
					t.Errorf("%d at once: a clone was sent %v after the one before", parallel, c.At.Sub(last))
				}
				last = c.At
			}
		})
	}
}

// Somebody destroys a machine by hand: the CD that its create left behind goes with the
// delete, on whatever node it lies, and though another server made it.
func TestDeleteRemovesTheCDOfAMachineThatIsGone(t *testing.T) {
	for name, shared := range map[string]bool{"on one node": false, "on all": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := proxmoxfake.New(proxmoxfake.Options{Storages: []proxmoxfake.Storage{
					{Name: "local", Type: "nfs", Content: []string{"iso"}, Shared: shared},
					{Name: "local-lvm", Type: "lvmthin", Content: []string{"images"}},
					{Name: "ceph", Type: "rbd", Content: []string{"images"}, Shared: true},
				}})
				defer cloud.Close()
				req := requestFor(t, onLVM())
				made(t, open(t, cloud), req)
				if _, volumes := traces(cloud); !cloud.Remove(string(req.InstanceID)) || len(volumes) != 2 {
					t.Fatalf("there is %q, want a disk and a CD", volumes)
				}
				untilGone(t, open(t, cloud), req.InstanceID)
				if _, volumes := traces(cloud); len(volumes) > 0 {
					t.Errorf("there is %q", volumes)
				}
			})
		})
	}
}
