package rpc_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// What acts on the whole shard, or speaks of all of it, is for administrators.
func TestS12_OnlyAdministratorsActOnTheShard(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tenant, admin := w.operatorOf("b"), w.operatorOf("default")
	ctx := t.Context()
	_, err := tenant.SetPause(ctx, &nstancev1.SetPauseRequest{Scope: "shard", Reason: "r"})
	wantCode(t, err, codes.PermissionDenied, "NOT_ADMINISTRATOR")
	_, err = tenant.ClearPause(ctx, &nstancev1.ClearPauseRequest{Scope: "shard"})
	wantCode(t, err, codes.PermissionDenied, "NOT_ADMINISTRATOR")
	_, err = tenant.PlanConfig(ctx, &nstancev1.PlanConfigRequest{})
	wantCode(t, err, codes.PermissionDenied, "NOT_ADMINISTRATOR")

	if _, err := admin.SetPause(ctx, &nstancev1.SetPauseRequest{Scope: "shard", Reason: "r"}); err != nil {
		t.Error(err)
	}
	if _, err := tenant.SetPause(ctx, &nstancev1.SetPauseRequest{Scope: "tenant", Reason: "ours"}); err != nil {
		t.Error(err)
	}
	if _, err := admin.ClearPause(ctx, &nstancev1.ClearPauseRequest{Scope: "shard"}); err != nil {
		t.Error(err)
	}
	template := "plain"
	st, err := tenant.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: &template}})
	if err != nil || st.Pause.GetReason() != "ours" {
		t.Errorf("group of the paused tenant: %v, %v", st, err)
	}
	st, err = admin.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: &template}})
	if err != nil || st.Pause != nil {
		t.Errorf("group of another tenant: %v, %v", st, err)
	}
}

func TestPlanOfABadConfigurationSaysWhere(t *testing.T) {
	w := newWorld(t, worldOptions{})
	_, err := w.operatorOf("default").PlanConfig(t.Context(), &nstancev1.PlanConfigRequest{Config: []byte("{\n  \"servre\": {},\n  \"groups\": 7\n}")})
	wantCode(t, err, codes.InvalidArgument, "INVALID_CONFIG")
	for _, place := range []string{"new.jsonc:2:3: ", "new.jsonc:3:13: "} {
		if !strings.Contains(err.Error(), place) {
			t.Errorf("%v\nlacks the place %s", err, place)
		}
	}
}
