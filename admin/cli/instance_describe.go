package cli

import (
	"context"
	"fmt"
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
	t.life(1, in)
	t.line(1, "machine:")
	for _, row := range [][2]string{
		{"type", in.GetInstanceType()},
		{"template", in.GetTemplate()},
		{"provider", in.GetProviderInstanceId()},
		{"addresses", strings.Join(in.GetAddresses(), ", ")},
		{"hostname", in.GetHostname()},
		{"agent", in.GetAgentVersion()},
		{"hold", in.GetHold().GetReason()},
		{"cpu", usage(in.CpuUsage)},
		{"memory", usage(in.MemoryUsage)},
	} {
		if row[1] != "" {
			t.line(2, "%-10s %s", row[0], row[1])
		}
	}
	t.files(1, in.GetFiles())
	t.conditions(1, r.GetConditions())
	t.next(1, r.GetNext())
	t.decisions(1, r.GetDecisions(), last)
	return t.err
}

// life prints what has become of an instance, each step with how long it took.
func (t *tree) life(depth int, in *nstancev1.InstanceStatus) {
	t.line(depth, "life:")
	steps := in.GetLife()
	if len(steps) == 0 { // a server of before it was told
		steps = append(steps, &nstancev1.LifeStep{State: "created", At: in.GetCreatedAt()})
		if in.GetRegisteredAt() != nil {
			steps = append(steps, &nstancev1.LifeStep{State: "registered", At: in.GetRegisteredAt()})
		}
	}
	for i, step := range steps {
		if i == 0 {
			t.line(depth+1, "%-11s %s, %s ago", step.GetState(), clock(step.GetAt()), age(step.GetAt(), t.now))
			continue
		}
		took := step.GetAt().AsTime().Sub(steps[i-1].GetAt().AsTime()).Round(time.Second)
		t.line(depth+1, "%-11s %s, after %s", step.GetState(), clock(step.GetAt()), took)
	}
	if in.GetLastSeen() != nil {
		t.line(depth+1, "%-11s %s, %s ago", "last seen", clock(in.GetLastSeen()), age(in.GetLastSeen(), t.now))
	}
	if in.GetCondemned().GetDeleteAt() != nil {
		t.line(depth+1, "%-11s %s at the latest", "ends", clock(in.GetCondemned().GetDeleteAt()))
	}
}

// files prints the files and certificates of an instance, if any are known.
func (t *tree) files(depth int, all []*nstancev1.InstanceFile) {
	if len(all) == 0 {
		return
	}
	t.line(depth, "files:")
	for _, f := range all {
		state := "current"
		switch {
		case f.GetExpiresAt() != nil && !t.now.Before(f.GetExpiresAt().AsTime()):
			state = "expired"
		case f.GetKind() == "":
			state = "no longer wanted"
		case !f.GetCurrent():
			state = "being updated"
		}
		ends := ""
		if f.GetExpiresAt() != nil {
			ends = ", ends " + clock(f.GetExpiresAt())
		}
		t.line(depth+1, "%-20s %-12s %s%s", f.GetName(), f.GetKind(), state, ends)
		if f.GetError() != "" {
			t.line(depth+2, "%s", f.GetError())
		}
	}
}

// usage is a percentage; empty: it is not known.
func usage(percent *float64) string {
	if percent == nil {
		return ""
	}
	return fmt.Sprintf("%.0f%%", *percent)
}
