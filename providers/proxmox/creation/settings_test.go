package creation

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

const testID identity.ID = "knc068a3cp3thz5z2mv1gejwftabc"

func testRequest() driver.CreateRequest {
	return driver.CreateRequest{
		InstanceID: testID, Owner: driver.Owner{Cluster: "prod", Shard: "rack-1"}, SubnetID: "vmbr0",
		InstanceType: "cpu:2,memory:2048", Args: map[string]any{"StoragePool": "ceph", "TemplateVMID": json.Number("9000")},
	}
}

func TestSettingsOf(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*driver.CreateRequest)
		want   rules.Settings
	}{
		"the least": {
			func(*driver.CreateRequest) {},
			rules.Settings{Storage: "ceph", TemplateVMID: 9000, Net: rules.Bridge{Name: "vmbr0"}, Size: rules.Size{Cores: 2, Memory: 2048}},
		},
		"everything, in arguments": {
			func(r *driver.CreateRequest) {
				r.InstanceType, r.SubnetID = "", ""
				r.Args = map[string]any{
					"StoragePool": "local-lvm", "TemplateName": "debian-13", "Bridge": "vmbr1", "VLANTag": float64(7), "Cores": 4,
					"Memory": json.Number("4096"), "DiskSize": "50G", "StartOnBoot": true, "Pool": "team/web",
				}
			},
			rules.Settings{
				Storage: "local-lvm", TemplateName: "debian-13", Net: rules.Bridge{Name: "vmbr1", VLAN: 7}, Size: rules.Size{Cores: 4, Memory: 4096, Disk: 50},
				OnBoot: true, Pool: "team/web",
			},
		},
		"numbers as templates make them": {
			func(r *driver.CreateRequest) { r.Args["TemplateVMID"], r.Args["StartOnBoot"] = "9001", "true" },
			rules.Settings{Storage: "ceph", TemplateVMID: 9001, Net: rules.Bridge{Name: "vmbr0"}, Size: rules.Size{Cores: 2, Memory: 2048}, OnBoot: true},
		},
		"an argument counts before the type": {
			func(r *driver.CreateRequest) { r.Args["Memory"] = json.Number("512") },
			rules.Settings{Storage: "ceph", TemplateVMID: 9000, Net: rules.Bridge{Name: "vmbr0"}, Size: rules.Size{Cores: 2, Memory: 512}},
		},
		"an argument that is outranked counts where the type says nothing": {
			func(r *driver.CreateRequest) {
				r.Args["Memory"], r.Args["Cores"], r.Args["DiskSize"] = "512", "8", "30G"
				r.Outranked = []string{"Cores", "DiskSize"}
			},
			rules.Settings{Storage: "ceph", TemplateVMID: 9000, Net: rules.Bridge{Name: "vmbr0"}, Size: rules.Size{Cores: 2, Memory: 512, Disk: 30}},
		},
		"all are outranked": {
			func(r *driver.CreateRequest) {
				r.InstanceType = "cpu:2,memory:2048,disk:20"
				r.Args["Memory"], r.Args["Cores"], r.Args["DiskSize"] = "512", "8", "30G"
				r.Outranked = rules.New().SizeArgs
			},
			rules.Settings{Storage: "ceph", TemplateVMID: 9000, Net: rules.Bridge{Name: "vmbr0"}, Size: rules.Size{Cores: 2, Memory: 2048, Disk: 20}},
		},
		"the subnet counts before arguments, as a whole": {
			func(r *driver.CreateRequest) { r.Args["Bridge"], r.Args["VLANTag"] = "vmbr9", json.Number("9") },
			rules.Settings{Storage: "ceph", TemplateVMID: 9000, Net: rules.Bridge{Name: "vmbr0"}, Size: rules.Size{Cores: 2, Memory: 2048}},
		},
	} {
		req := testRequest()
		c.change(&req)
		if got, err := SettingsOf(req); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestSettingsOfBadRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*driver.CreateRequest)
		why    []string
	}{
		"no id":        {func(r *driver.CreateRequest) { r.InstanceID = "" }, []string{"id"}},
		"no owner":     {func(r *driver.CreateRequest) { r.Owner.Shard = "" }, []string{"no shard"}},
		"no storage":   {func(r *driver.CreateRequest) { delete(r.Args, "StoragePool") }, []string{"StoragePool: missing"}},
		"no template":  {func(r *driver.CreateRequest) { delete(r.Args, "TemplateVMID") }, []string{"TemplateName, or TemplateVMID"}},
		"two of them":  {func(r *driver.CreateRequest) { r.Args["TemplateName"] = "debian-13" }, []string{"not both"}},
		"several ones": {func(r *driver.CreateRequest) { r.Args["Cores"], r.Args["Pool"] = "x", "" }, []string{"Cores:", "Pool:"}},
		"a bad type":   {func(r *driver.CreateRequest) { r.InstanceType = "t3.micro" }, []string{"cpu:4,memory:8192"}},
		"a bad subnet": {func(r *driver.CreateRequest) { r.SubnetID = "10/8" }, []string{"not a bridge"}},
	} {
		req := testRequest()
		c.change(&req)
		_, err := SettingsOf(req)
		for _, why := range c.why {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: error %v, want one with %q", name, err, why)
			}
		}
	}
}
