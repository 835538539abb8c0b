package gcp

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
		{"e2-small", `{}`, serve.Traits{}},
		{"e2-small", `{"ProvisioningModel": "SPOT"}`, serve.Traits{Interruptible: true}},
		{"e2-small", `{"Preemptible": true}`, serve.Traits{Interruptible: true}},
		{"e2-small", `{"ProvisioningModel": "STANDARD"}`, serve.Traits{}},
		{"e2-small", `{"ProvisioningModel": "{{ .Vars.model }}"}`, serve.Traits{}},
		{"e2-small", `{"Preemptible": "perhaps"}`, serve.Traits{}},
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
