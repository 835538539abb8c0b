package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"nstance.dev/agent/cluster/unit"
)

// clusterUnit is the argument with which this is not the agent, but the program that runs with
// the machine's rights what makes the machine join a cluster.
const clusterUnit = "cluster-unit"

// startUnit runs that program and returns the process's exit code.
func startUnit(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("nstance-agent "+clusterUnit, flag.ContinueOnError)
	flags.SetOutput(stderr)
	opts := unit.Options{Env: os.Environ()}
	flags.StringVar(&opts.Requests, "requests", "/opt/nstance-agent/cluster", "directory of the agent with requests; no part of its path may be a link")
	flags.StringVar(&opts.State, "state", "/var/lib/nstance-cluster", "directory for status and blob, into which only this program writes")
	flags.StringVar(&opts.Leave, "leave", "/etc/nstance/leave.d", "directory of executables that make the machine leave its cluster")
	watch := flags.Bool("watch", false, "go on until SIGTERM, for machines without systemd")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "nstance-agent %s: unexpected argument %q\n", clusterUnit, flags.Arg(0))
		return exitUsage
	}
	for _, dir := range []string{opts.Requests, opts.State, opts.Leave} {
		if !filepath.IsAbs(dir) {
			fmt.Fprintf(stderr, "nstance-agent %s: %q is not an absolute path\n", clusterUnit, dir)
			return exitUsage
		}
	}
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	run := unit.New(opts, log).Once
	if *watch {
		run = unit.New(opts, log).Watch
	}
	if err := run(ctx); err != nil {
		log.ErrorContext(ctx, "requests are not dealt with", "error", err)
		return exitFailure
	}
	return exitOK
}
