package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// shortestLook is as often as the server asks the provider.
const shortestLook = 200 * time.Millisecond

// outputOptions are how what a machine has written is shown.
type outputOptions struct {
	source string
	format output.Format
	tail   int
	follow bool
	every  time.Duration
}

func newInstanceLogsCommand(env *Env, flags *shardFlags) *cobra.Command {
	opts := &outputOptions{}
	cmd := &cobra.Command{
		Use:   "logs INSTANCE",
		Short: "Show what the provider has of a machine's console or log",
		Long: `Show the end, at most 64 KiB, of what the provider keeps about a machine that may
never have come up: its serial console on AWS and Google Cloud, the log of the tasks
about it on Proxmox VE, the log of its process where machines are processes.

Nonces, user data and private keys are masked by the server. It takes the identity of
an operator; a viewer's is refused.`,
		Example: `  nstance-admin instance logs knc068a3cp3thz5z2mv1gejwftabc
  nstance-admin instance logs knc068a3cp3thz5z2mv1gejwftabc --tail 20 --follow
  nstance-admin instance logs knc068a3cp3thz5z2mv1gejwftabc -o json`,
	}
	cmd.Flags().StringVar(&opts.source, "source", "", "what is shown, `console` or log; by default what the provider has")
	_ = cmd.RegisterFlagCompletionFunc("source", cobra.FixedCompletions([]string{"console", "log"}, cobra.ShellCompDirectiveNoFileComp))
	return opts.complete(cmd, env, flags)
}

func newInstanceConsoleCommand(env *Env, flags *shardFlags) *cobra.Command {
	opts := &outputOptions{source: "console"}
	cmd := &cobra.Command{
		Use:   "console INSTANCE",
		Short: "Show what a machine has written to its serial console",
		Long: `Show the end, at most 64 KiB, of what a machine has written to its serial console,
where the provider keeps that: AWS and Google Cloud do. It cannot be typed at.

Nonces, user data and private keys are masked by the server. It takes the identity of
an operator; a viewer's is refused.`,
		Example: `  nstance-admin instance console knc068a3cp3thz5z2mv1gejwftabc
  nstance-admin instance console knc068a3cp3thz5z2mv1gejwftabc --follow`,
	}
	return opts.complete(cmd, env, flags)
}

// complete gives a command that shows output its flags and its work.
func (o *outputOptions) complete(cmd *cobra.Command, env *Env, flags *shardFlags) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = usedArgs, completeInstances(env, flags)
	addOutputFlag(cmd, &o.format)
	cmd.Flags().IntVar(&o.tail, "tail", 0, "only the last `LINES`; 0: all that is kept")
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what is written from now on, until interrupted")
	cmd.Flags().DurationVar(&o.every, "interval", 2*time.Second, "with --follow, the time between two looks")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plain := o.format.Shape() == output.Table || o.format.Shape() == output.Wide
		switch {
		case o.tail < 0:
			return usagef("--tail %d is negative", o.tail)
		case o.follow && !plain:
			return usagef("--follow shows lines; take it without -o")
		case o.follow && o.every < shortestLook:
			return usagef("--interval %v is less than %v", o.every, shortestLook)
		case o.follow:
			return watchShards(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				return o.watch(ctx, env, flags, s, args[0])
			})
		}
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			response, err := s.api.ReadInstanceOutput(ctx, &nstancev1.ReadInstanceOutputRequest{InstanceId: args[0], Source: o.source})
			if err != nil {
				return err
			}
			response.Text = lastLines(response.GetText(), o.tail)
			if !plain {
				view := output.View[*nstancev1.ReadInstanceOutputResponse]{Name: func(r *nstancev1.ReadInstanceOutputResponse) string { return r.GetSource() }}
				return output.Object(env.Out, o.format, view, itemOf(s, response))
			}
			o.explain(env, s, response)
			return printText(env.Out, response.GetText())
		})
	}
	return cmd
}

// explain says beside the output what is to be known of it.
func (o *outputOptions) explain(env *Env, s *shard, r *nstancev1.ReadInstanceOutputResponse) {
	switch {
	case r.GetText() == "" && !r.GetTruncated():
		fmt.Fprintf(env.Err, "%snothing has been written to its %s yet\n", s.prefix(), output.Cell(r.GetSource()))
	case r.GetTruncated() && o.tail == 0:
		fmt.Fprintf(env.Err, "%sthis is the end of its %s; what came before is not kept, or too much\n", s.prefix(), output.Cell(r.GetSource()))
	}
	if n := r.GetMasked(); n > 0 {
		fmt.Fprintf(env.Err, "%smasked in %d places: nonces, user data, private keys\n", s.prefix(), n)
	}
}

// watch shows what a machine writes, line by line, until ctx ends.
func (o *outputOptions) watch(ctx context.Context, env *Env, flags *shardFlags, s *shard, id string) error {
	shown, first := "", true
	for {
		var response *nstancev1.ReadInstanceOutputResponse
		err := onShard(ctx, flags.timeout, s, func(ctx context.Context, s *shard) (err error) {
			response, err = s.api.ReadInstanceOutput(ctx, &nstancev1.ReadInstanceOutputRequest{InstanceId: id, Source: o.source})
			return err
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (first || !reopens(err)):
			return err
		case err == nil:
			now := wholeLines(response.GetText())
			next, gap := fresh(shown, now)
			if first {
				next = lastLines(next, o.tail)
				o.explain(env, s, response)
			}
			if gap {
				fmt.Fprintf(env.Err, "%ssome lines may be missing here\n", s.prefix())
			}
			if err := printText(env.Out, next); err != nil {
				return err
			}
			shown, first = now, false
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.every):
		}
	}
}

// wholeLines is a text up to the end of its last line. What is being written may still be masked.
func wholeLines(text string) string { return text[:strings.LastIndexByte(text, '\n')+1] }

// anchor is how much of what was shown is looked for in what there is now.
const anchor = 1 << 10

// fresh is what has come since some lines were shown, whose beginning may be gone by now; gap says that they are not
// found any more.
func fresh(shown, now string) (next string, gap bool) {
	if rest, ok := strings.CutPrefix(now, shown); ok {
		return rest, false
	}
	for last := shown[max(0, len(shown)-anchor):]; last != ""; _, last, _ = strings.Cut(last, "\n") {
		if i := strings.LastIndex(now, last); i >= 0 {
			return now[i+len(last):], false
		}
	}
	return now, true
}

// lastLines are so many lines from the end of a text; 0: all.
func lastLines(text string, most int) string {
	if most == 0 {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines[max(0, len(lines)-most):], "")
}

// printText prints a text of a machine. The server has taken out what a terminal obeys; this
// does not rely on that.
func printText(w io.Writer, text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" {
			line = output.Cell(strings.ReplaceAll(line, "\t", "        "))
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
