package rules

import (
	"fmt"
	"slices"
	"testing"

	"nstance.dev/server/driver"
)

func TestF50_LoadBalancers(t *testing.T) {
	for text, want := range map[string][]string{
		`{"target_group_arns": ["arn:1"]}`:                           nil,
		`{"target_groups": [{"arn": "arn:1", "target_port": 8443}]}`: nil,
		`{"target_groups": [{"arn": "arn:1", "target_port": 0}]}`:    nil,
		`{}`: {"[] needs either target_group_arns or target_groups"},
		`{"target_group_arns": ["a"], "target_groups": [{"arn": "b"}]}`:    {"[] needs either target_group_arns or target_groups"},
		`{"target_group_arns": ["a", ""]}`:                                 {"[target_group_arns 1] required"},
		`{"target_groups": [{}]}`:                                          {"[target_groups 0 arn] required"},
		`{"target_groups": [{"arn": "a", "target_port": 65536}]}`:          {"[target_groups 0 target_port] 65536 is out of range"},
		`{"target_groups": [{"arn": "a", "target_port": -1}]}`:             {"[target_groups 0 target_port] -1 is out of range"},
		`{"target_groups": [{"arn": "a", "listener_port": 443}]}`:          {"reserved: [target_groups 0 listener_port] "},
		`{"target_groups": [{"arn": "a", "proxy_port": 0}, {"arn": "b"}]}`: {"reserved: [target_groups 0 proxy_port] "},
	} {
		if got := said(New().CheckLoadBalancer(object(t, text))); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestTargetGroups(t *testing.T) {
	for text, want := range map[string][]TargetGroup{
		`{}`:                                nil,
		`{"target_group_arns": ["a", "b"]}`: {{ARN: "a"}, {ARN: "b"}},
		`{"target_groups": [{"arn": "a", "target_port": 8443}, {"arn": "b"}]}`: {{ARN: "a", Port: 8443}, {ARN: "b"}},
	} {
		if got := TargetGroups(object(t, text)); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func TestF50_LeaderNetwork(t *testing.T) {
	if got := said(New().CheckLeaderNetwork(object(t, `{"interface_id": "eni-1"}`))); got != nil {
		t.Errorf("an interface: %q", got)
	}
	if got := said(New().CheckLeaderNetwork(object(t, `{}`))); !slices.Equal(got, []string{"[interface_id] required"}) {
		t.Errorf("no interface: %q", got)
	}
}

func said(findings []driver.Finding) (all []string) {
	for _, f := range findings {
		text := fmt.Sprint(f.Path, " ", f.Message)
		if f.Reserved {
			text = "reserved: " + text
		}
		all = append(all, text)
	}
	return all
}
