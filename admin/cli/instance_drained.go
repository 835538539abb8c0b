package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newInstanceDrainedCommand(env *Env, flags *shardFlags) *cobra.Command {
	var forced bool
	var how *changeFlags
	cmd := &cobra.Command{
		Use:     "drained INSTANCE...",
		Aliases: []string{"ack-drain"},
		Short:   "Acknowledge drains: DELETE the instances now",
		Long: `Acknowledge the drains of instances: their work has left, and the server DELETES
them now instead of waiting until the drain ends. An instance that was not to be
deleted is deleted too, and replaced by its group. Nothing is drained by this
command. It may be repeated.`,
		Example:           `  nstance-admin instance drained knc068a3cp3thz5z2mv1gejwftabc`,
		Args:              usedArgs,
		ValidArgsFunction: completeInstances(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				return acknowledgeDrained(ctx, env, s, args, forced, how)
			})
		},
	}
	how = addEndingFlags(cmd)
	cmd.Flags().BoolVar(&forced, "forced", false, "not all work has left; for the server's log")
	return cmd
}

// acknowledgeDrained speaks of all instances, whatever becomes of the others.
func acknowledgeDrained(ctx context.Context, env *Env, s *shard, ids []string, forced bool, how *changeFlags) error {
	if how.dryRun {
		return showInstances(ctx, env, s, ids, "deleted now")
	}
	if err := how.confirm(env, "%s%s: deleted now, whatever still runs there.", s.prefix(), strings.Join(ids, ", ")); err != nil {
		return err
	}
	var failed failures
	for _, id := range ids {
		_, err := s.api.AcknowledgeDrained(ctx, &nstancev1.AcknowledgeDrainedRequest{InstanceId: id, Forced: forced})
		if err != nil {
			failed.add(fmt.Errorf("instance %s: %w", id, err))
			continue
		}
		fmt.Fprintf(env.Out, "%sinstance %s: drain acknowledged; if it still exists, it is being deleted\n", s.prefix(), id)
	}
	return failed.err()
}
