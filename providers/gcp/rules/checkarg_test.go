package rules

import (
	"strings"
	"testing"
)

func TestCheckArg(t *testing.T) {
	for name, tt := range map[string]struct {
		arg   string
		value any
		say   string // empty: nothing is wrong
	}{
		"unknown":             {"Zones", "x", "unknown argument; Google's are AccessConfig, "},
		"another case":        {"sourceImage", "x", "did you mean SourceImage?"},
		"no text":             {"SourceImage", 1, "must be a text"},
		"no flag":             {"CanIpForward", "perhaps", "must be true or false"},
		"no list":             {"NetworkTags", "web", "must be a list"},
		"no tag":              {"NetworkTags", []any{"web", "Web"}, `[1]: "Web" is not a network tag`},
		"no word":             {"ProvisioningModel", "CHEAP", "must be one of "},
		"no label":            {"Labels", map[string]any{"Team": "a"}, "Team: is not a label key"},
		"no label's value":    {"Labels", map[string]any{"team": "A b"}, "team: "},
		"no object":           {"ShieldedInstanceConfig", true, "must be an object"},
		"no such member":      {"ShieldedInstanceConfig", map[string]any{"enableSecureboot": true}, `unknown field "enableSecureboot"`},
		"no such type":        {"GuestAccelerators", []any{map[string]any{"acceleratorCount": "one"}}, "[0]: "},
		"no boot disk":        {"BootDisk", map[string]any{"Size": 5}, "Size: unknown"},
		"no size":             {"BootDisk", map[string]any{"SizeGb": 0}, "SizeGb: is 0"},
		"no account":          {"ServiceAccount", "me", "e-mail"},
		"what the cloud says": {"Status", "RUNNING", "unknown argument"},
		"what would keep it":  {"DeletionProtection", true, "unknown argument"},
		"a second boot disk":  {"Disks", []any{map[string]any{"boot": true}}, "[0].boot: is true"},
		"somebody's disk":     {"Disks", []any{map[string]any{"source": "zones/z/disks/d"}}, "[0].source: "},
		"the group's subnet":  {"NetworkInterfaces", []any{map[string]any{"Subnetwork": "x"}}, "[0].subnetwork: is set by the server"},
		"no subnet":           {"NetworkInterfaces", []any{map[string]any{}, map[string]any{}}, "[1].subnetwork: missing"},
		"no flag in depth":    {"AdvancedMachineFeatures", map[string]any{"EnableNestedVirtualization": "perhaps"}, "must be true or false"},
		"a template":          {"ProvisioningModel", "{{ .Vars.model }}", ""},
		"a template in depth": {"BootDisk", map[string]any{"SizeGb": "{{ .Vars.size }}"}, ""},
	} {
		err := New().CheckArg(tt.arg, tt.value)
		if tt.say == "" && err != nil || tt.say != "" && (err == nil || !strings.Contains(err.Error(), tt.say)) {
			t.Errorf("%s: %v, want %q", name, err, tt.say)
		}
	}
}
