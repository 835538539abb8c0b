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
	cmd := newParentCommand("group", "See, change and diagnose groups of machines")
	cmd.Aliases = []string{"groups", "g"}
	flags := addShardFlags(env, cmd)
	cmd.AddCommand(newGroupListCommand(env, flags), newGroupGetCommand(env, flags), newGroupDescribeCommand(env, flags), newGroupExplainCommand(env, flags),
		newGroupWatchCommand(env, flags), newGroupApplyCommand(env, flags), newGroupDiffCommand(env, flags), newGroupEditCommand(env, flags),
		newGroupScaleCommand(env, flags), newScopePauseCommand(env, flags, groupScope), newScopeResumeCommand(env, flags, groupScope),
		newGroupDeleteCommand(env, flags), newGroupConfirmCommand(env, flags))
	return cmd
}

func newGroupListCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	var watch bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the groups of the tenant",
		Long: `List the groups of the tenant. --selector chooses by fields of the JSON, --status by
conditions such as paused, scaling or draining; ok is a group that is at its size and
has no other.`,
		Example: `  nstance-admin group list
  nstance-admin group list --all-shards -o wide
  nstance-admin group list --selector template=worker --sort-by size
  nstance-admin group list -o custom-columns=GROUP:.key,SIZE:.size
  nstance-admin group list --watch`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addListFlags(cmd, &format)
	chosen := addChoiceFlags(cmd, "paused, scaling, draining, ok …")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with every change, until interrupted")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if watch {
			stream := output.NewStream(env.Out, format, groupView())
			stream.Keep = func(item output.Item[*nstancev1.GroupStatus]) (bool, error) { return keep(chosen, item, groupStatuses) }
			return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				return watchGroupRows(ctx, env, s, stream)
			})
		}
		items, err := gather(cmd.Context(), env, flags, listGroups)
		return printChosen(env.Out, format, groupView(), items, err, chosen, groupStatuses)
	}
	return cmd
}

// groupStatuses are the types of a group's conditions; ok is a group that is at its
// size and nothing else.
func groupStatuses(g *nstancev1.GroupStatus) []string {
	ok := true
	var all []string
	for _, c := range g.GetConditions() {
		all = append(all, c.GetType())
		ok = ok && c.GetType() == conditionAtSize
	}
	if ok {
		all = append(all, "ok")
	}
	return all
}

// conditionAtSize is the condition of a group with which all is well.
const conditionAtSize = "at-size"

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
		Args:              usedArgs,
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
	addListFlags(cmd, &format)
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
