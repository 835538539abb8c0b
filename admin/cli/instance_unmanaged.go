package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// listUnmanaged prints the machines of the selected shards that no record stands for.
func listUnmanaged(ctx context.Context, env *Env, flags *shardFlags, format output.Format, group string, chosen *choice) error {
	items, err := gather(ctx, env, flags, func(ctx context.Context, s *shard) ([]output.Item[*nstancev1.HeldVM], error) {
		response, err := s.api.ListHeldVMs(ctx, &emptypb.Empty{})
		if err != nil {
			return nil, err
		}
		var items []output.Item[*nstancev1.HeldVM]
		for _, vm := range response.GetVms() {
			if group == "" || vm.GetGroup() == group {
				items = append(items, itemOf(s, vm))
			}
		}
		return items, nil
	})
	return printChosen(env.Out, format, unmanagedView(env.Now), items, err, chosen, func(*nstancev1.HeldVM) []string { return nil })
}

func unmanagedView(now func() time.Time) output.View[*nstancev1.HeldVM] {
	type column = output.Column[*nstancev1.HeldVM]
	return output.View[*nstancev1.HeldVM]{
		Name: (*nstancev1.HeldVM).GetProviderInstanceId,
		Columns: []column{
			{Header: "PROVIDER_ID", Value: (*nstancev1.HeldVM).GetProviderInstanceId},
			{Header: "INSTANCE", Value: (*nstancev1.HeldVM).GetInstanceId},
			{Header: "TENANT", Value: (*nstancev1.HeldVM).GetTenant},
			{Header: "GROUP", Value: (*nstancev1.HeldVM).GetGroup},
			{Header: "REASON", Value: (*nstancev1.HeldVM).GetReason},
			{Header: "UNMANAGED", Value: func(v *nstancev1.HeldVM) string { return age(v.GetSince(), now()) }},
			{Header: "AGE", Wide: true, Value: func(v *nstancev1.HeldVM) string { return age(v.GetCreatedAt(), now()) }},
		},
	}
}

func newInstanceAdoptCommand(env *Env, flags *shardFlags) *cobra.Command {
	var how *changeFlags
	cmd := &cobra.Command{
		Use:   "adopt PROVIDER_ID...",
		Short: "Make unmanaged machines instances of the groups that their tags name",
		Long: `Make unmanaged machines instances of the groups that their tags name. A machine is
unmanaged when it carries the shard's tags and no record says what it is; the server
never deletes it. "instance list --unmanaged" shows them with their provider ids.

From then on it counts among its group: where the group has its size already, one
machine becomes too many and goes. Raise the size first to keep them all. Only
operators of the tenants in server.admin_tenants may do this.`,
		Example: `  nstance-admin instance list --unmanaged
  nstance-admin instance adopt i-0123456789abcdef0`,
		Args:              usedArgs,
		ValidArgsFunction: completeUnmanaged(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				return adoptMachines(ctx, env, s, args, how)
			})
		},
	}
	how = addDryRunFlag(cmd)
	return cmd
}

// adoptMachines tries all, whatever becomes of one.
func adoptMachines(ctx context.Context, env *Env, s *shard, providerIDs []string, how *changeFlags) error {
	if how.dryRun {
		return showUnmanaged(ctx, env, s, providerIDs)
	}
	var failed failures
	for _, id := range providerIDs {
		in, err := s.api.AdoptVM(ctx, &nstancev1.AdoptVMRequest{ProviderInstanceId: id})
		if err != nil {
			failed.add(fmt.Errorf("machine %s: %w", id, err))
			continue
		}
		fmt.Fprintf(env.Out, "%smachine %s: adopted as instance %s of group %s, tenant %s\n",
			s.prefix(), id, in.GetInstanceId(), in.GetGroup(), in.GetTenant())
	}
	return failed.err()
}

// showUnmanaged says what adoption would make of machines.
func showUnmanaged(ctx context.Context, env *Env, s *shard, providerIDs []string) error {
	response, err := s.api.ListHeldVMs(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	var failed failures
	for _, id := range providerIDs {
		i := slices.IndexFunc(response.GetVms(), func(vm *nstancev1.HeldVM) bool { return vm.GetProviderInstanceId() == id })
		if i < 0 {
			failed.add(fmt.Errorf("machine %s: it is not among the unmanaged ones, which 'instance list --unmanaged' shows", id))
			continue
		}
		vm := response.GetVms()[i]
		fmt.Fprintf(env.Out, "%smachine %s: would be adopted into group %s, tenant %s\n", s.prefix(), id, vm.GetGroup(), vm.GetTenant())
	}
	return failed.err()
}

// completeUnmanaged offers the provider ids of unmanaged machines.
func completeUnmanaged(env *Env, flags *shardFlags) completion {
	return complete(env, flags, func(ctx context.Context, s *shard) ([]string, error) {
		response, err := s.api.ListHeldVMs(ctx, &emptypb.Empty{})
		var ids []string
		for _, vm := range response.GetVms() {
			ids = append(ids, cobra.CompletionWithDesc(vm.GetProviderInstanceId(), vm.GetTenant()+"/"+vm.GetGroup()+", "+vm.GetReason()))
		}
		return ids, err
	})
}
