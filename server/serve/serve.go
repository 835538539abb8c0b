// Package serve is one server process: flags, wiring, listeners, shutdown.
//
// A provider's program is a call of [Main] with its [Provider]. The process
// begins as a standby; what it does when it leads is the business of package
// shard, and what it answers that of package rpc. Nothing here decides anything
// about groups or instances.
//
// In the order of a start: process.go is one run and the next after it, resources.go
// what a run opens (storage, keys, driver, sockets, cache), server.go the parts that
// work then, wired to each other, leading.go what is done under the two locks, and
// apis.go what is answered on each port. A new service is made in newServer, runs in
// server.run or, on the leader alone, in server.lead, and is answered by one of the
// listeners of apis.go.
//
// The order of a start: cache directory (locked), storage (tested), configuration,
// listeners, cluster lock, keys, shard lock. The order of a stop: acting ends and
// the locks are released first, so that a standby takes over at once; then the
// streams close.
//
// Lock order: each mutex here guards the fields below it, nobody takes two, and nothing is called
// while one is locked but the wallet's maker of credentials.
package serve

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"nstance.dev/server/outbound"
)

// Main runs the program of a provider and exits: 0 when it was stopped in order
// or had nothing to do, 1 on an error, 2 on wrong usage.
func Main(p Provider, version string) {
	outbound.BoundDefault()
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
	root.AddCommand(newServeCommand(p, version), newReleaseCommand(p), newVersionCommand(version))
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
