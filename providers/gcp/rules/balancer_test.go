package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

func TestF50_LoadBalancers(t *testing.T) {
	for text, want := range map[string][]string{
		`{"instance_group_name": "g"}`:            nil,
		`{"network_endpoint_groups": ["a", "b"]}`: nil,
		`{}`: {"[] needs either instance_group_name or network_endpoint_groups"},
		`{"instance_group_name": "g", "network_endpoint_groups": ["a"]}`:            {"[] needs either instance_group_name or network_endpoint_groups"},
		`{"network_endpoint_groups": [""]}`:                                         {"[network_endpoint_groups 0] required"},
		`{"instance_group_name": "g", "frontends": []}`:                             {"reserved: [frontends] "},
		`{"instance_group_name": "g", "frontends": [{"ip": "x", "port": 1}]}`:       {"reserved: [frontends] ", `[frontends 0 ip] "x" is not an IP address`},
		`{"instance_group_name": "g", "frontends": [{"ip": "::1", "port": 65536}]}`: {"reserved: [frontends] ", "[frontends 0 port] 65536 is out of range"},
	} {
		var args map[string]any
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range New().CheckLoadBalancer(args) {
			text := fmt.Sprint(f.Path, " ", f.Message)
			if f.Reserved {
				text = "reserved: " + text
			}
			got = append(got, text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
