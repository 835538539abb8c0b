// Command fake-ec2 stands in for an account of AWS on this box, for trying things
// out without one: EC2, Elastic Load Balancing and the metadata service of one
// machine. Its own machines are processes, made from their user data.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	opts, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err == nil:
		err = run(ctx, opts, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake-ec2:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}
