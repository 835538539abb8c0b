package cli

import "github.com/spf13/cobra"

func newShardCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("shard", "See, pause and configure the shards of a cluster", newShardConfigCommand(env))
	cmd.Aliases = []string{"shards"}
	cmd.AddCommand(withShardFlags(env, newShardListCommand), withShardFlags(env, newShardDescribeCommand), withShardFlags(env, newShardLeaderCommand), withShardFlags(env, newShardWatchErrorsCommand),
		withShardFlags(env, func(env *Env, flags *shardFlags) *cobra.Command { return newScopePauseCommand(env, flags, shardScope) }),
		withShardFlags(env, func(env *Env, flags *shardFlags) *cobra.Command { return newScopeResumeCommand(env, flags, shardScope) }))
	return cmd
}

// withShardFlags gives a single command the flags of shards: beside it there are
// commands that have none of them.
func withShardFlags(env *Env, command func(*Env, *shardFlags) *cobra.Command) *cobra.Command {
	flags := &shardFlags{}
	cmd := command(env, flags)
	flags.addTo(env, cmd)
	return cmd
}
