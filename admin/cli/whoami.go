package cli

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/contexts"
	"nstance.dev/admin/output"
)

// self says who the caller is, and where.
type self struct {
	Context     string    `json:"context,omitempty"`
	IdentityDir string    `json:"identity_dir"`
	Operator    string    `json:"operator"`
	Role        string    `json:"role"`
	Tenant      string    `json:"tenant"`
	Cluster     string    `json:"cluster"`
	Serial      string    `json:"serial"`
	NotAfter    time.Time `json:"not_after"`
	Shard       string    `json:"shard"`
	Leader      string    `json:"leader,omitempty"`
	Problem     string    `json:"problem,omitempty"` // why no server has answered
}

func newWhoamiCommand(env *Env) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show whose identity commands use, and which cluster they talk to",
		Long: `Show whose identity commands use: role, tenant and cluster as the certificate says,
which alone decides about them, until when it is good, and whether the leader of the
shard accepts it. Without an answer of a server the exit code is 1.`,
		Example: `  nstance-admin whoami
  nstance-admin whoami --context prod -o jsonpath={.tenant}`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := addShardFlags(env, cmd)
	addOutputFlag(cmd, &format, output.Table, output.JSON, output.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return whoami(cmd.Context(), env, flags, format) }
	return cmd
}

func whoami(ctx context.Context, env *Env, flags *shardFlags, format output.Format) error {
	selection, id, err := selectShards(env, flags)
	if err != nil {
		return err
	}
	selected, err := contexts.Select(flags.Config, flags.Context, env.Getenv)
	if err != nil {
		selected = contexts.Selected{} // servers and identity were named one by one
	}
	me := self{
		Context: cmp.Or(selected.Name, selected.File), IdentityDir: selection.IdentityDir, Operator: id.Peer.ID.String(), Role: string(id.Peer.Role),
		Tenant: id.Peer.Tenant, Cluster: id.Peer.Cluster, Serial: id.Peer.Serial, NotAfter: id.Peer.NotAfter.UTC(), Shard: selection.Targets[0].Shard,
	}
	err = onEachShard(ctx, env, flags, func(ctx context.Context, s *shard) error {
		_, err := s.api.GetServerInfo(ctx, &emptypb.Empty{})
		if err == nil {
			me.Leader = s.conn.Serving()
		}
		return err
	})
	if err != nil {
		me.Problem = text(err)
	}
	if format.Shape() == output.JSON {
		if printErr := output.Value(env.Out, format, me); printErr != nil {
			return printErr
		}
		return err
	}
	t := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"operator", me.Operator},
		{"role", me.Role},
		{"tenant", me.Tenant},
		{"cluster", me.Cluster},
		{"context", me.Context},
		{"identity", me.IdentityDir},
		{"certificate", "good until " + me.NotAfter.Format(time.RFC3339) + ", " + output.Age(env.Now(), me.NotAfter) + " more"},
		{"shard", me.Shard},
		{"leader", me.Leader},
	} {
		fmt.Fprintf(t, "%s\t%s\n", row[0], output.Cell(row[1]))
	}
	if printErr := t.Flush(); printErr != nil {
		return printErr
	}
	return err
}
