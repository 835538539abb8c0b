package proxmox

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/docpage"
)

func testRequest() driver.CreateRequest {
	return driver.CreateRequest{
		InstanceID: testID, Owner: driver.Owner{Cluster: "prod", Shard: "rack-1"}, SubnetID: "vmbr0",
		InstanceType: "cpu:2,memory:2048", Args: map[string]any{"StoragePool": "ceph", "TemplateVMID": json.Number("9000")},
	}
}

func TestSettingsOf(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*driver.CreateRequest)
		want   settings
	}{
		"the least": {
			func(*driver.CreateRequest) {},
			settings{storage: "ceph", templateVMID: 9000, net: bridge{"vmbr0", 0}, size: size{2, 2048, 0}},
		},
		"everything, in arguments": {
			func(r *driver.CreateRequest) {
				r.InstanceType, r.SubnetID = "", ""
				r.Args = map[string]any{
					"StoragePool": "local-lvm", "TemplateName": "debian-13", "Bridge": "vmbr1", "VLANTag": float64(7), "Cores": 4,
					"Memory": json.Number("4096"), "DiskSize": "50G", "StartOnBoot": true, "Pool": "team/web",
				}
			},
			settings{
				storage: "local-lvm", templateName: "debian-13", net: bridge{"vmbr1", 7}, size: size{4, 4096, 50},
				onBoot: true, pool: "team/web",
			},
		},
		"numbers as templates make them": {
			func(r *driver.CreateRequest) { r.Args["TemplateVMID"], r.Args["StartOnBoot"] = "9001", "true" },
			settings{storage: "ceph", templateVMID: 9001, net: bridge{"vmbr0", 0}, size: size{2, 2048, 0}, onBoot: true},
		},
		"an argument counts before the type": {
			func(r *driver.CreateRequest) { r.Args["Memory"] = json.Number("512") },
			settings{storage: "ceph", templateVMID: 9000, net: bridge{"vmbr0", 0}, size: size{2, 512, 0}},
		},
		"an argument that is outranked counts where the type says nothing": {
			func(r *driver.CreateRequest) {
				r.Args["Memory"], r.Args["Cores"], r.Args["DiskSize"] = "512", "8", "30G"
				r.Outranked = []string{"Cores", "DiskSize"}
			},
			settings{storage: "ceph", templateVMID: 9000, net: bridge{"vmbr0", 0}, size: size{2, 512, 30}},
		},
		"all are outranked": {
			func(r *driver.CreateRequest) {
				r.InstanceType = "cpu:2,memory:2048,disk:20"
				r.Args["Memory"], r.Args["Cores"], r.Args["DiskSize"] = "512", "8", "30G"
				r.Outranked = sizeArgs
			},
			settings{storage: "ceph", templateVMID: 9000, net: bridge{"vmbr0", 0}, size: size{2, 2048, 20}},
		},
		"the subnet counts before arguments, as a whole": {
			func(r *driver.CreateRequest) { r.Args["Bridge"], r.Args["VLANTag"] = "vmbr9", json.Number("9") },
			settings{storage: "ceph", templateVMID: 9000, net: bridge{"vmbr0", 0}, size: size{2, 2048, 0}},
		},
	} {
		req := testRequest()
		c.change(&req)
		if got, err := settingsOf(req); err != nil || !reflect.DeepEqual(got, c.want) {
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
		_, err := settingsOf(req)
		for _, why := range c.why {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: error %v, want one with %q", name, err, why)
			}
		}
	}
}

func TestCheckArg(t *testing.T) {
	for name, good := range map[string]any{
		"StoragePool": "{{ .Vars.storage }}", "TemplateVMID": "{{ .Vars.template }}", "Cores": json.Number("2"), "DiskSize": json.Number("20"),
	} {
		if err := checkArg(name, good); err != nil {
			t.Errorf("%s = %v: %v", name, good, err)
		}
	}
	for _, c := range []struct {
		name  string
		value any
		why   string
	}{
		{"Kores", json.Number("2"), "there are StoragePool,"},
		{"Kores", "{{ .Vars.cores }}", "there are StoragePool,"},
		{"Cores", nil, "must be one value"},
		{"Cores", []any{json.Number("1")}, "must be one value"},
		{"Cores", json.Number("0"), "1 to 1024"},
		{"Memory", json.Number("2.5"), "16 to"},
		{"StartOnBoot", "yes", "true or false"},
		{"StoragePool", "a storage", "not the name of a storage"},
		{"TemplateName", "-x", "not the name of a template"},
		{"TemplateVMID", json.Number("99"), "100 to"},
	} {
		if err := checkArg(c.name, c.value); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s = %v: %v, want an error with %q", c.name, c.value, err, c.why)
		}
	}
}

func TestArgumentsOnThePage(t *testing.T) {
	var documented []string
	for _, cells := range docpage.Read(t, "../../docs/providers/proxmox.md", "Arguments").Rows() {
		documented = append(documented, docpage.Code(cells[0])...)
	}
	docpage.Same(t, "argument", argNames(), documented)
}
