// Command nstance-agent runs in every machine that Nstance manages. Its settings are
// environment variables; see docs/reference/agent.md. As `nstance-agent cluster-unit` it is the
// program that makes a machine join a cluster; see docs/joining.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"nstance.dev/agent"
	"nstance.dev/agent/settings"
)

// version is set by the linker.
var version = "dev"

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // a restart may help
	exitUsage   = 2 // flags or environment are wrong: a restart does not help
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := start(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// start runs the agent and returns the process's exit code.
func start(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == clusterUnit {
		return startUnit(ctx, args[1:], stderr)
	}
	flags := flag.NewFlagSet("nstance-agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	debug := flags.Bool("debug", false, "log debug messages")
	flags.BoolVar(debug, "v", false, "short for --debug")
	showVersion := flags.Bool("version", false, "print the version and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "nstance-agent: unexpected argument %q; settings are environment variables\n", flags.Arg(0))
		return exitUsage
	case *showVersion:
		fmt.Fprintln(stdout, version)
		return exitOK
	}
	s, err := settings.Parse(getenv)
	if err != nil {
		fmt.Fprintf(stderr, "nstance-agent: %v\n", err)
		return exitUsage
	}
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level(*debug || s.Debug)}))
	if err := agent.Run(ctx, s, agent.Options{Version: version}, log); err != nil {
		log.ErrorContext(ctx, "agent failed", "error", err)
		return exitFailure
	}
	return exitOK
}

func level(debug bool) slog.Level {
	if debug {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
