package proxmox

import (
	"encoding/json"
	"testing"

	"nstance.dev/server/serve"
)

func TestTraits(t *testing.T) {
	for _, test := range []struct {
		instanceType, args string
		want               serve.Traits
	}{
		{"", `{}`, serve.Traits{}},
		{"cpu:4,memory:8192", `{}`, serve.Traits{VCPU: 4, MemoryMiB: 8192}},
		{"memory:8192", `{"Cores": 2, "Memory": 1024}`, serve.Traits{VCPU: 2, MemoryMiB: 8192}},
		{"", `{"Cores": "{{ .Vars.cores }}", "Memory": 2048}`, serve.Traits{MemoryMiB: 2048}},
		{"nonsense", `{}`, serve.Traits{}},
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
