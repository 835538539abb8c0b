package proxmox_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// further is a machine with much that its template has not.
func further() map[string]any {
	args := onLVM()
	args["Config"] = map[string]any{
		"cpu": "host", "numa": true, "bios": "ovmf", "efidisk0": "local-lvm:1,efitype=4m", "scsi1": "ceph:32,discard=on",
		"net1": "virtio,bridge=vmbr1,tag=7,firewall=1", "hostpci0": "mapping=gpu,pcie=1", "balloon": json.Number("0"),
		"net0": "e1000=02:00:00:00:00:07,bridge=vmbr1,mtu=9000",
	}
	return args
}

// What the argument Config says the machine has, from the beginning; the subnet decides
// where its first network device is all the same.
func TestFurtherOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := proxmoxfake.DefaultToken
		token.Privileges = append(role(t), "VM.Config.HWType", "Mapping.Use")
		cloud := proxmoxfake.New(proxmoxfake.Options{Tokens: []proxmoxfake.Token{token}})
		defer cloud.Close()
		d, req := open(t, cloud), requestFor(t, further())
		req.SubnetID = "vmbr0.100"
		made(t, d, req)
		config := cloud.Machines()[0].Config
		for option, want := range map[string]string{
			"cpu": "host", "numa": "1", "bios": "ovmf", "balloon": "0", "hostpci0": "mapping=gpu,pcie=1", "cores": "2", "memory": "2048", "boot": "order=scsi0",
			"net0": "e1000=02:00:00:00:00:07,bridge=vmbr0,mtu=9000,tag=100",
		} {
			if config[option] != want {
				t.Errorf("%s is %q, want %q", option, config[option], want)
			}
		}
		for option, want := range map[string]string{"scsi1": "ceph:vm-10000-disk-", "efidisk0": "local-lvm:vm-10000-disk-", "net1": ",bridge=vmbr1,tag=7,firewall=1", "tags": "nstance-c-prod"} {
			if !strings.Contains(config[option], want) {
				t.Errorf("%s is %q, want one with %q", option, config[option], want)
			}
		}
		untilGone(t, d, req.InstanceID)
		if machines, volumes := traces(cloud); len(machines)+len(volumes) > 0 {
			t.Errorf("left over: %q, %q", machines, volumes)
		}
	})
}

// However often the call that makes further disks goes wrong or arrives, there is one of
// each.
func TestF19_FurtherDisksAreMadeOnce(t *testing.T) {
	const configure = "POST /nodes/{node}/qemu/{vmid}/config"
	for name, fault := range mistakes {
		if fault.Kind != "" && !fault.After {
			continue // refused for good
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := proxmoxfake.New(quick)
				defer cloud.Close()
				d, req := open(t, cloud), requestFor(t, further())
				cloud.Gate.SetFaults(wire.Times(2, configure, fault))
				made(t, d, req)
				machines, volumes := traces(cloud)
				if disks := slices.DeleteFunc(volumes, func(v string) bool { return !strings.Contains(v, "-disk-") }); len(machines) != 1 || len(disks) != 3 {
					t.Errorf("there is %q, %q, want one machine with 3 disks", machines, disks)
				}
			})
		})
	}
}

// A server whose call runs out of time in that step leaves the rest to the next call.
func TestFurtherDisksOfACreateThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := proxmoxfake.New(quick)
		defer cloud.Close()
		d, req := open(t, cloud), requestFor(t, further())
		ctx, cancel := context.WithCancel(t.Context())
		cloud.Gate.SetFaults(func(c wire.Call) wire.Fault {
			if strings.HasSuffix(c.Op, "/config") && strings.HasPrefix(c.Op, "POST") {
				cancel()
			}
			return wire.Fault{}
		})
		if _, err := d.Create(ctx, req); driver.ClassOf(err) != driver.Ambiguous {
			t.Fatalf("create: %v, want %s", err, driver.Ambiguous)
		}
		cloud.Gate.SetFaults(nil)
		made(t, d, req)
		_, volumes := traces(cloud)
		if disks := slices.DeleteFunc(volumes, func(v string) bool { return !strings.Contains(v, "-disk-") }); len(disks) != 3 {
			t.Errorf("there is %q, want 3 disks", disks)
		}
	})
}

// What the template has is not replaced, and a storage that a node lacks is no place for it.
func TestFurtherDisksThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := proxmoxfake.New(proxmoxfake.Options{})
		defer cloud.Close()
		for option, want := range map[string]driver.ErrorClass{"scsi0": driver.Invalid, "scsi1": driver.MissingRef} {
			args := onLVM()
			args["Config"] = map[string]any{option: map[string]string{"scsi0": "local-lvm:32", "scsi1": "tape:32"}[option]}
			if _, err := open(t, cloud).Create(t.Context(), requestFor(t, args)); driver.ClassOf(err) != want {
				t.Errorf("%s: %v, want %s", option, err, want)
			}
		}
		if machines, volumes := traces(cloud); len(machines)+len(volumes) > 0 {
			t.Errorf("left over: %q, %q", machines, volumes)
		}
	})
}

// The rules refuse what the server sets itself, what reaches for other machines or the
// host, and what would have no effect; each says what to do instead.
func TestS12_OptionsThatAreRefused(t *testing.T) {
	check := rules.New().CheckArg
	for option, c := range map[string]struct {
		value any
		why   string
	}{
		"name": {"x", "identity"}, "tags": {"nstance", "whose"}, "description": {"x", "notes"}, "cores": {4, "Cores"}, "memory": {1, "Memory"},
		"boot": {"order=net0", "template's disk"}, "ide2": {"none,media=cdrom", "machine's CD"}, "protection": {true, "removed"}, "delete": {"net0", "not an option"},
		"args": {"-device x", "root"}, "hookscript": {"local:snippets/x", "root"}, "cicustom": {"user=local:snippets/x", "NetworkConfig"}, "ipconfig0": {"ip=dhcp", "NetworkConfig"},
		"unused0": {"local-lvm:vm-100-disk-0", "new machine"}, "Scsi1": {"local-lvm:1", "qm set"},
		"scsi1": {"local-lvm:vm-100-disk-0", "must be a new disk"}, "scsi2": {"local-lvm:0,import-from=local-lvm:vm-100-disk-0", "new, empty disk"}, "scsi3": {"/dev/sda", "must be a new disk"},
		"scsi4": {"local-lvm:32,file=/dev/sda", "new, empty disk"}, "ide0": {"local:iso/knc06bgm7733st2576nx5jht4ecjw.iso,media=cdrom", "CD of a machine"}, "ide1": {"cdrom,media=cdrom", "must be a new disk"},
		"serial0": {"/dev/ttyS0", "socket"}, "usb0": {"host=1234:5678", "mapping"}, "hostpci0": {"host=01:00.0", "mapping"}, "net1": {"virtio", "bridge"},
		"cpu": {"host\nargs: -s", "one line"}, "numa": {[]any{true}, "one value"},
	} {
		if err := check("Config", map[string]any{option: c.value}); err == nil || !strings.Contains(err.Error(), option+": ") || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s = %v: %v, want an error with %q", option, c.value, err, c.why)
		}
	}
	for _, good := range []map[string]any{
		{}, {"cpu": "{{ .Vars.cpu }}", "numa": true, "tpmstate0": "local-lvm:1,version=v2.0", "ide0": "local:iso/drivers.iso,media=cdrom", "usb0": "spice", "watchdog": "model=i6300esb"},
	} {
		if err := check("Config", good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []any{nil, "{{ .Vars.config }}", "cpu=host", []any{}} {
		if err := check("Config", bad); err == nil {
			t.Errorf("%v is taken for options", bad)
		}
	}
	// A value that was a template is checked once it is none.
	req := requestFor(t, onLVM())
	req.Args["Config"] = map[string]any{"scsi1": "local-lvm:vm-100-disk-0,serial={{x}}"}
	cloud := proxmoxfake.New(proxmoxfake.Options{})
	defer cloud.Close()
	if _, err := open(t, cloud).Create(t.Context(), req); driver.ClassOf(err) != driver.Invalid {
		t.Errorf("a disk of another machine: %v, want %s", err, driver.Invalid)
	}
}

// A network configuration is on the machine's CD, where cloud-init reads it.
func TestNetworkConfig(t *testing.T) {
	const text = "version: 2\nethernets:\n  eth0: {addresses: [192.0.2.7/24], gateway4: 192.0.2.1}\n"
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"text":      {text, text},
		"an object": {map[string]any{"version": json.Number("2"), "ethernets": map[string]any{"eth0": map[string]any{"dhcp4": true}}}, `{"ethernets":{"eth0":{"dhcp4":true}},"version":2}`},
		"nothing":   {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got proxmoxfake.Guest
				cloud := proxmoxfake.New(proxmoxfake.Options{Run: func(g proxmoxfake.Guest) (proxmoxfake.Running, error) { got = g; return nil, nil }})
				defer cloud.Close()
				req := requestFor(t, onLVM())
				if c.value != nil {
					req.Args["NetworkConfig"] = c.value
				}
				made(t, open(t, cloud), req)
				if string(got.NetworkConfig) != c.want || string(got.UserData) != string(req.UserData) {
					t.Errorf("the machine finds %q, want %q", got.NetworkConfig, c.want)
				}
			})
		})
	}
	for _, bad := range []any{"", 5, map[string]any{"ethernets": map[string]any{}}, strings.Repeat("x", 1<<17)} {
		if err := rules.New().CheckArg("NetworkConfig", bad); err == nil {
			t.Errorf("%.20v is taken for a network configuration", bad)
		}
	}
}
