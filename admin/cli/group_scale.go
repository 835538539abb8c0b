package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newGroupScaleCommand(env *Env, flags *shardFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scale GROUP SIZE",
		Short: "Set how many instances a group has",
		Long: `Set how many instances a group has, 0 included, and nothing else of it. With
--all-shards each shard gets that size.

With --wait the command ends once as many instances run as the size says, and
none is starting or leaving.`,
		Example: `  nstance-admin group scale web 5
  nstance-admin group scale web 5 --wait --timeout 60s`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeGroups(env, flags),
	}
	waiting := addWaitFlag(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		size, err := parseSize(args[1])
		if err != nil {
			return err
		}
		waiting.apply(cmd)
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			return scaleGroup(ctx, env, s, args[0], size, waiting)
		})
	}
	return cmd
}

func parseSize(text string) (int32, error) {
	size, err := strconv.ParseInt(text, 10, 32)
	if err != nil || size < 0 {
		return 0, usagef("size %q must be a whole number from 0 on", text)
	}
	return int32(size), nil
}

func scaleGroup(ctx context.Context, env *Env, s *shard, key string, size int32, waiting *waitFlag) error {
	_, err := s.api.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: key, Config: &nstancev1.GroupConfig{Size: &size}})
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%sgroup %s: size set to %d\n", s.prefix(), key, size)
	if err := waiting.until(ctx, env, s, wait.Goal{Group: key, Size: &size}); err != nil {
		return err
	}
	if waiting.wait {
		fmt.Fprintf(env.Out, "%sgroup %s: %d running\n", s.prefix(), key, size)
	}
	return nil
}
