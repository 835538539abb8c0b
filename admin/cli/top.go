package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/dashboard"
	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// clearScreen puts the cursor at the top and wipes what is below it.
const clearScreen = "\x1b[H\x1b[2J"

func newTopCommand(env *Env) *cobra.Command {
	var interval time.Duration
	var rounds int
	var plain bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch groups, instances, events and costs live on one screen",
		Long: `Watch groups, instances, events and costs live on one screen, with keys to describe,
explain, plan, pause, scale, filter and sort; ? shows them all. It works over ssh, from
40 x 8 characters on.

Without a terminal, or with --rounds or --plain, the groups are printed with their
counts and conditions: elsewhere than on a terminal whenever something has changed.`,
		Example: `  nstance-admin top
  nstance-admin top --interval 5s --all-shards
  nstance-admin top --rounds 1
  nstance-admin top --plain`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(env, cmd)
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "between two looks; at least 100ms")
	cmd.Flags().BoolVar(&plain, "plain", false, "print tables, on a terminal too")
	cmd.Flags().IntVar(&rounds, "rounds", 0, "how many looks; 0: until interrupted")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if interval < 100*time.Millisecond || rounds < 0 {
			return usagef("--interval is at least 100ms, and --rounds at least 0")
		}
		shards, done, err := openShards(env, flags)
		if err != nil {
			return err
		}
		defer done()
		if env.Screen && env.Prompt && rounds == 0 && !plain {
			source := &dashboardSource{env: env, flags: flags, shards: shards}
			return dashboard.Run(cmd.Context(), source, dashboard.Options{In: env.In, Out: env.Out, Interval: interval, Now: env.Now})
		}
		return top(cmd.Context(), env, flags, shards, interval, rounds)
	}
	return cmd
}

// top looks at the shards until ctx ends, which is no error.
func top(ctx context.Context, env *Env, flags *shardFlags, shards []*shard, interval time.Duration, rounds int) error {
	var last string
	for round := 1; ; round++ {
		now, err := frames(ctx, flags, shards)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // an interruption is how it ends
		}
		if err != nil {
			return err
		}
		if env.Screen {
			fmt.Fprintf(env.Out, "%s%s  every %v\n%s", clearScreen, env.Now().UTC().Format(time.RFC3339), interval, now)
		} else if now != last {
			fmt.Fprintf(env.Out, "%s\n%s", env.Now().UTC().Format(time.RFC3339), now)
			last = now
		}
		if round == rounds {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// frames are the tables of all shards.
func frames(ctx context.Context, flags *shardFlags, shards []*shard) (string, error) {
	var frame bytes.Buffer
	for _, s := range shards {
		err := onShard(ctx, flags.timeout, s, func(ctx context.Context, s *shard) error { return frameOf(ctx, s, &frame) })
		if err != nil {
			return "", s.wrap(err)
		}
	}
	return frame.String(), nil
}

// frameOf writes the table of one shard.
func frameOf(ctx context.Context, s *shard, w *bytes.Buffer) error {
	info, err := s.api.GetServerInfo(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	items, err := listGroups(ctx, s)
	if err != nil {
		return err
	}
	wanted, running := int32(0), int32(0)
	for i, item := range items {
		running += item.Message.GetActualSize()
		if isDemand(item.Message) {
			wanted += item.Message.GetActualSize()
		} else {
			wanted += item.Message.GetSize()
		}
		items[i].Shard = "" // the line above says it
	}
	fmt.Fprintf(w, "shard %s  cluster %s  term %d  server %s  groups %d  running %d of %d\n",
		info.GetShard(), info.GetClusterId(), info.GetTerm(), output.Cell(info.GetVersion()), len(items), running, wanted)
	return output.List(w, output.As(output.Table), topView(), items)
}

func topView() output.View[*nstancev1.GroupStatus] {
	type column = output.Column[*nstancev1.GroupStatus]
	count := func(header string, get func(*nstancev1.GroupStatus) int32) column {
		return column{Header: header, Value: func(g *nstancev1.GroupStatus) string { return number(get(g)) }}
	}
	return output.View[*nstancev1.GroupStatus]{
		Name: (*nstancev1.GroupStatus).GetKey,
		Columns: []column{
			{Header: "GROUP", Value: (*nstancev1.GroupStatus).GetKey},
			{Header: "SIZE", Value: sizeOf},
			count("RUNNING", (*nstancev1.GroupStatus).GetActualSize),
			count("PENDING", (*nstancev1.GroupStatus).GetPending),
			count("UNHEALTHY", (*nstancev1.GroupStatus).GetUnhealthy),
			count("DRAINING", (*nstancev1.GroupStatus).GetDraining),
			{Header: "CONDITIONS", Value: conditionNames},
		},
	}
}

// conditionNames are the types of a group's conditions, with the end of those
// that have one.
func conditionNames(g *nstancev1.GroupStatus) string {
	var names []string
	for _, c := range g.GetConditions() {
		name := c.GetType()
		if c.GetUntil() != nil {
			name += " until " + clock(c.GetUntil())
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
