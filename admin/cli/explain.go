package cli

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// newExplainCommand is the old form of the commands: "explain group" and so on.
func newExplainCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("explain", "Diagnose: what was decided, what is next, what blocks it")
	cmd.Hidden = true
	flags := addShardFlags(env, cmd)
	cmd.AddCommand(formerly(newGroupExplainCommand(env, flags), "group GROUP"),
		formerly(newInstanceExplainCommand(env, flags), "instance INSTANCE"), formerly(newDemandExplainCommand(env, flags), "need NEED"))
	return cmd
}

// formerly keeps a command under a name that it had, with the usage line of then.
func formerly(cmd *cobra.Command, use string) *cobra.Command {
	cmd.Use, cmd.Aliases = use, nil
	return cmd
}

func newGroupExplainCommand(env *Env, flags *shardFlags) *cobra.Command {
	var opts explainOptions
	cmd := &cobra.Command{
		Use:   "explain GROUP",
		Short: "Show why a group is not at its size, or what it does next",
		Long: `Show why a group is as it is: the conditions in force, what the server would do
next and what blocks that until when, and its last decisions, newest first.

Among the actions, condemn marks an instance for deletion, hasten ends its drain
earlier, and delete deletes its machine. What blocks a decision begins with a word
of a fixed list, among them:

  bound        a limit is reached on what may go on at once or in a minute
  window       no maintenance window is open
  queue        earlier creates of the group go first
  replacement  another instance has to be ready first
  unsettled    the group has not its size, or one of its instances is starting,
               silent, unhealthy or leaving
  unproven     the server does not know enough yet, as after a change of leader
  held         what the group should be is not known
  listing      the provider's list of machines lacks too many to be believed`,
		Example: `  nstance-admin group explain web
  nstance-admin group explain web -o json | jq '.next[].held_by'`,
		Args:              usedArgs,
		ValidArgsFunction: completeGroups(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(cmd.Context(), env, flags, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: args[0]}})
		},
	}
	opts.addFlags(cmd)
	return cmd
}

func newInstanceExplainCommand(env *Env, flags *shardFlags) *cobra.Command {
	var opts explainOptions
	cmd := &cobra.Command{
		Use:               "explain INSTANCE",
		Short:             "Show why an instance is as it is, and what comes next",
		Example:           `  nstance-admin instance explain knc068a3cp3thz5z2mv1gejwftabc`,
		Args:              usedArgs,
		ValidArgsFunction: completeInstances(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(cmd.Context(), env, flags, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_InstanceId{InstanceId: args[0]}})
		},
	}
	opts.addFlags(cmd)
	return cmd
}

// explainOptions say how much is printed of an explanation.
type explainOptions struct {
	format output.Format
	last   int
}

const defaultDecisions = 10

func (o *explainOptions) addFlags(cmd *cobra.Command) {
	addOutputFlag(cmd, &o.format)
	cmd.Flags().IntVar(&o.last, "last", defaultDecisions, "how many decisions are shown; the server keeps 100 of a group")
}

func (o *explainOptions) run(ctx context.Context, env *Env, flags *shardFlags, req *nstancev1.ExplainRequest) error {
	if o.last < 0 {
		return usagef("--last %d is negative", o.last)
	}
	return onEachShard(ctx, env, flags, func(ctx context.Context, s *shard) error {
		response, err := s.api.Explain(ctx, req)
		if err != nil {
			return err
		}
		return o.print(env, s, response)
	})
}

func (o *explainOptions) print(env *Env, s *shard, response *nstancev1.ExplainResponse) error {
	if o.format.Shape() == output.JSON || o.format.Shape() == output.Name {
		view := output.View[*nstancev1.ExplainResponse]{Name: func(r *nstancev1.ExplainResponse) string { return r.GetGroup().GetKey() }}
		return output.Object(env.Out, o.format, view, itemOf(s, response))
	}
	t := newTree(env.Out, env.Now())
	if in := response.GetInstance(); in != nil {
		t.line(0, "%sinstance %s: %s, of group %s", s.prefix(), in.GetInstanceId(), instanceStatus(in), in.GetGroup())
	} else {
		t.line(0, "%sgroup %s: size %s, %d running", s.prefix(), response.GetGroup().GetKey(), sizeOf(response.GetGroup()), response.GetGroup().GetActualSize())
	}
	t.conditions(1, response.GetConditions())
	t.next(1, response.GetNext())
	t.decisions(1, response.GetDecisions(), o.last)
	return t.err
}

func newDemandExplainCommand(env *Env, flags *shardFlags) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "explain NEED",
		Short: "Say of each offer why a need of demand mode buys it or does not",
		Long: `Show a need of the tenant's cluster and what each offer could do for it: what an hour
of one more machine costs, with the risk of an interruption, how many Pods of the need's
largest size it holds, and how many machines may be bought now. The offer with the
cheapest Pod comes first and is bought next, unless larger or smaller machines make the
whole cheaper. Of every other one it is said why none is bought.

NEED is an id that demand needs prints, or its first digits.`,
		Example: `  nstance-admin demand explain 9f2c41aa00b1
  nstance-admin demand explain 9f2c41aa00b1 -o json | jq '.explanation.offers[].detail'`,
		Args:              usedArgs,
		ValidArgsFunction: completeNeeds(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usagef("NEED is empty; demand needs lists the ids")
			}
			return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
				response, err := s.api.GetDemand(ctx, &nstancev1.GetDemandRequest{Need: args[0]})
				switch {
				case err != nil:
					return err
				case response.GetExplanation() == nil:
					return fmt.Errorf("the server explains no needs: it is older than this program")
				}
				return printNeed(env, format, s, response)
			})
		},
	}
	addOutputFlag(cmd, &format)
	return cmd
}

// completeNeeds offers the ids of needs, as short as they are printed.
func completeNeeds(env *Env, flags *shardFlags) completion {
	return complete(env, flags, func(ctx context.Context, s *shard) ([]string, error) {
		response, err := s.api.GetDemand(ctx, &nstancev1.GetDemandRequest{})
		var ids []string
		for _, n := range response.GetNeeds() {
			ids = append(ids, cobra.CompletionWithDesc(shortID(n.GetId()), amountsText(n.GetAmounts())))
		}
		return ids, err
	})
}

func printNeed(env *Env, format output.Format, s *shard, response *nstancev1.GetDemandResponse) error {
	need := response.GetNeeds()[0]
	if format.Shape() == output.JSON || format.Shape() == output.Name {
		view := output.View[*nstancev1.GetDemandResponse]{Name: func(*nstancev1.GetDemandResponse) string { return need.GetId() }}
		return output.Object(env.Out, format, view, itemOf(s, response))
	}
	why := response.GetExplanation()
	t := newTree(env.Out, env.Now())
	t.line(0, "%sneed %s: %s, priority %d", s.prefix(), need.GetId(), amountsText(need.GetAmounts()), need.GetPriority())
	t.line(1, "one machine has to hold %s", amountsText(need.GetMinUnit()))
	for _, r := range need.GetRequirements() {
		t.line(1, "requires %s", r)
	}
	if len(need.GetMissing()) == 0 {
		t.line(1, "nothing is missing")
	} else {
		t.line(1, "missing %s%s: %s; %s", amountsText(need.GetMissing()), t.since(need.GetMissingSince()), need.GetReason(), remedyOf(need.GetReason()))
	}
	if why.GetBlocked() != "" {
		t.line(1, "buys nothing: %s%s", why.GetBlocked(), t.until("until", why.GetBlockedUntil()))
	}
	if why.GetIdle() > 0 {
		t.line(1, "idle machines, which are taken first: %d", why.GetIdle())
	}
	t.line(0, "offers:")
	if len(why.GetOffers()) == 0 {
		t.line(1, "none; demand offers shows what the groups of a configuration offer")
	}
	if t.err != nil {
		return t.err
	}
	w := tabwriter.NewWriter(env.Out, 0, 0, 3, ' ', 0)
	for i, o := range why.GetOffers() {
		if i == 0 {
			fmt.Fprintln(w, "  OFFER\tUSD/H\tWITH_RISK\tHOLDS\tFREE\tWHY_NOT")
		}
		text := output.Cell(o.GetReason())
		if o.GetDetail() != "" {
			text += ": " + output.Cell(o.GetDetail())
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%d\t%s\t%s%s\n", output.Cell(o.GetName()), dollars(o.GetHourlyMicroUsd()), dollars(o.GetEffectiveMicroUsd()),
			o.GetUnits(), freeText(o.GetFree()), cmp.Or(text, "-"), t.until("until", o.GetUntil()))
	}
	return w.Flush()
}

// mostFree is from where on the number of machines that may be bought has no limit in practice.
const mostFree = 1 << 30

func freeText(n int64) string {
	if n >= mostFree {
		return "any"
	}
	return fmt.Sprint(n)
}
