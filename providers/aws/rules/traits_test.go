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
		{"m5.large", `{}`, driver.Traits{}},
		{"m5.large", `{"InstanceMarketOptions": {"MarketType": "spot"}}`, driver.Traits{Interruptible: true}},
		{"m5.large", `{"InstanceMarketOptions": {"MarketType": "capacity-block"}}`, driver.Traits{}},
		{"m5.large", `{"InstanceMarketOptions": {"MarketType": "{{ .Vars.market }}"}}`, driver.Traits{}},
		{"m5.large", `{"InstanceMarketOptions": "spot"}`, driver.Traits{}},
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
