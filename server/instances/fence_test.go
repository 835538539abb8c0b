package instances

import (
	"testing"

	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
)

// TestS6_OnlyGroupsThatWereTooLargeAreFenced, and those when instances are to go for their
// size: each fence is a write for each of their records.
func TestS6_OnlyGroupsThatWereTooLargeAreFenced(t *testing.T) {
	sized := []fleet.Action{fleet.Condemn{ID: "vmx0", Reason: fleet.ReasonScaleDown}}
	for name, c := range map[string]struct {
		states  []fleet.State
		planned []fleet.Action
		want    bool
	}{
		"one too many":                     {[]fleet.State{fleet.Running, fleet.Pending, fleet.Unhealthy}, sized, true},
		"as many as it should":             {[]fleet.State{fleet.Running, fleet.Running}, sized, false},
		"one too many, that leaves":        {[]fleet.State{fleet.Running, fleet.Running, fleet.Draining}, sized, false},
		"one too many, and nobody is sent": {[]fleet.State{fleet.Running, fleet.Running, fleet.Running}, nil, false},
		"one too many, and a sick one goes": {
			[]fleet.State{fleet.Running, fleet.Running, fleet.Unhealthy}, []fleet.Action{fleet.Condemn{ID: "vmx0", Reason: fleet.ReasonUnhealthy}}, false,
		},
	} {
		group := fleet.GroupID{Tenant: "default", Name: "web"}
		rows := []cache.Instance{{Instance: fleet.Instance{Group: group, State: fleet.Running, OnDemand: true}}}
		for _, state := range c.states {
			rows = append(rows, cache.Instance{Instance: fleet.Instance{Group: group, State: state}})
		}
		s := New(Options{})
		s.NoteOversized(rows, func(fleet.GroupID) int { return 2 })
		if got := s.NeedsFence(group, c.planned); got != c.want {
			t.Errorf("%s: needs a fence is %t, want %t", name, got, c.want)
		}
	}
}
