package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/output"
	"nstance.dev/admin/shardclient"
)

// shardRow is a shard as the list of them shows it.
type shardRow struct {
	Shard     string   `json:"shard"`
	ClusterID string   `json:"cluster_id"`
	Term      int64    `json:"term"`
	Leader    string   `json:"leader"`
	Version   string   `json:"version"`
	Groups    int      `json:"groups"`
	Running   int32    `json:"running"`
	Features  []string `json:"features"`
}

func newShardListCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the shards of the cluster with their leaders",
		Long: `List the shards that the context names, with the address, term and version of the
leader of each, and what runs there. --shard lists one alone.`,
		Example: `  nstance-admin shard list
  nstance-admin shard list -o wide --sort-by term`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addListFlags(cmd, &format)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flags.AllShards = flags.Shard == ""
		items, err := gather(cmd.Context(), env, flags, shardRows)
		return printList(env.Out, format, shardView(), items, err)
	}
	return cmd
}

func shardRows(ctx context.Context, s *shard) ([]output.Item[shardRow], error) {
	info, err := s.api.GetServerInfo(ctx, &emptypb.Empty{})
	if err != nil {
		return nil, err
	}
	groups, err := listGroups(ctx, s)
	if err != nil {
		return nil, err
	}
	row := shardRow{
		Shard: s.name, ClusterID: info.GetClusterId(), Term: info.GetTerm(), Leader: s.conn.Serving(), Version: info.GetVersion(),
		Groups: len(groups), Features: info.GetFeatures(),
	}
	for _, g := range groups {
		row.Running += g.Message.GetActualSize()
	}
	return []output.Item[shardRow]{{Message: row}}, nil
}

func shardView() output.View[shardRow] {
	type column = output.Column[shardRow]
	return output.View[shardRow]{
		Name: func(r shardRow) string { return r.Shard },
		Columns: []column{
			{Header: "SHARD", Value: func(r shardRow) string { return r.Shard }},
			{Header: "CLUSTER", Value: func(r shardRow) string { return r.ClusterID }},
			{Header: "LEADER", Value: func(r shardRow) string { return r.Leader }},
			{Header: "TERM", Value: func(r shardRow) string { return number(int32(r.Term)) }},
			{Header: "VERSION", Value: func(r shardRow) string { return r.Version }},
			{Header: "GROUPS", Value: func(r shardRow) string { return number(int32(r.Groups)) }},
			{Header: "RUNNING", Value: func(r shardRow) string { return number(r.Running) }},
			{Header: "FEATURES", Wide: true, Value: func(r shardRow) string { return strings.Join(r.Features, ",") }},
		},
	}
}

// serverRow is a server of a shard.
type serverRow struct {
	Shard   string `json:"shard"`
	Address string `json:"address"`
	Role    string `json:"role"`
	Term    int64  `json:"term,omitempty"`
	Version string `json:"version,omitempty"`
	Took    string `json:"took"`
	Problem string `json:"problem,omitempty"`
}

func newShardLeaderCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "leader",
		Short: "Show which server leads a shard, and which stand by",
		Long: `Ask each address of a shard once, as it is now: which server leads, which stand by,
and which do not answer and why. The exit code is 1 where no server leads.`,
		Example: `  nstance-admin shard leader
  nstance-admin shard leader --all-shards -o json`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addListFlags(cmd, &format)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		selection, id, err := selectShards(env, flags)
		if err != nil {
			return err
		}
		var items []output.Item[serverRow]
		var failed failures
		for _, target := range selection.Targets {
			probes := shardclient.ProbeAll(cmd.Context(), target, id, shardclient.Options{Now: env.Now, CallTimeout: min(flags.timeout, 10*time.Second)})
			rows, err := serverRows(target.Shard, probes)
			items = append(items, rows...)
			failed.add(err)
		}
		if err := output.List(env.Out, format, serverView(), items); err != nil {
			return err
		}
		return failed.err()
	}
	return cmd
}

// serverRows are the servers of a shard, and an error where none of them leads.
func serverRows(shard string, probes []shardclient.Probe) ([]output.Item[serverRow], error) {
	var items []output.Item[serverRow]
	unavailable := &shardclient.UnavailableError{Shard: shard}
	led := false
	for _, p := range probes {
		row := serverRow{
			Shard: shard, Address: p.Address, Role: string(p.Role), Term: p.Info.GetTerm(), Version: p.Info.GetVersion(),
			Took: p.Took.Round(time.Millisecond).String(),
		}
		if p.Err != nil {
			row.Problem = text(p.Err)
			unavailable.Attempts = append(unavailable.Attempts, shardclient.Attempt{Address: p.Address, Err: p.Err})
		}
		led = led || p.Role == shardclient.Leader
		items = append(items, output.Item[serverRow]{Message: row})
	}
	if !led {
		return items, unavailable
	}
	return items, nil
}

func serverView() output.View[serverRow] {
	type column = output.Column[serverRow]
	return output.View[serverRow]{
		Name: func(r serverRow) string { return r.Address },
		Columns: []column{
			{Header: "SHARD", Value: func(r serverRow) string { return r.Shard }},
			{Header: "ADDRESS", Value: func(r serverRow) string { return r.Address }},
			{Header: "ROLE", Value: func(r serverRow) string { return r.Role }},
			{Header: "TERM", Value: func(r serverRow) string {
				if r.Term == 0 {
					return ""
				}
				return number(int32(r.Term))
			}},
			{Header: "VERSION", Value: func(r serverRow) string { return r.Version }},
			{Header: "TOOK", Value: func(r serverRow) string { return r.Took }},
			{Header: "PROBLEM", Value: func(r serverRow) string { return r.Problem }},
		},
	}
}
