package proxmoxfake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	proxmox "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver/drivertest/wire"
)

// TestPrivilegesOfChanges: what a change of a configuration takes, by the privileges that
// qemu-server names: with all others it is refused, with them it is not.
func TestPrivilegesOfChanges(t *testing.T) {
	all := slices.Concat(proxmoxfake.Roles["PVEVMAdmin"], proxmoxfake.Roles["PVEDatastoreAdmin"], proxmoxfake.Roles["PVESDNUser"], []string{"Sys.Modify", "Mapping.Use"})
	for name, c := range map[string]struct {
		params params
		needs  []string
		within map[string][]string
		want   string // of the refusal; empty: the privilege is named
	}{
		"a disk":                           {params{"scsi1": "local-lvm:1"}, []string{"VM.Config.Disk"}, nil, ""},
		"a CD":                             {params{"ide0": "none,media=cdrom"}, []string{"VM.Config.CDROM"}, nil, ""},
		"a cloud-init drive":               {params{"ide0": "local-lvm:cloudinit", "delete": "ide2"}, []string{"VM.Config.CDROM", "VM.Config.Cloudinit"}, nil, ""},
		"a CD instead of a cloud-init one": {params{"ide2": "none,media=cdrom"}, []string{"VM.Config.CDROM", "VM.Config.Cloudinit"}, nil, ""},
		"no cloud-init drive any more":     {params{"delete": "ide2"}, []string{"VM.Config.CDROM", "VM.Config.Cloudinit"}, nil, ""},
		"boot order":                       {params{"boot": "order=scsi0"}, []string{"VM.Config.Disk"}, nil, ""},
		"hot plug":                         {params{"hotplug": "0"}, []string{"VM.Config.HWType"}, nil, ""},
		"start order":                      {params{"startup": "order=1"}, []string{"VM.Config.Options", "Sys.Modify"}, nil, ""},
		"a mapped device":                  {params{"hostpci0": "mapping=gpu"}, []string{"VM.Config.HWType", "Mapping.Use"}, nil, ""},
		"a socket":                         {params{"serial0": "socket"}, []string{"VM.Config.HWType"}, nil, ""},
		"the device itself":                {params{"hostpci0": "host=01:00"}, nil, nil, "only root can set 'hostpci0' config for non-mapped devices"},
		"arguments":                        {params{"args": "-s"}, nil, nil, "only root can set 'args' config"},
		"a bridge and VLAN": {
			params{"net0": "virtio,bridge=vmbr0,tag=5"}, []string{"SDN.Use"},
			map[string][]string{"SDN.Use": {"/sdn/zones/localnetwork/vmbr0/6", "/sdn/zones/localnetwork/vmbr1"}}, "",
		},
		"another bridge, from one that is not ours": {
			params{"net0": "virtio,bridge=vmbr1"}, nil,
			map[string][]string{"SDN.Use": {"/sdn/zones/localnetwork/vmbr1"}}, "/sdn/zones/localnetwork/vmbr0, SDN.Use",
		},
	} {
		t.Run(name, func(t *testing.T) {
			try := func(privileges []string, within map[string][]string) (said string) {
				synctest.Test(t, func(t *testing.T) {
					token := proxmoxfake.Token{ID: "n@pve!b", Secret: "s", Privileges: privileges, Within: within}
					cloud := proxmoxfake.New(proxmoxfake.Options{
						Tokens: []proxmoxfake.Token{proxmoxfake.DefaultToken, token},
						Templates: []proxmoxfake.Template{{
							VMID: 9001, Name: "debian-13", Node: "pve1", Storage: "local-lvm", Config: map[string]string{"ide2": "local-lvm:cloudinit"},
						}},
					})
					b := &bench{t, cloud, client(cloud, proxmoxfake.DefaultToken)}
					b.clone(10000, "knc1")
					said = b.refused(token, "/nodes/pve1/qemu/10000/config", c.params)
				})
				return said
			}
			if c.want != "" {
				if said := try(all, c.within); !strings.Contains(said, c.want) {
					t.Errorf("with all privileges: %q, want %q", said, c.want)
				}
				return
			}
			if said := try(all, nil); said != "" {
				t.Errorf("with all privileges: %q", said)
			}
			if c.within != nil {
				if said := try(all, c.within); !strings.Contains(said, c.needs[0]) {
					t.Errorf("with %s elsewhere: %q", c.needs[0], said)
				}
			}
			for _, p := range c.needs {
				without := slices.DeleteFunc(slices.Clone(all), func(q string) bool { return p == q })
				if said := try(without, nil); !strings.Contains(said, p) {
					t.Errorf("without %s: %q", p, said)
				}
			}
		})
	}
}

// A cloud-init drive is copied with its machine, and goes when it is taken out.
func TestCloudInitDrives(t *testing.T) {
	inBubble(t, proxmoxfake.Options{Templates: []proxmoxfake.Template{{
		VMID: 9001, Name: "debian-13", Node: "pve1", Storage: "local-lvm", Config: map[string]string{"scsi1": "local-lvm:cloudinit"},
	}}}, func(b *bench) {
		b.clone(10000, "knc1")
		const own = "local-lvm:vm-10000-cloudinit"
		if got := b.Machines()[0].Config["scsi1"]; got != own+",media=cdrom,size=4M" || !slices.Contains(b.Volumes(), own+"@pve1") {
			b.Errorf("%q, %q", got, b.Volumes())
		}
		if exit := b.end(b.begin("POST", "/nodes/pve1/qemu/10000/config", params{"ide2": "local-lvm:cloudinit"})); exit != "ide2 - cloud-init drive is already attached at 'scsi1'" {
			b.Error(exit)
		}
		b.do("POST", "/nodes/pve1/qemu/10000/config", params{"ide2": "none,media=cdrom", "delete": "scsi1"})
		if got := b.Volumes(); slices.Contains(got, own+"@pve1") {
			b.Errorf("%q", got)
		}
	})
}

// refused changes a machine by a token and returns what the call or its task says against
// it. The client library keeps a refusal's words to itself.
func (b *bench) refused(token proxmoxfake.Token, path string, p params) string {
	b.Helper()
	form := url.Values{}
	for name, value := range p {
		form.Set(name, fmt.Sprint(value))
	}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://pve.invalid/api2/json"+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "PVEAPIToken="+token.ID+"="+token.Secret)
	res, err := wire.RoundTripper(b.Cloud).RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Data    proxmox.UPID `json:"data"`
		Message string       `json:"message"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.Message != "" {
		return fmt.Sprint(answer.Message, err)
	}
	if exit := b.end(proxmox.NewTask(answer.Data, b.api)); exit != "OK" {
		return exit
	}
	return ""
}
