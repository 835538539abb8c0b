package cli

import (
	"context"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// newDescribeCommand is the old form of "group describe".
func newDescribeCommand(env *Env) *cobra.Command {
	cmd := newGroupDescribeCommand(env, nil)
	cmd.Hidden = true
	return cmd
}

// newGroupDescribeCommand makes a command with flags of its own if flags is nil.
func newGroupDescribeCommand(env *Env, flags *shardFlags) *cobra.Command {
	opts := explainOptions{}
	cmd := &cobra.Command{
		Use:   "describe [GROUP...]",
		Short: "Show groups as a tree: conditions, instances, decisions, what is next",
		Long: `Show the named groups, or all of the tenant, as a tree: the conditions in force,
the instances with what is unusual about them, what the server would do next and
what blocks that, and the last decisions.`,
		Example: `  nstance-admin group describe web
  nstance-admin group describe --all-shards --last 3`,
		Args: usedArgs,
	}
	if flags == nil {
		flags = addShardFlags(env, cmd)
	}
	cmd.ValidArgsFunction = completeGroups(env, flags)
	opts.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			return describe(ctx, env, s, args, &opts)
		})
	}
	return cmd
}

// describe prints the groups of one shard. One that cannot be described does not
// keep the others back.
func describe(ctx context.Context, env *Env, s *shard, keys []string, opts *explainOptions) error {
	if len(keys) == 0 {
		groups, err := listGroups(ctx, s)
		if err != nil {
			return err
		}
		for _, item := range groups {
			keys = append(keys, item.Message.GetKey())
		}
	}
	instances, _, err := wait.ListInstances(ctx, s.api)
	if err != nil {
		return err
	}
	var failed failures
	for _, key := range keys {
		response, err := s.api.Explain(ctx, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: key}})
		switch {
		case err != nil:
			failed.add(err)
		case opts.format.Shape() == output.Table || opts.format.Shape() == output.Wide:
			failed.add(describeGroup(env, s, response, instances, opts.last))
		default:
			failed.add(opts.print(env, s, response))
		}
	}
	return failed.err()
}

// describeGroup prints one group. What the conditions say of an instance stands
// with the instance.
func describeGroup(env *Env, s *shard, r *nstancev1.ExplainResponse, instances []*nstancev1.InstanceStatus, last int) error {
	g := r.GetGroup()
	t := newTree(env.Out, env.Now())
	t.line(0, "%sgroup %s: template %s, size %s, %d running", s.prefix(), g.GetKey(), g.GetTemplate(), sizeOf(g), g.GetActualSize())
	byInstance := map[string]*nstancev1.Condition{}
	var ofGroup []*nstancev1.Condition
	for _, c := range r.GetConditions() {
		if c.GetInstanceId() == "" {
			ofGroup = append(ofGroup, c)
			continue
		}
		byInstance[c.GetInstanceId()] = c
	}
	t.conditions(1, ofGroup)
	t.line(1, "instances:")
	for _, in := range instances {
		if in.GetGroup() == g.GetKey() {
			t.instance(2, in, byInstance[in.GetInstanceId()])
		}
	}
	t.next(1, r.GetNext())
	t.decisions(1, r.GetDecisions(), last)
	return t.err
}

// instance prints one instance, and its condition if it has one.
func (t *tree) instance(depth int, in *nstancev1.InstanceStatus, c *nstancev1.Condition) {
	kind := ""
	if in.GetOnDemand() {
		kind = ", on demand"
	}
	t.line(depth, "%s  %s, %s old%s", in.GetInstanceId(), instanceStatus(in), age(in.GetCreatedAt(), t.now), kind)
	if c != nil {
		t.line(depth+1, "%s: %s%s%s", c.GetType(), c.GetMessage(), t.since(c.GetSince()), t.until("until", c.GetUntil()))
	}
}
