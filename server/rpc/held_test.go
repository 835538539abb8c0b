package rpc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
)

func TestF29_HeldVMsAreShownAndNotAdoptedForStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		admin, tenant := w.operatorOf("default"), w.operatorOf("b")
		owner := driver.Owner{Cluster: cluster, Shard: shardName}
		foreign := w.cloud.Plant(owner, "vmx068a3cp3thz5z2mv1gejwftabc")
		nobody := w.cloud.Plant(owner, "marked")
		time.Sleep(5 * time.Minute) // until it was listed
		synctest.Wait()
		list, err := admin.ListHeldVMs(t.Context(), &emptypb.Empty{})
		if err != nil || len(list.Vms) != 2 {
			t.Fatalf("held: %v, %v, want two", list, err)
		}
		for i, want := range []*nstancev1.HeldVM{
			{ProviderInstanceId: foreign, InstanceId: "vmx068a3cp3thz5z2mv1gejwftabc", Reason: "no-record"},
			{ProviderInstanceId: nobody, InstanceId: "marked", Reason: "bad-instance-id"},
		} {
			got := list.Vms[i]
			if got.ProviderInstanceId != want.ProviderInstanceId || got.InstanceId != want.InstanceId || got.Reason != want.Reason {
				t.Errorf("held: %v, want %v", got, want)
			}
			if got.Since == nil || got.CreatedAt == nil || got.Since.AsTime().Before(got.CreatedAt.AsTime()) {
				t.Errorf("held since %v, created at %v", got.Since, got.CreatedAt)
			}
		}
		for id, code := range map[string]codes.Code{
			foreign: codes.FailedPrecondition, nobody: codes.FailedPrecondition, "vm-none": codes.NotFound, "": codes.InvalidArgument,
		} {
			_, err := admin.AdoptVM(t.Context(), &nstancev1.AdoptVMRequest{ProviderInstanceId: id})
			wantCode(t, err, code, "")
			_, err = tenant.AdoptVM(t.Context(), &nstancev1.AdoptVMRequest{ProviderInstanceId: id})
			wantCode(t, err, codes.PermissionDenied, "NOT_ADMINISTRATOR")
		}
	})
}
