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

// A scope is what a pause is about.
type scope struct {
	noun    string // group, tenant or shard
	operand string // of the usage line, after the verb; may be empty
	is      string // as help names it
}

var (
	groupScope  = scope{scopeGroup, " GROUP", "a group"}
	tenantScope = scope{"tenant", "", "all groups of the tenant"}
	shardScope  = scope{"shard", "", "the whole shard, which is for administrators"}
)

const pauseHelp = `What groups should be can still be changed, decisions are made and shown, and nothing
of it is carried out before the pause ends: at its time, or with "resume". To pause again
replaces the pause.`

// newScopePauseCommand is "group pause", "tenant pause" or "shard pause".
func newScopePauseCommand(env *Env, flags *shardFlags, what scope) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pause" + what.operand,
		Short:   "Block creates, deletes and rotation in " + what.is,
		Long:    "Block creates, deletes and rotation in " + what.is + ".\n" + pauseHelp,
		Example: "  nstance-admin " + what.noun + " pause" + what.example() + ` --reason "moving the database" --for 2h`,
		Args:    usedArgs,
	}
	cmd.ValidArgsFunction = what.complete(env, flags)
	pause := addPauseFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return pause.set(cmd.Context(), env, flags, append([]string{what.noun}, args...))
	}
	return cmd
}

// newScopeResumeCommand is "group resume", "tenant resume" or "shard resume".
func newScopeResumeCommand(env *Env, flags *shardFlags, what scope) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume" + what.operand,
		Short:   "End the pause of " + what.is,
		Long:    "End the pause of " + what.is + ". A pause of another scope stays: a group in a\npaused tenant stays paused.",
		Example: "  nstance-admin " + what.noun + " resume" + what.example(),
		Args:    usedArgs,
	}
	cmd.ValidArgsFunction = what.complete(env, flags)
	how := addDryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return resume(cmd.Context(), env, flags, append([]string{what.noun}, args...), how)
	}
	return cmd
}

func (w scope) example() string {
	if w.operand == "" {
		return ""
	}
	return " web"
}

func (w scope) complete(env *Env, flags *shardFlags) completion {
	if w.operand == "" {
		return cobra.NoFileCompletions
	}
	return completeGroups(env, flags)
}

// newPauseCommand is the old form of the commands: "pause group GROUP" and so on.
func newPauseCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:       "pause group GROUP | tenant | shard",
		Short:     "Block creates, deletes and rotation",
		Long:      "Block creates, deletes and rotation in a group, in the tenant, or in the whole shard.\n" + pauseHelp,
		Args:      scopeArgs,
		ValidArgs: []string{scopeGroup, "tenant", "shard"},
		Hidden:    true,
	}
	flags := addShardFlags(env, cmd)
	cmd.ValidArgsFunction = completeScope(env, flags)
	pause := addPauseFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return pause.set(cmd.Context(), env, flags, args) }
	return cmd
}

// pauseFlags describe a pause.
type pauseFlags struct {
	reason string
	span   time.Duration
	how    *changeFlags
}

func addPauseFlags(cmd *cobra.Command) *pauseFlags {
	p := &pauseFlags{how: addDryRunFlag(cmd)}
	cmd.Flags().StringVar(&p.reason, "reason", "", "why, for those who find it paused")
	cmd.Flags().DurationVar(&p.span, "for", 0, "how long; 0: until it is resumed")
	_ = cmd.MarkFlagRequired("reason")
	return p
}

// set pauses a scope, whose name follows it if it is a group.
func (p *pauseFlags) set(ctx context.Context, env *Env, flags *shardFlags, args []string) error {
	if p.span < 0 {
		return usagef("--for %v is negative", p.span)
	}
	req := &nstancev1.SetPauseRequest{Scope: args[0], Reason: p.reason}
	if len(args) == 2 {
		req.Group = args[1]
	}
	if p.span > 0 {
		req.Until = timestamppb.New(env.Now().Add(p.span))
	}
	return onEachShard(ctx, env, flags, func(ctx context.Context, s *shard) error {
		if p.how.dryRun {
			if err := checkScope(ctx, s, args); err != nil {
				return err
			}
			fmt.Fprintf(env.Out, "%s%s: would be paused %s\n", s.prefix(), scopeName(args), pauseEnd(&nstancev1.Pause{Until: req.GetUntil()}))
			return nil
		}
		pause, err := s.api.SetPause(ctx, req)
		if err != nil {
			return err
		}
		fmt.Fprintf(env.Out, "%s%s: paused %s\n", s.prefix(), scopeName(args), pauseEnd(pause))
		return nil
	})
}

// checkScope is an error where a scope names a group that does not exist.
func checkScope(ctx context.Context, s *shard, args []string) error {
	if len(args) < 2 {
		return nil
	}
	_, err := findGroup(ctx, s, args[1])
	return err
}

// newResumeCommand is the old form of the commands: "resume group GROUP" and so on.
func newResumeCommand(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:       "resume group GROUP | tenant | shard",
		Short:     "End a pause",
		Args:      scopeArgs,
		ValidArgs: []string{scopeGroup, "tenant", "shard"},
		Hidden:    true,
	}
	flags := addShardFlags(env, cmd)
	cmd.ValidArgsFunction = completeScope(env, flags)
	how := addDryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return resume(cmd.Context(), env, flags, args, how) }
	return cmd
}

func resume(ctx context.Context, env *Env, flags *shardFlags, args []string, how *changeFlags) error {
	return onEachShard(ctx, env, flags, func(ctx context.Context, s *shard) error {
		return resumeOn(ctx, env, s, args, how.dryRun)
	})
}

// resumeOn ends the pause of a scope on one shard.
func resumeOn(ctx context.Context, env *Env, s *shard, args []string, dryRun bool) error {
	req := &nstancev1.ClearPauseRequest{Scope: args[0]}
	if len(args) == 2 {
		req.Group = args[1]
	}
	done := "resumed"
	if dryRun {
		if err := checkScope(ctx, s, args); err != nil {
			return err
		}
		done = "would be resumed"
	} else if _, err := s.api.ClearPause(ctx, req); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%s%s: %s\n", s.prefix(), scopeName(args), done)
	return nil
}

// pauseGroup pauses a group of one shard until it is resumed.
func pauseGroup(ctx context.Context, env *Env, s *shard, group, reason string) error {
	pause, err := s.api.SetPause(ctx, &nstancev1.SetPauseRequest{Scope: scopeGroup, Group: group, Reason: reason})
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "%sgroup %s: paused %s\n", s.prefix(), group, pauseEnd(pause))
	return nil
}

func newTenantCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("tenant", "Pause and resume all groups of the tenant")
	flags := addShardFlags(env, cmd)
	cmd.AddCommand(newScopePauseCommand(env, flags, tenantScope), newScopeResumeCommand(env, flags, tenantScope))
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
