package proxmoxfake_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	proxmox "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/proxmoxfake"
)

type params = map[string]any

// TestRefusals compares refusals with the words of the real API, those of parameters
// with the part that names one.
func TestRefusals(t *testing.T) {
	const clone = "/nodes/pve1/qemu/9001/clone"
	inBubble(t, proxmoxfake.Options{Pools: []string{"team"}}, func(b *bench) {
		b.clone(10000, "knc1")
		for _, c := range []struct {
			method, path string
			params       params
			want         string
		}{
			{"GET", "/nodes/pve1/lxc", nil, "501 Method 'GET /nodes/pve1/lxc' not implemented"},
			{"POST", "/cluster/nextid", nil, "501 Method 'POST /cluster/nextid' not implemented"},
			{"GET", "/nodes/pve9/qemu", nil, "500 hostname lookup 'pve9' failed"},
			{"GET", "/cluster/resources", params{"type": "qemu"}, `"type":"value 'qemu' does not have a value in the enumeration`},
			{"GET", "/cluster/nextid", params{"vmid": 10000}, `"vmid":"VM 10000 already exists"`},
			{"GET", "/nodes/pve2/qemu/10000/config", nil, "500 Configuration file 'nodes/pve2/qemu-server/10000.conf' does not exist"},
			{"GET", "/nodes/pve1/qemu/knc1/config", nil, `"vmid":"type check ('integer') failed - got 'knc1'"`},

			{"POST", clone, nil, `"newid":"property is missing and it is not optional"`},
			{"POST", clone, params{"newid": 99}, `"newid":"value must have a minimum value of 100"`},
			{"POST", clone, params{"newid": 10001, "tags": "x"}, `"tags":"property is not defined in schema and the schema does not allow additional properties"`},
			{"POST", clone, params{"newid": 10001, "name": "a_b"}, `"name":"invalid format - value does not look like a valid DNS name"`},
			{"POST", clone, params{"newid": 10001, "full": "maybe"}, `"full":"type check ('boolean') failed - got 'maybe'"`},
			{"POST", clone, params{"newid": 10000}, "500 unable to create VM 10000: config file already exists"},
			{"POST", clone, params{"newid": 10001, "pool": "other"}, "500 pool 'other' does not exist"},
			{"POST", clone, params{"newid": 10001, "target": "pve2"}, "500 can't clone VM to node 'pve2' (VM uses local storage)"},
			{"POST", clone, params{"newid": 10001, "target": "pve9"}, "500 no such cluster node 'pve9'"},
			{"POST", clone, params{"newid": 10001, "storage": "ceph"}, "500 parameter 'storage' not allowed for linked clones"},
			{"POST", clone, params{"newid": 10001, "full": 1, "storage": "tape"}, "500 storage 'tape' does not exist"},
			{"POST", clone, params{"newid": 10001, "full": 1, "storage": "local"}, `"storage":"storage 'local' does not support vm images"`},
			{"POST", "/nodes/pve1/qemu/9100/clone", params{"newid": 10001, "full": 1, "target": "pve2", "storage": "local-lvm"}, "500 can't clone to non-shared storage 'local-lvm'"},
			{"POST", "/nodes/pve1/qemu/9002/clone", params{"newid": 10001}, "500 Configuration file 'nodes/pve1/qemu-server/9002.conf' does not exist"},

			{"PUT", "/nodes/pve1/qemu/10000/config", params{"cores": 0}, `"cores":"value must have a minimum value of 1"`},
			{"PUT", "/nodes/pve1/qemu/10000/config", params{"colour": "red"}, `"colour":"property is not defined in schema`},
			{"PUT", "/nodes/pve1/qemu/10000/config", params{"tags": "a;#b"}, `"tags":"invalid format`},
			{"PUT", "/nodes/pve1/qemu/10000/config", params{"skiplock": 1}, `"skiplock":"Only root may use this option."`},
			{"PUT", "/nodes/pve1/qemu/10000/config", params{"cores": 2, "digest": "0000"}, "500 detected modified configuration - file changed by other user? Try again."},
			{"PUT", "/nodes/pve1/qemu/10000/config", params{"ide2": "local:iso/none.iso,media=cdrom"}, "500 volume 'local:iso/none.iso' does not exist"},
			{"PUT", "/nodes/pve1/qemu/10000/config", params{"boot": "order=scsi5"}, "500 invalid bootorder: device 'scsi5' does not exist'"},
			{"PUT", "/nodes/pve1/qemu/10000/config", params{"description": strings.Repeat("x", 8193)}, `"description":"value may only be 8192 characters long"`},
			{"PUT", "/nodes/pve1/qemu/10000/config", params{"description": strings.Repeat("x", 70000)}, "501 for data too large"},
			{"PUT", "/nodes/pve1/qemu/10000/resize", params{"disk": "scsi0", "size": "big"}, `"size":"invalid format`},

			{"POST", "/nodes/pve1/qemu/10000/status/shutdown", nil, "500 VM 10000 not running"},
			{"POST", "/nodes/pve1/qemu/10000/status/reset", nil, "500 VM 10000 not running"},
			{"POST", "/nodes/pve1/qemu/10000/status/explode", nil, "501 Method"},
			{"GET", "/nodes/pve1/tasks/UPID:x/status", nil, `"upid":"unable to parse worker upid"`},
			{"GET", "/nodes/pve1/tasks/UPID:pve1:1:1:1:qmclone:1:u@pve!t:/status", nil, `"upid":"no such task"`},
			{"GET", "/nodes/pve1/storage/tape/content", nil, "500 storage 'tape' does not exist"},
			{"DELETE", "/nodes/pve1/storage/local/content/ceph:vm-1-disk-0", nil, `"volume":"storage ID mismatch (ceph != local)"`},
		} {
			got := b.call(c.method, c.path, c.params, nil)
			if !strings.HasPrefix(got, c.want) && !strings.HasPrefix(got, "bad request: 400 Parameter verification failed. - ") || !strings.Contains(got, c.want) {
				b.Errorf("%s %s %v: %q, want %q", c.method, c.path, c.params, got, c.want)
			}
		}
		if got := b.Machines(); len(got) != 1 {
			b.Errorf("refused calls left %+v", got)
		}
	})
}

// TestTaskRefusals is about what only a task's exit status says.
func TestTaskRefusals(t *testing.T) {
	const machine = "/nodes/pve1/qemu/10000"
	for name, c := range map[string]struct {
		before       func(*bench)
		method, path string
		params       params
		want         string
	}{
		"shrink a disk":    {nil, "PUT", machine + "/resize", params{"disk": "scsi0", "size": "1G"}, "shrinking disks is not supported"},
		"grow no disk":     {nil, "PUT", machine + "/resize", params{"disk": "scsi7", "size": "9G"}, "disk 'scsi7' does not exist"},
		"start twice":      {func(b *bench) { b.do("POST", machine+"/status/start", nil) }, "POST", machine + "/status/start", nil, "VM 10000 already running"},
		"stop twice":       {nil, "POST", machine + "/status/stop", nil, "OK"},
		"start a template": {nil, "POST", "/nodes/pve1/qemu/9001/status/start", nil, "you can't start a vm if it's a template"},
		"too much memory": {
			func(b *bench) { b.do("POST", machine+"/config", params{"memory": 128 * 1024}) },
			"POST", machine + "/status/start", nil, "start failed: QEMU exited with code 1",
		},
		"a bridge that is none": {
			func(b *bench) { b.do("POST", machine+"/config", params{"net0": "virtio,bridge=vmbr7"}) },
			"POST", machine + "/status/start", nil, "start failed: QEMU exited with code 1",
		},
		"a disk that is not there": {nil, "POST", machine + "/config", params{"scsi1": "local-lvm:vm-7-disk-0"}, "volume 'local-lvm:vm-7-disk-0' does not exist"},
		"a full storage": {
			func(b *bench) { b.SetRoom("local-lvm", "pve1", proxmoxfake.GiB) },
			"POST", "/nodes/pve1/qemu/9001/clone", params{"newid": 10001, "full": 1},
			"clone failed: lvcreate 'local-lvm/vm-10001-disk-0' error: Volume group \"local-lvm\" has insufficient free space (0 extents): 512 required.",
		},
		"a protected machine": {
			func(b *bench) {
				b.do("POST", machine+"/config", params{"protection": 1})
				if got := b.call("DELETE", machine, nil, nil); got != "500 can't remove VM 10000 - protection mode enabled" {
					b.Error(got)
				}
			},
			"POST", machine + "/status/stop", nil, "OK",
		},
		"a template with clones": {nil, "DELETE", "/nodes/pve1/qemu/9001", nil, "base volume of VM 9001 is still in use by linked cloned"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, proxmoxfake.Options{}, func(b *bench) {
				b.clone(10000, "knc1")
				if c.before != nil {
					c.before(b)
				}
				machines := len(b.Machines())
				if got := b.end(b.begin(c.method, c.path, c.params)); strings.Join(strings.Fields(got), " ") != c.want {
					b.Errorf("%q, want %q", got, c.want)
				}
				if len(b.Machines()) != machines {
					b.Errorf("left over: %+v", b.Machines())
				}
			})
		})
	}
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auditor := proxmoxfake.Token{ID: "a@pve!b", Secret: "s", Privileges: proxmoxfake.Roles["PVEAuditor"]}
		nobody := proxmoxfake.Token{ID: "n@pve!b", Secret: "s", Privileges: []string{}}
		cloud := proxmoxfake.New(proxmoxfake.Options{Tokens: []proxmoxfake.Token{proxmoxfake.DefaultToken, auditor, nobody}})
		ask := func(token proxmoxfake.Token, method, path string, p params) (status string, seen int) {
			b := &bench{t, cloud, client(cloud, token)}
			var list []any
			return b.call(method, path, p, &list), len(list)
		}
		const refused = "not authorized to access endpoint" // all that the client tells
		for _, c := range []struct {
			token        proxmoxfake.Token
			method, path string
			params       params
			want         string
			seen         int
		}{
			{proxmoxfake.Token{ID: "a@pve!b", Secret: "wrong"}, "GET", "/nodes", nil, refused, 0},
			{proxmoxfake.Token{ID: "x@pve!b", Secret: "s"}, "GET", "/nodes", nil, refused, 0},
			{auditor, "GET", "/cluster/resources", params{"type": "vm"}, "", 4},
			{nobody, "GET", "/cluster/resources", params{"type": "vm"}, "", 0}, // who may see nothing is told nothing
			{nobody, "GET", "/nodes/pve1/qemu/9001/config", nil, refused, 0},
			{auditor, "POST", "/nodes/pve1/qemu/9001/clone", params{"newid": 10000}, refused, 0},
			{auditor, "PUT", "/nodes/pve1/qemu/9001/config", params{"cores": 2}, refused, 0},
			{auditor, "DELETE", "/nodes/pve1/qemu/9001", nil, refused, 0},
			{auditor, "POST", "/nodes/pve1/qemu/9001/status/start", nil, refused, 0},
		} {
			if got, seen := ask(c.token, c.method, c.path, c.params); got != c.want || seen != c.seen {
				t.Errorf("%s %s as %s: %q, %d entries; want %q, %d", c.method, c.path, c.token.ID, got, seen, c.want, c.seen)
			}
		}
	})
}

// TestTokenOfRoles makes a machine with the roles that the documentation asks for.
func TestTokenOfRoles(t *testing.T) {
	var all []string
	for _, role := range []string{"PVEVMAdmin", "PVEDatastoreAdmin", "PVEAuditor", "PVESDNUser"} {
		all = append(all, proxmoxfake.Roles[role]...)
	}
	token := proxmoxfake.DefaultToken
	token.Privileges = all
	inBubble(t, proxmoxfake.Options{Tokens: []proxmoxfake.Token{token}}, func(b *bench) {
		b.clone(10000, "knc1")
		b.do("POST", "/nodes/pve1/qemu/10000/config", params{"cores": 2, "memory": 2048, "net0": "virtio,bridge=vmbr0", "onboot": 1, "tags": "a"})
		b.do("PUT", "/nodes/pve1/qemu/10000/resize", params{"disk": "scsi0", "size": "4G"})
		b.do("POST", "/nodes/pve1/qemu/10000/status/start", nil)
		b.do("POST", "/nodes/pve1/qemu/10000/status/stop", nil)
		b.do("DELETE", "/nodes/pve1/qemu/10000", params{"purge": 1})
	})
}

func TestClonesWaitForTheStorageAndNotForLong(t *testing.T) {
	inBubble(t, proxmoxfake.Options{Durations: map[string]time.Duration{"qmclone": 25 * time.Second}}, func(b *bench) {
		var tasks []*proxmox.Task
		for i := range 5 {
			tasks = append(tasks, b.begin("POST", "/nodes/pve1/qemu/9100/clone", params{"newid": 10000 + i, "name": fmt.Sprint("knc", i)}))
		}
		exits := map[string]int{}
		for _, task := range tasks {
			exits[b.end(task)]++
		}
		want := map[string]int{"OK": 3, "clone failed: cfs-lock 'storage-ceph' error: got lock request timeout": 2}
		if !maps.Equal(exits, want) || len(b.Machines()) != 3 {
			b.Errorf("%v, want %v; machines %+v", exits, want, b.Machines())
		}
	})
}
