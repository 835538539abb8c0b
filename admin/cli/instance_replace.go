package cli

import (
	"context"

	"github.com/spf13/cobra"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newInstanceReplaceCommand(env *Env, flags *shardFlags) *cobra.Command {
	request := nstancev1.DeleteInstanceRequest{ReplaceFirst: true}
	cmd := &cobra.Command{
		Use:   "replace INSTANCE...",
		Short: "Make other instances in the place of these, and delete these then",
		Long: `Make other instances in the place of these, and delete each one only when its
replacement has registered and reported. It is the same as "delete --replace-first".
The command may be repeated: an instance is replaced once.

With --wait the command ends once the instances are gone and their groups are
complete again.`,
		Example: `  nstance-admin instance replace knc068a3cp3thz5z2mv1gejwftabc
  nstance-admin instance replace knc068a3cp3thz5z2mv1gejwftabc --wait`,
		Args:              usedArgs,
		ValidArgsFunction: completeInstances(env, flags),
	}
	cmd.Flags().BoolVar(&request.SkipDrain, "skip-drain", false, "do not wait for the work to leave the instance")
	how := addEndingFlags(cmd)
	waiting := addWaitFlag(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		waiting.apply(cmd)
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			return deleteInstances(ctx, env, s, args, &request, how, waiting)
		})
	}
	return cmd
}
