// Command nstance-admin administrates clusters of Nstance: as an operator of
// their shards, or on their storage directly.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"nstance.dev/admin/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Run(ctx, &cli.Env{
		In:       os.Stdin,
		Out:      os.Stdout,
		Err:      os.Stderr,
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Screen:   term.IsTerminal(int(os.Stdout.Fd())),
		Prompt:   term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
		Getenv:   os.Getenv,
		Now:      time.Now,
		TempDir:  os.TempDir(),
		Version:  version,
	}, os.Args[1:])
}
