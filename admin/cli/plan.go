package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config"
)

// newPlanCommand is the old form of "shard config plan".
func newPlanCommand(env *Env) *cobra.Command {
	cmd := newShardConfigPlanCommand(env)
	cmd.Hidden = true
	return cmd
}

func newShardConfigPlanCommand(env *Env) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what a configuration file would cause",
		Long: `Show what a configuration file would create, push, replace and delete in each
group if it were put in force now. Nothing is changed. An invalid file is refused
with every problem's line and column. The answer speaks of all tenants, so it is
for operators of the tenants in server.admin_tenants.

Groups that would not change are left out. CREATES leaves replacements out;
REPLACES are made one after the other, the new machine first.`,
		Example: `  nstance-admin shard config plan config/us-west-2a.jsonc
  nstance-admin shard config plan - -o json < new.jsonc`,
		Args: usedArgs,
	}
	flags := addShardFlags(env, cmd)
	addListFlags(cmd, &format)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := readInput(env, args[0], maxConfigSize)
		if err != nil {
			return err
		}
		name := args[0]
		if name == "-" {
			name = stdinName
		}
		if _, err := config.Load(name, data, config.LoadOptions{}); err != nil {
			return &invalidConfigError{path: name, err: err} // before any server, and with the file's own name
		}
		items, err := gather(cmd.Context(), env, flags, func(ctx context.Context, s *shard) ([]output.Item[*nstancev1.GroupPlan], error) {
			return planConfig(ctx, env, s, data)
		})
		return printList(env.Out, format, planView(), items, err)
	}
	return cmd
}

// planConfig returns the plan of one shard, whose remarks it prints.
func planConfig(ctx context.Context, env *Env, s *shard, data []byte) ([]output.Item[*nstancev1.GroupPlan], error) {
	response, err := s.api.PlanConfig(ctx, &nstancev1.PlanConfigRequest{Config: data})
	if err != nil {
		return nil, err
	}
	for _, warning := range response.GetWarnings() {
		fmt.Fprintf(env.Err, "%swarning: %s\n", s.prefix(), output.Cell(warning))
	}
	if len(response.GetGroups()) == 0 {
		fmt.Fprintf(env.Err, "%sno group would change\n", s.prefix())
	}
	var items []output.Item[*nstancev1.GroupPlan]
	for _, g := range response.GetGroups() {
		items = append(items, itemOf(s, g))
	}
	return items, nil
}

func planView() output.View[*nstancev1.GroupPlan] {
	type column = output.Column[*nstancev1.GroupPlan]
	return output.View[*nstancev1.GroupPlan]{
		Name: (*nstancev1.GroupPlan).GetKey,
		Columns: []column{
			{Header: "TENANT", Value: (*nstancev1.GroupPlan).GetTenant},
			{Header: "GROUP", Value: (*nstancev1.GroupPlan).GetKey},
			{Header: "CHANGE", Value: (*nstancev1.GroupPlan).GetChange},
			{Header: "CREATES", Value: func(g *nstancev1.GroupPlan) string { return number(g.GetCreates()) }},
			{Header: "PUSHES", Value: func(g *nstancev1.GroupPlan) string { return number(g.GetPushes()) }},
			{Header: "REPLACES", Value: func(g *nstancev1.GroupPlan) string { return number(g.GetRotations()) }},
			{Header: "DELETES", Value: func(g *nstancev1.GroupPlan) string { return number(g.GetDeletes()) }},
			{Header: "CAUSES", Value: func(g *nstancev1.GroupPlan) string { return strings.Join(g.GetCauses(), ", ") }},
		},
	}
}
