package aws

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
		{"m5.large", `{}`, serve.Traits{}},
		{"m5.large", `{"InstanceMarketOptions": {"MarketType": "spot"}}`, serve.Traits{Interruptible: true}},
		{"m5.large", `{"InstanceMarketOptions": {"MarketType": "capacity-block"}}`, serve.Traits{}},
		{"m5.large", `{"InstanceMarketOptions": {"MarketType": "{{ .Vars.market }}"}}`, serve.Traits{}},
		{"m5.large", `{"InstanceMarketOptions": "spot"}`, serve.Traits{}},
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
