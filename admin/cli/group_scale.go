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

Where the group becomes smaller, machines end: on a terminal that is asked first.

With --wait the command ends once as many instances run as the size says, and
none is starting or leaving.`,
		Example: `  nstance-admin group scale web 5
  nstance-admin group scale web 5 --wait --timeout 60s
  nstance-admin group scale web 0 --dry-run`,
		Args:              usedArgs,
		ValidArgsFunction: completeGroups(env, flags),
	}
	how := addEndingFlags(cmd)
	waiting := addWaitFlag(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		size, err := parseSize(args[1])
		if err != nil {
			return err
		}
		waiting.apply(cmd)
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			return scaleGroup(ctx, env, s, args[0], size, how, waiting)
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

func scaleGroup(ctx context.Context, env *Env, s *shard, key string, size int32, how *changeFlags, waiting *waitFlag) error {
	if how.dryRun || how.asks(env) {
		group, err := findGroup(ctx, s, key)
		if err != nil {
			return err
		}
		if how.dryRun {
			fmt.Fprintf(env.Out, "%sgroup %s: size would be set to %d, from %s\n", s.prefix(), key, size, sizeOf(group))
			return nil
		}
		if ending := int(group.GetSize() - size); ending > 0 {
			if err := how.confirm(env, "%sgroup %s: size %d instead of %d deletes %s.", s.prefix(), key, size, group.GetSize(), machines(ending)); err != nil {
				return err
			}
		}
	}
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
