package machinepool

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machinepool/planner"
)

// An uneven pool never shows the reason Balanced.
func TestO4_RebalancingReasons(t *testing.T) {
	for _, tt := range []struct {
		kind planner.MoveKind
		want string
	}{
		{planner.Rest, "False Balanced"},
		{planner.Blocked, "False Blocked"},
		{planner.Delay, "False Waiting"},
		{planner.Open, "True Moving"},
		{planner.Wait, "True Moving"},
		{planner.Close, "False Balanced"},
		{planner.Abandon, "False Stalled"},
	} {
		c := rebalancingCondition(state{}, plan{move: planner.Move{Kind: tt.kind}})
		if got := string(c.Status) + " " + c.Reason; got != tt.want {
			t.Errorf("%q: %s, want %s", tt.kind, got, tt.want)
		}
	}
}

func TestWithoutMachinesAPoolNamesTheFlag(t *testing.T) {
	for _, c := range []metav1.Condition{featureDegraded(state{}), nodesJoined(state{})} {
		if c.Reason != infrav1.ReasonMachinesDisabled || !strings.Contains(c.Message, "--machinepool-machines=false") {
			t.Errorf("%+v", c)
		}
	}
	if c := featureDegraded(state{asMachines: true}); c.Status != metav1.ConditionFalse {
		t.Errorf("%+v", c)
	}
}

// A pool that does not grow says where, and how to learn why: only the server knows.
func TestO4_WhatIsMissingNamesShardAndCommand(t *testing.T) {
	short := func(shard string, by int32) func(*state) {
		return func(st *state) {
			st.shardGroups[shard].Status.Replicas = st.shardGroups[shard].Spec.SizeOrZero() - by
		}
	}
	for _, tt := range []struct {
		name string
		st   state
		want string
	}{
		{"nothing is missing", *settled(2, 3), ""},
		{"one shard lacks some", settled(2, 3).with(short("b", 2)), `; missing: 2 on shard b; if it lasts, "nstance-admin group explain web --shard b" says why`},
		{"both do", settled(2, 3).with(short("a", 1), short("b", 3)), `; missing: 1 on shard a, 3 on shard b; if it lasts, "nstance-admin group explain web --shard a" says why`},
		{"it cannot be asked", settled(2, 3).with(short("b", 2), unreachable("b", 0)), ""},
	} {
		if got := missing(tt.st); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
