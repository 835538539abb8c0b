package rules

import (
	"encoding/json"
	"strings"
	"testing"

	"nstance.dev/server/driver/drivertest/docpage"
)

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
	for _, cells := range docpage.Read(t, "../../../docs/providers/proxmox.md", "Arguments").Rows() {
		documented = append(documented, docpage.Code(cells[0])...)
	}
	docpage.Same(t, "argument", argNames(), documented)
}
