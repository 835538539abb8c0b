package rules

import (
	"encoding/json"
	"testing"

	"nstance.dev/server/driver"
)

func TestTraits(t *testing.T) {
	for _, test := range []struct {
		instanceType, args string
		want               driver.Traits
	}{
		{"", `{}`, driver.Traits{}},
		{"cpu:4,memory:8192", `{}`, driver.Traits{VCPU: 4, MemoryMiB: 8192}},
		{"memory:8192", `{"Cores": 2, "Memory": 1024}`, driver.Traits{VCPU: 2, MemoryMiB: 8192}},
		{"", `{"Cores": "{{ .Vars.cores }}", "Memory": 2048}`, driver.Traits{MemoryMiB: 2048}},
		{"nonsense", `{}`, driver.Traits{}},
	} {
		var args map[string]any
		if err := json.Unmarshal([]byte(test.args), &args); err != nil {
			t.Fatal(err)
		}
		if got := traits(test.instanceType, args); got != test.want {
			t.Errorf("of type %q with %s: %+v, want %+v", test.instanceType, test.args, got, test.want)
		}
	}
}
