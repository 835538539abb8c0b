package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"nstance.dev/agent/paver/facts"
)

func factsFlags(flags *flag.FlagSet) func(context.Context, config, io.Writer, *slog.Logger) error {
	var o order
	flags.StringVar(&o.file, "f", "", "file with a MachineAssignment in JSON, whose binds, devices and users are looked for; - reads standard input")
	return func(_ context.Context, _ config, out io.Writer, _ *slog.Logger) error { return showFacts(o, out) }
}

// showFacts says what is known of this host for an assignment, so that what it would write can be seen elsewhere. It has
// no secrets, and changes nothing.
func showFacts(o order, out io.Writer) error {
	m, _, err := o.read()
	if err != nil {
		return err
	}
	host, err := facts.Read(m.GetTemplate(), facts.Options{})
	if err != nil {
		return err
	}
	host.SSHUsers = facts.Users(m.GetTemplate(), facts.Options{})
	text, err := json.MarshalIndent(host, "", "  ")
	if err != nil {
		return fmt.Errorf("encode facts: %w", err)
	}
	_, err = fmt.Fprintln(out, string(text))
	return err
}
