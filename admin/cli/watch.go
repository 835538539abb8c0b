package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newWatchCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("watch", "Follow what happens, one line per event")
	flags := addShardFlags(cmd)
	cmd.AddCommand(newWatchGroupsCommand(env, flags), newWatchInstancesCommand(env, flags), newWatchErrorsCommand(env, flags))
	return cmd
}

func newWatchGroupsCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Follow changes of groups, after all groups as they are",
		Example: `  nstance-admin watch groups
  nstance-admin watch groups -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream := output.NewStream(env.Out, format, groupEventView())
			return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				return watchGroups(ctx, env, s, func(e *nstancev1.GroupEvent) error { return stream.Print(itemOf(s, e)) })
			})
		},
	}
	addOutputFlag(cmd, &format)
	return cmd
}

func newWatchInstancesCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "instances",
		Short: "Watch instances: first those that are to be deleted, then each change",
		Example: `  nstance-admin watch instances
  nstance-admin watch instances -o json | jq -r .instance_id`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream := output.NewStream(env.Out, format, instanceEventView())
			return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				return follow(ctx, env, s, openInstanceEvents(s), func(e *nstancev1.InstanceEvent) error {
					if e.GetInstanceId() == "" { // a sign of the stream itself
						return nil
					}
					return stream.Print(itemOf(s, e))
				})
			})
		},
	}
	addOutputFlag(cmd, &format)
	return cmd
}

func newWatchErrorsCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "errors",
		Short: "Follow errors that may need an administrator",
		Example: `  nstance-admin watch errors
  nstance-admin watch errors --all-shards -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stream := output.NewStream(env.Out, format, errorEventView())
			return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				open := func(ctx context.Context) (receiver[nstancev1.ErrorEvent], error) {
					return s.api.WatchErrors(ctx, &emptypb.Empty{})
				}
				return follow(ctx, env, s, open, func(e *nstancev1.ErrorEvent) error { return stream.Print(itemOf(s, e)) })
			})
		},
	}
	addOutputFlag(cmd, &format)
	return cmd
}
