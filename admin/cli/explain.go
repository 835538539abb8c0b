package cli

import (
	"context"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func newExplainCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("explain", "Diagnose: what was decided, what is next, what blocks it")
	flags := addShardFlags(cmd)
	cmd.AddCommand(newExplainGroupCommand(env, flags), newExplainInstanceCommand(env, flags))
	return cmd
}

func newExplainGroupCommand(env *Env, flags *shardFlags) *cobra.Command {
	var opts explainOptions
	cmd := &cobra.Command{
		Use:   "group GROUP",
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
		Example: `  nstance-admin explain group web
  nstance-admin explain group web -o json | jq '.next[].held_by'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeGroups(env, flags),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(cmd.Context(), env, flags, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: args[0]}})
		},
	}
	opts.addFlags(cmd)
	return cmd
}

func newExplainInstanceCommand(env *Env, flags *shardFlags) *cobra.Command {
	var opts explainOptions
	cmd := &cobra.Command{
		Use:               "instance INSTANCE",
		Short:             "Say why an instance is as it is",
		Example:           `  nstance-admin explain instance knc068a3cp3thz5z2mv1gejwftabc`,
		Args:              cobra.ExactArgs(1),
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
	if o.format == output.JSON || o.format == output.YAML || o.format == output.Name {
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
