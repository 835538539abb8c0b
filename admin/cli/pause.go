package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// scopeGroup is the scope of a pause that names a group.
const scopeGroup = "group"

func newPauseCommand(env *Env) *cobra.Command {
	var reason string
	var span time.Duration
	cmd := &cobra.Command{
		Use:   "pause group GROUP | tenant | shard",
		Short: "Hold back creates, deletes and rotation",
		Long: `Hold back creates, deletes and rotation in a group, in the tenant, or in the
whole shard, which is for administrators. What groups should be can still be
changed, decisions are made and shown, and nothing of it is carried out before
the pause ends: at its time, or with "resume". To pause a scope again replaces its
pause.`,
		Example: `  nstance-admin pause group web --reason "moving the database"
  nstance-admin pause shard --reason "provider incident 4711" --for 2h`,
		Args:      scopeArgs,
		ValidArgs: []string{scopeGroup, "tenant", "shard"},
	}
	flags := addShardFlags(cmd)
	cmd.ValidArgsFunction = completeScope(env, flags)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who find it paused")
	cmd.Flags().DurationVar(&span, "for", 0, "how long; 0: until it is resumed")
	_ = cmd.MarkFlagRequired("reason")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if span < 0 {
			return usagef("--for %v is negative", span)
		}
		req := &nstancev1.SetPauseRequest{Scope: args[0], Group: args[len(args)-1], Reason: reason}
		if len(args) == 1 {
			req.Group = ""
		}
		if span > 0 {
			req.Until = timestamppb.New(env.Now().Add(span))
		}
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			pause, err := s.api.SetPause(ctx, req)
			if err != nil {
				return err
			}
			fmt.Fprintf(env.Out, "%s%s: paused %s\n", s.prefix(), scopeName(args), pauseEnd(pause))
			return nil
		})
	}
	return cmd
}

func newResumeCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume group GROUP | tenant | shard",
		Short: "End a pause",
		Long: `End the pause of a group, of the tenant, or of the whole shard, which is for
administrators. A pause of another scope stays: a group in a paused tenant stays
paused.`,
		Example:   `  nstance-admin resume group web`,
		Args:      scopeArgs,
		ValidArgs: []string{scopeGroup, "tenant", "shard"},
	}
	flags := addShardFlags(cmd)
	cmd.ValidArgsFunction = completeScope(env, flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := &nstancev1.ClearPauseRequest{Scope: args[0]}
		if len(args) == 2 {
			req.Group = args[1]
		}
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			if _, err := s.api.ClearPause(ctx, req); err != nil {
				return err
			}
			fmt.Fprintf(env.Out, "%s%s: resumed\n", s.prefix(), scopeName(args))
			return nil
		})
	}
	return cmd
}

// scopeArgs are a scope, and the name of a group where that is the scope.
func scopeArgs(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usagef("say what: group GROUP, tenant or shard")
	case args[0] == scopeGroup && len(args) != 2:
		return usagef("scope group needs the name of one group")
	case args[0] == scopeGroup:
		return nil
	case args[0] != "tenant" && args[0] != "shard":
		return usagef("scope %q must be one of group, tenant, shard", args[0])
	case len(args) != 1:
		return usagef("scope %s takes no name", args[0])
	default:
		return nil
	}
}

// completeScope offers scopes, and after "group" the groups.
func completeScope(env *Env, flags *shardFlags) completion {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return cmd.ValidArgs, cobra.ShellCompDirectiveNoFileComp
		case len(args) == 1 && args[0] == scopeGroup:
			return completeGroups(env, flags)(cmd, nil, prefix)
		default:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// scopeName is a scope as a line names it.
func scopeName(args []string) string {
	if len(args) == 2 {
		return args[0] + " " + args[1]
	}
	return args[0]
}

func pauseEnd(p *nstancev1.Pause) string {
	if p.GetUntil() == nil {
		return "until it is resumed"
	}
	return "until " + clock(p.GetUntil())
}
