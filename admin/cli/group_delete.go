package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newGroupDeleteCommand(env *Env, flags *shardFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete GROUP...",
		Short: "Delete groups and their instances",
		Long: `Delete groups: their instances are drained and deleted, then the group is
forgotten. On-demand instances stay.

Of a group that the configuration of its shard declares, only what was changed
through the API is removed: it is again as the configuration says.`,
		Example: `  nstance-admin group delete web
  nstance-admin group delete web batch --wait
  nstance-admin group delete web --dry-run`,
		Args:              usedArgs,
		ValidArgsFunction: completeGroups(env, flags),
	}
	how := addEndingFlags(cmd)
	waiting := addWaitFlag(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		waiting.apply(cmd)
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			var failed failures
			for _, key := range args {
				failed.add(deleteGroup(ctx, env, s, key, how, waiting))
			}
			return failed.err()
		})
	}
	return cmd
}

func deleteGroup(ctx context.Context, env *Env, s *shard, key string, how *changeFlags, waiting *waitFlag) error {
	group, err := findGroup(ctx, s, key)
	if status.Code(err) == codes.NotFound {
		fmt.Fprintf(env.Out, "%sgroup %s: there is none\n", s.prefix(), key)
		return nil
	}
	if err != nil {
		return err
	}
	if how.dryRun {
		would := "would be deleted with " + machines(int(group.GetActualSize()+group.GetPending()))
		if group.GetIsStatic() {
			would = "would again be as the configuration says: " + restored(group)
		}
		fmt.Fprintf(env.Out, "%sgroup %s: %s\n", s.prefix(), key, would)
		return nil
	}
	if err := how.confirm(env, "%sgroup %s: %s.", s.prefix(), key, deletion(group)); err != nil {
		return err
	}
	if _, err := s.api.DeleteGroup(ctx, &nstancev1.DeleteGroupRequest{Key: key}); err != nil {
		return fmt.Errorf("group %s: %w", key, err)
	}
	goal := wait.Goal{Group: key, GroupGone: !group.GetIsStatic()}
	sent, done := "is being deleted", "deleted"
	if group.GetIsStatic() {
		sent, done = "is again as the configuration says", "all running"
	}
	fmt.Fprintf(env.Out, "%sgroup %s: %s\n", s.prefix(), key, sent)
	if err := waiting.until(ctx, env, s, goal); err != nil {
		return err
	}
	if waiting.wait {
		fmt.Fprintf(env.Out, "%sgroup %s: %s\n", s.prefix(), key, done)
	}
	return nil
}

// deletion says what the deletion of a group does.
func deletion(group *nstancev1.GroupStatus) string {
	if group.GetIsStatic() {
		return "what the API changed is removed; " + restored(group)
	}
	return "the group is deleted with " + machines(int(group.GetActualSize()+group.GetPending()))
}

// restored is the size that a group of the configuration gets back.
func restored(group *nstancev1.GroupStatus) string {
	if group.StaticSize == nil {
		return "its size is that of the configuration"
	}
	return fmt.Sprintf("size %d instead of %d", group.GetStaticSize(), group.GetSize())
}
