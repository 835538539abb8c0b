package match_test

import (
	"slices"
	"testing"

	"nstance.dev/server/demand/match"
)

func TestRequirement(t *testing.T) {
	labels := map[string]string{"zone": "a", "cores": "16", "size": "large"}
	tests := []struct {
		name string
		req  match.Requirement
		want bool
	}{
		{"in", match.Requirement{Key: "zone", Op: match.In, Values: []string{"b", "a"}}, true},
		{"in another", match.Requirement{Key: "zone", Op: match.In, Values: []string{"b"}}, false},
		{"in, absent", match.Requirement{Key: "rack", Op: match.In, Values: []string{"b"}}, false},
		{"not in", match.Requirement{Key: "zone", Op: match.NotIn, Values: []string{"a"}}, false},
		{"not in, absent", match.Requirement{Key: "rack", Op: match.NotIn, Values: []string{"a"}}, true},
		{"exists", match.Requirement{Key: "zone", Op: match.Exists}, true},
		{"exists, absent", match.Requirement{Key: "rack", Op: match.Exists}, false},
		{"does not exist", match.Requirement{Key: "zone", Op: match.DoesNotExist}, false},
		{"does not exist, absent", match.Requirement{Key: "rack", Op: match.DoesNotExist}, true},
		{"greater", match.Requirement{Key: "cores", Op: match.Gt, Values: []string{"8"}}, true},
		{"greater than the same", match.Requirement{Key: "cores", Op: match.Gt, Values: []string{"16"}}, false},
		{"less", match.Requirement{Key: "cores", Op: match.Lt, Values: []string{"17"}}, true},
		{"less, no integer", match.Requirement{Key: "size", Op: match.Lt, Values: []string{"17"}}, false},
		{"less than no integer", match.Requirement{Key: "cores", Op: match.Lt, Values: []string{"x"}}, false},
		{"greater, absent", match.Requirement{Key: "rack", Op: match.Gt, Values: []string{"0"}}, false},
		{"greater, without a value", match.Requirement{Key: "cores", Op: match.Gt}, false},
		{"same asks nothing of one machine", match.Requirement{Key: "rack", Op: match.Same}, true},
		{"an operator of a later version", match.Requirement{Key: "zone", Op: 99}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.req.Match(labels); got != tt.want {
				t.Errorf("matches %t, want %t", got, tt.want)
			}
		})
	}
}

func TestTerms(t *testing.T) {
	labels := map[string]string{"zone": "b"}
	zone := func(v string) []match.Requirement {
		return []match.Requirement{{Key: "zone", Op: match.In, Values: []string{v}}}
	}
	gpu := match.Taint{Key: "gpu", Value: "true", Effect: match.NoSchedule}
	tests := []struct {
		name   string
		terms  match.Terms
		taints []match.Taint
		want   bool
	}{
		{"nothing is asked", match.Terms{}, nil, true},
		{"the second alternative holds", match.Terms{Alternatives: [][]match.Requirement{zone("a"), zone("b")}}, nil, true},
		{"no alternative holds", match.Terms{Alternatives: [][]match.Requirement{zone("a"), zone("c")}}, nil, false},
		{"an alternative does not replace a requirement", match.Terms{Requirements: zone("a"), Alternatives: [][]match.Requirement{zone("b"), zone("c")}}, nil, false},
		{"a taint that nothing tolerates", match.Terms{}, []match.Taint{gpu}, false},
		{"a taint that only prefers", match.Terms{}, []match.Taint{{Key: "gpu", Effect: match.PreferNoSchedule}}, true},
		{"tolerated by key", match.Terms{Tolerations: []match.Toleration{{Key: "gpu", Exists: true}}}, []match.Taint{gpu}, true},
		{"tolerated by value", match.Terms{Tolerations: []match.Toleration{{Key: "gpu", Value: "true", Effect: match.NoSchedule}}}, []match.Taint{gpu}, true},
		{"another value", match.Terms{Tolerations: []match.Toleration{{Key: "gpu", Value: "false"}}}, []match.Taint{gpu}, false},
		{"another effect", match.Terms{Tolerations: []match.Toleration{{Key: "gpu", Exists: true, Effect: match.NoExecute}}}, []match.Taint{gpu}, false},
		{"everything is tolerated", match.Terms{Tolerations: []match.Toleration{{Exists: true}}}, []match.Taint{gpu}, true},
		{"an empty key without Exists", match.Terms{Tolerations: []match.Toleration{{}}}, []match.Taint{gpu}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.terms.Match(labels, tt.taints); got != tt.want {
				t.Errorf("matches %t, want %t", got, tt.want)
			}
		})
	}
	rack := match.Terms{Requirements: []match.Requirement{{Key: "rack", Op: match.Same}}}
	if got := rack.SameKey(); got != "rack" {
		t.Errorf("same key %q", got)
	}
}

func TestObstacles(t *testing.T) {
	terms := match.Terms{
		Requirements: []match.Requirement{
			{Key: "zone", Op: match.In, Values: []string{"a", "c"}}, {Key: "rack", Op: match.Exists}, {Key: "cores", Op: match.Gt, Values: []string{"8"}},
		},
		Alternatives: [][]match.Requirement{{{Key: "size", Op: match.Exists}}, {{Key: "zone", Op: match.DoesNotExist}}},
	}
	got := terms.Obstacles(map[string]string{"zone": "b", "cores": "16"}, []match.Taint{
		{Key: "gpu", Value: "true", Effect: match.NoSchedule}, {Key: "slow", Effect: match.PreferNoSchedule}, {Key: "old", Effect: match.NoExecute},
	})
	want := []string{
		`its zone is "b", and required is zone In [a c]`, "it has no label rack, and required is rack Exists", "none of the alternatives holds",
		"its taint gpu=true:NoSchedule is not tolerated", "its taint old:NoExecute is not tolerated",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := terms.Obstacles(map[string]string{"zone": "a", "rack": "1", "cores": "9", "size": "l"}, nil); len(got) > 0 {
		t.Errorf("where all holds: %q", got)
	}
}
