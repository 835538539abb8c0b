// Package serve is one server process: flags, wiring, listeners, shutdown.
//
// A provider's program is a call of [Main] with its [Provider]. The process
// begins as a standby; what it does when it leads is the business of package
// shard, and what it answers that of package rpc. Nothing here decides anything
// about groups or instances.
//
// The order of a start: cache directory (locked), storage (tested), configuration,
// listeners, cluster lock, keys, shard lock. The order of a stop: acting ends and
// the locks are released first, so that a standby takes over at once; then the
// streams close.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"nstance.dev/server/config"
	"nstance.dev/server/driver"
)

// Provider is what one provider's build adds to the server.
type Provider struct {
	// Kind is what server.provider.kind has to be.
	Kind string
	// Rules are the provider's part of the configuration's checks; may be nil.
	Rules *driver.Rules
	// New makes the driver before anything leads. A server that starts anew makes
	// another one; the one before, if it is a [driver.Closer], is closed then.
	New func(ctx context.Context, s Settings) (driver.Driver, error)
	// FreePorts lets a server take a free port where the configured one is taken.
	FreePorts bool
	// Commands are the build's own besides serve and version.
	Commands []*cobra.Command
}

// Settings are what the configuration says about the provider.
type Settings struct {
	Options map[string]any // server.provider.options
	Region  string
	Zone    string
	Owner   driver.Owner
	Log     *slog.Logger

	// LeaderNetwork is the address that moves with leadership, for a driver that
	// is a [driver.LeaderNetwork]; nil without one.
	LeaderNetwork *LeaderNetwork
}

// LeaderNetwork is server.leader_network of the configuration.
type LeaderNetwork = config.LeaderNetwork

// Main runs the program of a provider and exits: 0 when it was stopped in order
// or had nothing to do, 1 on an error, 2 on wrong usage.
func Main(p Provider, version string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Command(p, version).ExecuteContext(ctx)
	stop()
	os.Exit(exitCode(err, os.Stderr)) //nolint:forbidigo // this is all of a provider's main
}

// Command is the program of a provider as a command.
func Command(p Provider, version string) *cobra.Command {
	root := &cobra.Command{
		Use:           "nstance-server-" + p.Kind,
		Short:         "Keep groups of machines at their wanted size",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return &usageError{fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())}
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(newServeCommand(p, version), newVersionCommand(version))
	root.AddCommand(p.Commands...)
	for _, cmd := range root.Commands() {
		cmd.Args = usageArgs(cmd.Args)
	}
	return root
}

// usageArgs has what check finds wrong with the arguments count as wrong usage.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}

func newVersionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		},
	}
}

// usageError is an error of the command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// exitCode prints an error and maps it to the exit code of the process.
func exitCode(err error, out io.Writer) int {
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(out, "error: %v\nRun with --help for the usage.\n", err)
		return 2
	default:
		fmt.Fprintf(out, "error: %v\n", err)
		return 1
	}
}

// exitJitter waits before the process ends with an error, so that servers which
// share a cause do not come back all at once. A person at a terminal does not
// wait.
func exitJitter(ctx context.Context, j config.Jitter) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		return
	}
	wait := j.MinDelay.Std()
	if span := j.MaxDelay.Std() - wait; span > 0 {
		wait += rand.N(span)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
