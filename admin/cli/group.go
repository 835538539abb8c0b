package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newGroupCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("group", "Groups: how many machines of what")
	flags := addShardFlags(cmd)
	cmd.AddCommand(newGroupListCommand(env, flags), newGroupGetCommand(env, flags), newGroupApplyCommand(env, flags),
		newGroupScaleCommand(env, flags), newGroupDeleteCommand(env, flags), newGroupConfirmCommand(env, flags))
	return cmd
}

func newGroupListCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	var watch bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the groups of the tenant",
		Example: `  nstance-admin group list
  nstance-admin group list --all-shards -o wide
  nstance-admin group list --watch`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				stream := output.NewStream(env.Out, format, groupView())
				return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
					return watchGroupRows(ctx, env, s, stream)
				})
			}
			items, err := gather(cmd.Context(), env, flags, listGroups)
			return printList(env.Out, format, groupView(), items, err)
		},
	}
	addOutputFlag(cmd, &format)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with every change, until interrupted")
	return cmd
}

// listGroups returns the groups of one shard.
func listGroups(ctx context.Context, s *shard) ([]output.Item[*nstancev1.GroupStatus], error) {
	response, err := s.api.ListGroups(ctx, &emptypb.Empty{})
	if err != nil {
		return nil, err
	}
	var items []output.Item[*nstancev1.GroupStatus]
	for _, g := range response.GetGroups() {
		items = append(items, itemOf(s, g))
	}
	return items, nil
}

// printList prints what some shards answered, also where others failed. Where
// nothing answered there is nothing to print: an empty list would be a lie.
func printList[T any](w io.Writer, format output.Format, view output.View[T], items []output.Item[T], err error) error {
	if err != nil && len(items) == 0 {
		return err
	}
	if printErr := output.List(w, format, view, items); printErr != nil {
		return printErr
	}
	return err
}

func newGroupGetCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "get GROUP",
		Short: "Show one group",
		Example: `  nstance-admin group get web
  nstance-admin group get web -o yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeGroups(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				group, err := findGroup(ctx, s, args[0])
				if err != nil {
					return err
				}
				return output.Object(env.Out, format, groupView(), itemOf(s, group))
			})
		},
	}
	addOutputFlag(cmd, &format)
	return cmd
}

// findGroup returns a group, or an error with the code NotFound.
func findGroup(ctx context.Context, s *shard, key string) (*nstancev1.GroupStatus, error) {
	response, err := s.api.ListGroups(ctx, &emptypb.Empty{})
	if err != nil {
		return nil, err
	}
	for _, g := range response.GetGroups() {
		if g.GetKey() == key {
			return g, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "group %q not found", key)
}
