// Command nstance-paver builds the node machine of a host and keeps it running, with the rights of
// root. It does what the agent of the host passes on from its server; see docs/hosts/repave.md.
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
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // a restart may help
	exitUsage   = 2 // flags or files are wrong: a restart does not help
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := start(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// A command is what the first argument names.
type command struct {
	name, use string
	// flags adds the command's own, and returns what runs it.
	flags func(flags *flag.FlagSet) func(ctx context.Context, c config, out io.Writer, log *slog.Logger) error
}

var commands = []command{
	{"", "build and run the node machine that the agent's server assigns, until SIGTERM", serveFlags},
	{"apply", "build and run the node machine of an assignment in a file, without a server", applyFlags},
	{"status", "show what this host runs and builds", statusFlags},
	{"facts", "print what this host knows for an assignment in a file, as JSON", factsFlags},
	{"reset", "remove both node machines and all settings of this host that were made for them", resetFlags},
}

const overview = `Usage:
  nstance-paver [flags]                 build and run what the agent's server assigns, until SIGTERM
  nstance-paver apply -f FILE [flags]   build and run what a file assigns, without a server
  nstance-paver status [flags]          show what this host runs and builds
  nstance-paver facts -f FILE [flags]   print what this host knows for what a file assigns, as JSON
  nstance-paver reset [flags]           remove both node machines and all settings made for them
  nstance-paver version                 print the version

Run a command with --help for its flags.
`

// start runs a command and returns the process's exit code.
func start(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		name, args = args[0], args[1:]
	}
	switch {
	case name == "version" || len(args) == 1 && args[0] == "--version":
		fmt.Fprintln(stdout, version)
		return exitOK
	case name == "help" || name == "" && len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
		fmt.Fprint(stdout, overview)
		return exitOK
	}
	for _, c := range commands {
		if c.name == name {
			return c.run(ctx, args, stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "nstance-paver: unknown command %q\n\n%s", name, overview)
	return exitUsage
}

func (c command) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("nstance-paver "+c.name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	var cfg config
	cfg.add(flags)
	run := c.flags(flags)
	usage := flags.Usage
	flags.Usage = func() {
		fmt.Fprintf(stderr, "nstance-paver %s: %s\n\n", c.name, c.use)
		usage()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "nstance-paver: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	level := slog.LevelInfo
	if cfg.debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level}))
	err := run(ctx, cfg, stdout, log)
	switch {
	case err == nil || c.name == "" && ctx.Err() != nil:
		return exitOK
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "nstance-paver: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "nstance-paver: %v\n", err)
	return exitFailure
}
