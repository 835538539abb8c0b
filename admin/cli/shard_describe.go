package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newShardDescribeCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "describe",
		Short: "Show how the leader of a shard fares: its lease, its calls to storage and provider",
		Long: `Show the leader of a shard: since when it leads, how fresh its lease is, and how its
storage and its provider answer. How many calls there were, how many of them failed
and how many were throttled counts since it leads; how long one takes is that of the
last 512. Lease and calls are for administrators, and where the shard has one tenant.`,
		Example: `  nstance-admin shard describe
  nstance-admin shard describe --all-shards
  nstance-admin shard describe -o jsonpath='{.lease.renewed_at}'`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addListFlags(cmd, &format)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			info, err := s.api.GetServerInfo(ctx, &emptypb.Empty{})
			switch {
			case err != nil:
				return err
			case format.Shape() == output.Table || format.Shape() == output.Wide:
				return describeShard(env, s, info)
			default:
				return output.Object(env.Out, format, infoView(), itemOf(s, info))
			}
		})
	}
	return cmd
}

// infoView has the columns of formats that want some.
func infoView() output.View[*nstancev1.GetServerInfoResponse] {
	return output.View[*nstancev1.GetServerInfoResponse]{Name: func(i *nstancev1.GetServerInfoResponse) string { return i.GetShard() }}
}

// describeShard prints one shard and its leader.
func describeShard(env *Env, s *shard, info *nstancev1.GetServerInfoResponse) error {
	t := newTree(env.Out, env.Now())
	t.line(0, "shard %s of cluster %s", info.GetShard(), info.GetClusterId())
	t.line(1, "leader   %s, version %s", s.conn.Serving(), info.GetVersion())
	since := ""
	if info.GetLeadingSince() != nil {
		since = fmt.Sprintf(", since %s (%s)", clock(info.GetLeadingSince()), age(info.GetLeadingSince(), t.now))
	}
	t.line(1, "term     %d%s", info.GetTerm(), since)
	if l := info.GetLease(); l != nil {
		t.line(1, "lease    renewed %s ago, ends at %s, held by %s", age(l.GetRenewedAt(), t.now), clock(l.GetExpiresAt()), l.GetHolder())
	}
	if info.GetLease() == nil && len(info.GetStorage()) == 0 && len(info.GetProviderCalls()) == 0 && !info.GetAdministrator() {
		t.line(1, "lease and calls are told to administrators, and where the shard has one tenant: see server.admin_tenants")
	}
	t.calls(1, "storage", info.GetStorage())
	t.calls(1, "provider", info.GetProviderCalls())
	return t.err
}

// calls prints how the calls to something went, if there were any.
func (t *tree) calls(depth int, of string, all []*nstancev1.CallStats) {
	if len(all) == 0 {
		return
	}
	t.line(depth, "%s:", of)
	t.line(depth+1, "%-16s %9s %9s %9s %9s %9s", "call", "count", "p50", "p99", "errors", "throttled")
	for _, c := range all {
		t.line(depth+1, "%-16s %9d %9s %9s %9d %9d", c.GetOperation(), c.GetCalls(), took(c.GetP50Seconds()), took(c.GetP99Seconds()), c.GetErrors(), c.GetThrottled())
	}
}

// took is a time in two or three digits.
func took(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}
