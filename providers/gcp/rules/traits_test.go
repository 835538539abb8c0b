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
		{"e2-small", `{}`, driver.Traits{}},
		{"e2-small", `{"ProvisioningModel": "SPOT"}`, driver.Traits{Interruptible: true}},
		{"e2-small", `{"Preemptible": true}`, driver.Traits{Interruptible: true}},
		{"e2-small", `{"ProvisioningModel": "STANDARD"}`, driver.Traits{}},
		{"e2-small", `{"ProvisioningModel": "{{ .Vars.model }}"}`, driver.Traits{}},
		{"e2-small", `{"Preemptible": "perhaps"}`, driver.Traits{}},
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
