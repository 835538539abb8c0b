package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// newWatchCommand is the old form of the commands: "watch groups" and so on.
func newWatchCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("watch", "Follow what happens, one line per event")
	cmd.Hidden = true
	flags := addShardFlags(env, cmd)
	cmd.AddCommand(formerly(newGroupWatchCommand(env, flags), "groups"), formerly(newInstanceWatchCommand(env, flags), "instances"),
		formerly(newShardWatchErrorsCommand(env, flags), "errors"))
	return cmd
}

func newGroupWatchCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "watch [GROUP...]",
		Short: "Follow changes of groups, after all groups as they are",
		Long: `Follow changes of the named groups, or of all, one line per event, until interrupted.
It begins with the groups as they are. "group list --watch" shows rows instead.`,
		Example: `  nstance-admin group watch
  nstance-admin group watch web -o json`,
		Args:              usedArgs,
		ValidArgsFunction: completeGroups(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			stream := output.NewStream(env.Out, format, groupEventView())
			return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				return watchGroups(ctx, env, s, func(e *nstancev1.GroupEvent) error {
					if len(args) > 0 && !slices.Contains(args, e.GetGroup().GetKey()) {
						return nil
					}
					return stream.Print(itemOf(s, e))
				})
			})
		},
	}
	addStreamFlags(cmd, &format)
	return cmd
}

func newInstanceWatchCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "watch [INSTANCE...]",
		Short: "Watch instances: first those that are to be deleted, then each change",
		Long: `Watch the named instances, or all: first those that are to be deleted, then each
change, one line per event, until interrupted. "instance list --watch" shows rows instead.`,
		Example: `  nstance-admin instance watch
  nstance-admin instance watch -o json | jq -r .instance_id`,
		Args:              usedArgs,
		ValidArgsFunction: completeInstances(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			stream := output.NewStream(env.Out, format, instanceEventView())
			return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				return follow(ctx, env, s, openInstanceEvents(s), func(e *nstancev1.InstanceEvent) error {
					if e.GetInstanceId() == "" { // a sign of the stream itself
						return nil
					}
					if len(args) > 0 && !slices.Contains(args, e.GetInstanceId()) {
						return nil
					}
					return stream.Print(itemOf(s, e))
				})
			})
		},
	}
	addStreamFlags(cmd, &format)
	return cmd
}

func newShardWatchErrorsCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "errors",
		Short: "Follow errors that may need an administrator",
		Example: `  nstance-admin shard errors
  nstance-admin shard errors --all-shards -o json`,
		Args:              usedArgs,
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
	addStreamFlags(cmd, &format)
	return cmd
}
