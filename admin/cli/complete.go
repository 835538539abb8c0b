package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/wait"
)

// completionTimeout keeps a shell from hanging where no server answers.
const completionTimeout = 2 * time.Second

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeGroups offers the keys of groups for the first argument or a flag.
func completeGroups(env *Env, flags *shardFlags) completion {
	return complete(env, flags, func(ctx context.Context, s *shard) ([]string, error) {
		items, err := listGroups(ctx, s)
		var keys []string
		for _, item := range items {
			keys = append(keys, item.Message.GetKey())
		}
		return keys, err
	})
}

// completeInstances offers the ids of instances, with their group and status.
func completeInstances(env *Env, flags *shardFlags) completion {
	return complete(env, flags, func(ctx context.Context, s *shard) ([]string, error) {
		instances, _, err := wait.ListInstances(ctx, s.api)
		var ids []string
		for _, in := range instances {
			ids = append(ids, cobra.CompletionWithDesc(in.GetInstanceId(), in.GetGroup()+", "+in.GetStatus()))
		}
		return ids, err
	})
}

// complete asks all selected shards. Arguments that are given are not offered
// again, and a command that takes one argument is offered nothing after it.
func complete(env *Env, flags *shardFlags, ask func(context.Context, *shard) ([]string, error)) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && cmd.Args(cmd, append(slices.Clone(args), "more")) != nil || len(args) > 0 && cmd.Name() == "scale" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		short := *flags
		short.timeout = completionTimeout
		names, err := gather(cmd.Context(), env, &short, ask)
		if err != nil && len(names) == 0 {
			return nil, cobra.ShellCompDirectiveError
		}
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}
