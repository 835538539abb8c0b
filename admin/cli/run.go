package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"nstance.dev/admin/shardclient"
)

// Exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // of any target
	ExitUsage  = 2 // nothing was tried
)

// Run carries out the command that args name and returns the exit code. It
// prints errors itself.
func Run(ctx context.Context, env *Env, args []string) int {
	root := NewRootCommand(env)
	root.SetArgs(args)
	started := trackStart(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	debug, _ := root.PersistentFlags().GetBool("debug")
	explain(env.Err, err, debug)
	if !*started || isUsage(err) {
		fmt.Fprintf(env.Err, "See '%s --help'.\n", cmd.CommandPath())
		return ExitUsage
	}
	return ExitFailed
}

// isUsage reports whether an error is about what the command line says, or leaves
// unsaid, though it was found out only while the command ran.
func isUsage(err error) bool {
	_, usage := errors.AsType[*usageError](err)
	return usage || errors.Is(err, shardclient.ErrSelection)
}

// trackStart notes when the work of any command begins: what goes wrong before
// that is wrong with the command line.
func trackStart(root *cobra.Command) *bool {
	started := false
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if run := cmd.RunE; run != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				started = true
				return run(cmd, args)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
	return &started
}

// NewRootCommand returns nstance-admin with all of its commands.
func NewRootCommand(env *Env) *cobra.Command {
	root := newParentCommand("nstance-admin", "Administrate clusters of Nstance",
		newGroupCommand(env), newInstanceCommand(env), newWatchCommand(env), newEventsCommand(env), newTopCommand(env),
		newExplainCommand(env), newDescribeCommand(env), newPlanCommand(env), newDemandCommand(env), newPauseCommand(env), newResumeCommand(env),
		newMachineCommand(env), newMcfgCommand(env), newOperationCommand(env), newShardCommand(env), newTenantCommand(env), newConsoleCommand(env), newServeCommand(env), newTokenCommand(env), newConfigCommand(env), newWhoamiCommand(env), newDoctorCommand(env), newSupportBundleCommand(env), newClusterCommand(env), newVersionCommand(env))
	root.Long = `nstance-admin looks at and changes what a cluster of Nstance runs.

Commands about groups, instances and configuration talk to the servers of one
shard or of all. Which cluster and as whom, a context says (--context or
NSTANCE_ADMIN_CONTEXT; "config use-context" keeps one), or --servers and --identity-dir. The commands of
"cluster" work on the storage of a cluster directly, without any server, and those of
"machine", "mcfg" and "operation" talk to the API server of a Kubernetes cluster.`
	root.Example = `  export NSTANCE_ADMIN_CONTEXT=.dev/admin.json
  nstance-admin group list
  nstance-admin group scale web 5 --wait
  nstance-admin instance list --watch`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.PersistentFlags().Bool("debug", false, "with an error, show its code and machine-readable reason")
	return root
}

// newParentCommand returns a command that only has others below it. Without one
// of them it shows its help, and refuses what is none.
func newParentCommand(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(subs...)
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	text := "unknown command " + quote(name) + " for " + quote(cmd.CommandPath())
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return &usageError{errors.New(text)}
}
