package proxmoxfake_test

import (
	"net/http"
	"strings"
	"testing"

	proxmox "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/proxmoxfake"
)

func TestUploads(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		send := func(storage string, fields map[string]string, name string) string {
			var upid proxmox.UPID
			err := b.api.UploadReader("/nodes/pve1/storage/"+storage+"/upload", fields, name, strings.NewReader("data"), 4, &upid)
			if err != nil {
				return err.Error()
			}
			return b.end(proxmox.NewTask(upid, b.api))
		}
		iso := map[string]string{"content": "iso"}
		for _, c := range []struct {
			storage string
			fields  map[string]string
			name    string
			want    string
		}{
			{"local", iso, "a.iso", "OK"},
			{"local", iso, "a.iso", "OK"}, // a second one takes its place
			{"local", iso, "a.txt", `"filename":"wrong file extension"`},
			{"local", map[string]string{"content": "snippets"}, "a.iso", `"content":"value 'snippets' does not have a value in the enumeration`},
			{"local", map[string]string{"content": "iso", "filename": "a.iso"}, "a.iso", `"filename":"duplicate parameter"`},
			{"ceph", iso, "a.iso", `"storage":"storage 'ceph' does not support 'iso' content"`},
		} {
			if got := send(c.storage, c.fields, c.name); got != c.want && !(strings.HasPrefix(got, "bad request: 400") && strings.Contains(got, c.want)) {
				b.Errorf("%s to %s: %q, want %q", c.name, c.storage, got, c.want)
			}
		}
		b.SetRoom("local", "pve1", 3)
		if got := send("local", iso, "b.iso"); !strings.Contains(got, "No space left on device") {
			b.Error(got)
		}
		var list []proxmox.StorageContent
		if problem := b.call("GET", "/nodes/pve1/storage/local/content", params{"content": "iso"}, &list); problem != "" || len(list) != 1 || list[0].Volid != "local:iso/a.iso" {
			b.Errorf("%s, %+v", problem, list)
		}
		if problem := b.call("GET", "/nodes/pve2/storage/local/content", nil, &list); problem != "" || len(list) != 0 {
			b.Errorf("another node has files of its own: %s, %+v", problem, list)
		}
	})
}

func TestStorages(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.do("POST", "/nodes/pve1/qemu/9100/clone", params{"newid": 10000, "full": 1, "storage": "local-lvm"})
		node := (&proxmox.Node{}).New(b.api, "pve1")
		storages, err := node.Storages(b.Context())
		if err != nil || len(storages) != 3 || storages[1].Used != 4*proxmoxfake.GiB || storages[2].Shared != 1 {
			b.Errorf("%+v, %v", storages, err)
		}
		if iso, err := node.StorageISO(b.Context()); err != nil || iso.Name != "local" {
			b.Errorf("%+v, %v", iso, err)
		}
		var version proxmox.Version
		if problem := b.call(http.MethodGet, "/version", nil, &version); problem != "" || version.Release == "" {
			b.Errorf("%s, %+v", problem, version)
		}
		cluster, err := b.api.Cluster(b.Context())
		if err != nil || cluster.Quorate != 1 || len(cluster.Nodes) != 3 {
			b.Errorf("%+v, %v", cluster, err)
		}
		if id, err := cluster.NextID(b.Context()); err != nil || id != 100 {
			b.Errorf("%d, %v", id, err)
		}
		full, err := b.api.Node(b.Context(), "pve1")
		if err != nil || full.CPUInfo.CPUs != 16 || full.Memory.Total != 64*proxmoxfake.GiB {
			b.Errorf("%+v, %v", full, err)
		}
	})
}

func TestPoolsHoldTheirMachines(t *testing.T) {
	inBubble(t, proxmoxfake.Options{Pools: []string{"team"}}, func(b *bench) {
		b.do("POST", "/nodes/pve1/qemu/9001/clone", params{"newid": 10000, "name": "knc1", "pool": "team"})
		if r := b.resource(10000); r.Pool != "team" {
			b.Errorf("%+v", r)
		}
		b.do("DELETE", "/nodes/pve1/qemu/10000", nil)
		var pools []proxmox.Pool
		if problem := b.call("GET", "/pools", params{"poolid": "team"}, &pools); problem != "" || len(pools) != 1 || len(pools[0].Members) != 0 {
			b.Errorf("%s, %+v", problem, pools)
		}
	})
}
