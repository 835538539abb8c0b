package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/wait"
)

const defaultWaitTimeout = 10 * time.Minute

// waitFlag is --wait of a command that changes something.
type waitFlag struct {
	wait  bool
	flags *shardFlags
}

func addWaitFlag(cmd *cobra.Command, flags *shardFlags) *waitFlag {
	w := &waitFlag{flags: flags}
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until the change is complete")
	return w
}

// apply gives commands that wait a longer time, unless the caller named one.
func (w *waitFlag) apply(cmd *cobra.Command) {
	if w.wait && !cmd.Flags().Changed("timeout") {
		w.flags.timeout = defaultWaitTimeout
	}
}

// until waits for a goal, if it is to be waited for, and says how it goes.
func (w *waitFlag) until(ctx context.Context, env *Env, s *shard, goal wait.Goal) error {
	if !w.wait {
		return nil
	}
	return w.each(ctx, env, s, []wait.Goal{goal})[0]
}

// each waits for several goals, and says how it goes. It returns one error for each goal, in their order; nil: it was reached.
func (w *waitFlag) each(ctx context.Context, env *Env, s *shard, goals []wait.Goal) []error {
	p := &progress{w: env.Err, terminal: env.Terminal, label: s.label}
	defer p.end()
	// The context ends at the same time-out, counted from the call before.
	return wait.Each(ctx, s.api, goals, wait.Options{Timeout: w.flags.timeout, Report: p.report})
}

// progress shows what is missing: in place on a terminal, elsewhere one line per
// change.
type progress struct {
	w        io.Writer
	terminal bool
	label    string // of the shard; may be empty
	last     string
}

func (p *progress) report(missing string) {
	if p.label != "" {
		missing = p.label + ": " + missing
	}
	if missing == p.last {
		return
	}
	p.last = missing
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", missing)
		return
	}
	fmt.Fprintln(p.w, missing)
}

// end clears the line that the progress has used.
func (p *progress) end() {
	if p.terminal && p.last != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
