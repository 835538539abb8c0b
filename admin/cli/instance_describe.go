package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newInstanceDescribeCommand(env *Env, flags *shardFlags) *cobra.Command {
	opts := explainOptions{}
	cmd := &cobra.Command{
		Use:   "describe INSTANCE",
		Short: "Show all that is known of an instance: its life, its machine, what is decided about it",
		Example: `  nstance-admin instance describe knc068a3cp3thz5z2mv1gejwftabc
  nstance-admin instance describe knc068a3cp3thz5z2mv1gejwftabc --last 3`,
		Args:              usedArgs,
		ValidArgsFunction: completeInstances(env, flags),
	}
	opts.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			response, err := s.api.Explain(ctx, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_InstanceId{InstanceId: args[0]}})
			switch {
			case err != nil:
				return err
			case opts.format.Shape() == output.Table || opts.format.Shape() == output.Wide:
				return describeInstance(env, s, response, opts.last)
			default:
				return opts.print(env, s, response)
			}
		})
	}
	return cmd
}

// describeInstance prints one instance: its life line first.
func describeInstance(env *Env, s *shard, r *nstancev1.ExplainResponse, last int) error {
	in := r.GetInstance()
	t := newTree(env.Out, env.Now())
	t.line(0, "%sinstance %s: %s, of group %s", s.prefix(), in.GetInstanceId(), instanceStatus(in), in.GetGroup())
	t.line(1, "life:")
	t.line(2, "created    %s, %s ago", clock(in.GetCreatedAt()), age(in.GetCreatedAt(), t.now))
	if in.GetRegisteredAt() != nil {
		took := in.GetRegisteredAt().AsTime().Sub(in.GetCreatedAt().AsTime()).Round(time.Second)
		t.line(2, "registered %s, after %s", clock(in.GetRegisteredAt()), took)
	}
	if in.GetLastSeen() != nil {
		t.line(2, "last seen  %s, %s ago", clock(in.GetLastSeen()), age(in.GetLastSeen(), t.now))
	}
	t.line(1, "machine:")
	for _, row := range [][2]string{
		{"type", in.GetInstanceType()},
		{"template", in.GetTemplate()},
		{"provider", in.GetProviderInstanceId()},
		{"addresses", strings.Join(in.GetAddresses(), ", ")},
		{"hostname", in.GetHostname()},
		{"agent", in.GetAgentVersion()},
		{"hold", in.GetHold().GetReason()},
	} {
		if row[1] != "" {
			t.line(2, "%-10s %s", row[0], row[1])
		}
	}
	t.conditions(1, r.GetConditions())
	t.next(1, r.GetNext())
	t.decisions(1, r.GetDecisions(), last)
	return t.err
}
