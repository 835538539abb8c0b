package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newInstanceCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("instance", "See, change and diagnose single machines")
	cmd.Aliases = []string{"instances", "i"}
	flags := addShardFlags(env, cmd)
	cmd.AddCommand(newInstanceListCommand(env, flags), newInstanceGetCommand(env, flags), newInstanceDescribeCommand(env, flags),
		newInstanceLogsCommand(env, flags), newInstanceConsoleCommand(env, flags),
		newInstanceExplainCommand(env, flags), newInstanceWatchCommand(env, flags),
		newInstanceCreateCommand(env, flags), newInstanceDeleteCommand(env, flags),
		newInstanceDrainedCommand(env, flags), newInstanceReplaceCommand(env, flags), newInstanceAdoptCommand(env, flags))
	return cmd
}

func newInstanceListCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	var watch, unmanaged bool
	var group string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the instances of the tenant, or the machines that no record stands for",
		Example: `  nstance-admin instance list
  nstance-admin instance list --group web -o name
  nstance-admin instance list --status pending,deleting --sort-by created_at
  nstance-admin instance list --selector instance_type=t4g.medium -o jsonpath='{.items[*].instance_id}'
  nstance-admin instance list --watch -o json
  nstance-admin instance list --unmanaged`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addListFlags(cmd, &format)
	chosen := addChoiceFlags(cmd, "pending, running, deleting …")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with every change, until interrupted")
	cmd.Flags().BoolVar(&unmanaged, "unmanaged", false, "the machines with the shard's tags that no record stands for; for administrators")
	cmd.Flags().BoolVar(&unmanaged, "held", false, "the same as --unmanaged") // its name of before
	_ = cmd.Flags().MarkHidden("held")
	cmd.MarkFlagsMutuallyExclusive("unmanaged", "watch")
	cmd.MarkFlagsMutuallyExclusive("held", "watch")
	cmd.MarkFlagsMutuallyExclusive("unmanaged", "status")
	cmd.MarkFlagsMutuallyExclusive("held", "status")
	cmd.Flags().StringVarP(&group, "group", "g", "", "only the instances of this `GROUP`")
	_ = cmd.RegisterFlagCompletionFunc("group", completeGroups(env, flags))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		statuses := func(i *nstancev1.InstanceStatus) []string { return []string{i.GetStatus()} }
		if unmanaged {
			return listUnmanaged(cmd.Context(), env, flags, format, group, chosen)
		}
		if watch {
			stream := output.NewStream(env.Out, format, instanceView(env.Now))
			stream.Keep = func(item output.Item[*nstancev1.InstanceStatus]) (bool, error) { return keep(chosen, item, statuses) }
			return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				return watchInstanceRows(ctx, env, s, group, stream)
			})
		}
		items, err := gather(cmd.Context(), env, flags, func(ctx context.Context, s *shard) ([]output.Item[*nstancev1.InstanceStatus], error) {
			return listInstances(ctx, env, s, group)
		})
		return printChosen(env.Out, format, instanceView(env.Now), items, err, chosen, statuses)
	}
	return cmd
}

// listInstances returns the instances of one shard, those of all groups if group
// is empty.
func listInstances(ctx context.Context, env *Env, s *shard, group string) ([]output.Item[*nstancev1.InstanceStatus], error) {
	instances, complete, err := wait.ListInstances(ctx, s.api)
	if err != nil {
		return nil, err
	}
	if !complete {
		fmt.Fprintf(env.Err, "%sthe list is incomplete: a new leader is still reading what there is\n", s.prefix())
	}
	var items []output.Item[*nstancev1.InstanceStatus]
	for _, in := range instances {
		if group == "" || in.GetGroup() == group {
			items = append(items, itemOf(s, in))
		}
	}
	return items, nil
}

func newInstanceGetCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:               "get INSTANCE",
		Short:             "Show one instance",
		Example:           `  nstance-admin instance get knc068a3cp3thz5z2mv1gejwftabc -o yaml`,
		Args:              usedArgs,
		ValidArgsFunction: completeInstances(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				instance, err := s.api.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: args[0]})
				if err != nil {
					return err
				}
				return output.Object(env.Out, format, instanceView(env.Now), itemOf(s, instance))
			})
		},
	}
	addListFlags(cmd, &format)
	return cmd
}
