package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/clusterops"
	"nstance.dev/admin/output"
)

func newClusterInspectCommand(env *Env, settings *clusterops.Settings) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Show what is stored of a cluster",
		Long: `Show what is stored of a cluster: its authority, locks, configurations, groups,
instances by their status, operators, and the names of its secrets, and what of
all that is damaged. No secret is shown. Every instance's record is read.`,
		Example: `  nstance-admin cluster inspect --storage-provider file --storage-bucket .dev/bucket \
    --key-provider file --key-source .dev/encryption.key`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return inspectCluster(cmd.Context(), env, settings, format)
		},
	}
	addOutputFlag(cmd, &format, output.Table, output.JSON, output.YAML)
	return cmd
}

func inspectCluster(ctx context.Context, env *Env, settings *clusterops.Settings, format output.Format) error {
	cluster, err := clusterops.Open(ctx, *settings)
	if err != nil {
		return err
	}
	state, err := cluster.Inspect(ctx)
	if err != nil {
		return err
	}
	if format.Shape() == output.JSON {
		return output.Value(env.Out, format, state)
	}
	return printState(env.Out, state)
}

// printState prints a table for each part of the state that has something.
func printState(w io.Writer, s *clusterops.State) error {
	t := &tables{w: tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)}
	section(t, "AUTHORITY\tNOT AFTER", s.Authority, func(a clusterops.AuthorityState) []string {
		return []string{a.Subject, moment(a.NotAfter)}
	})
	section(t, "LOCK\tLEADER\tTERM\tRELEASED\tRENEWED", s.Locks, func(l clusterops.LockState) []string {
		return []string{l.Lock, l.Leader, strconv.FormatUint(l.Term, 10), strconv.FormatBool(l.Released), moment(l.Renewed)}
	})
	section(t, "CONFIGURATION\tCLUSTER\tSIZE\tMODIFIED", s.Configs, func(c clusterops.ConfigState) []string {
		return []string{c.Shard, c.Cluster, strconv.Itoa(c.Size), moment(c.Modified)}
	})
	section(t, "GROUP\tSHARD\tTENANT\tTEMPLATE\tSIZE", s.Groups, func(g clusterops.GroupState) []string {
		size := ""
		if g.Size != nil {
			size = strconv.Itoa(*g.Size)
		}
		return []string{g.Group, g.Shard, g.Tenant, g.Template, size}
	})
	section(t, "INSTANCES\tSHARD\tTENANT\tSTATUS", s.Instances, func(i clusterops.InstanceCount) []string {
		return []string{strconv.Itoa(i.Count), i.Shard, i.Tenant, i.Status}
	})
	section(t, "OPERATOR\tTENANT\tROLE\tREGISTERED\tNOT AFTER", s.Operators, func(o clusterops.OperatorState) []string {
		return []string{o.ID, o.Tenant, o.Role, moment(o.Registered), moment(o.NotAfter)}
	})
	section(t, "SECRET\tVALUE\tREADABLE", s.Secrets, func(s clusterops.SecretState) []string {
		return []string{s.Name, s.Value.String(), strconv.FormatBool(s.Readable)}
	})
	section(t, "PROBLEM WITH\tERROR", s.Problems, func(p clusterops.Problem) []string {
		return []string{p.Key, p.Error}
	})
	return t.w.Flush()
}

// tables are several tables with an empty line between two.
type tables struct {
	w     *tabwriter.Writer
	begun bool
}

func section[T any](t *tables, header string, rows []T, cells func(T) []string) {
	if len(rows) == 0 {
		return
	}
	if t.begun {
		fmt.Fprintln(t.w)
	}
	t.begun = true
	fmt.Fprintln(t.w, header)
	for _, row := range rows {
		out := cells(row)
		for i := range out {
			out[i] = output.Cell(out[i])
		}
		fmt.Fprintln(t.w, strings.Join(out, "\t"))
	}
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
