package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"nstance.dev/admin/wait"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// createFlags describe an on-demand instance.
type createFlags struct {
	group, id, template, instanceType, subnetPool string
	vars, loadBalancers                           []string
}

func newInstanceCreateCommand(env *Env, flags *shardFlags) *cobra.Command {
	var create createFlags
	cmd := &cobra.Command{
		Use:   "create --group GROUP",
		Short: "Start one on-demand instance",
		Long: `Start one on-demand instance: it has the settings of a group without counting
in its size, and lives until it is deleted. What flags say beats the group.`,
		Example: `  nstance-admin instance create --group web
  nstance-admin instance create --group web --instance-type t4g.large --var role=canary --wait`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVarP(&create.group, "group", "g", "", "the `GROUP` whose settings it has")
	f.StringVar(&create.id, "id", "", "`ID` of the instance (default: a new one)")
	f.StringVar(&create.template, "template", "", "`TEMPLATE` instead of the group's")
	f.StringVar(&create.instanceType, "instance-type", "", "machine `TYPE` instead of the group's")
	f.StringVar(&create.subnetPool, "subnet-pool", "", "subnet `POOL` instead of the group's")
	f.StringArrayVar(&create.loadBalancers, "load-balancer", nil, "load balancer `KEY` instead of the group's; may be repeated")
	f.StringArrayVar(&create.vars, "var", nil, "variable `NAME=VALUE`; may be repeated")
	_ = cmd.MarkFlagRequired("group")
	_ = cmd.RegisterFlagCompletionFunc("group", completeGroups(env, flags))
	how := addDryRunFlag(cmd)
	waiting := addWaitFlag(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		request, err := create.request()
		if err != nil {
			return err
		}
		waiting.apply(cmd)
		return onEachShard(cmd.Context(), env, flags, func(ctx context.Context, s *shard) error {
			return createInstance(ctx, env, s, request, how, waiting)
		})
	}
	return cmd
}

func (c createFlags) request() (*nstancev1.CreateInstanceRequest, error) {
	config := &nstancev1.InstanceConfig{
		Group:        c.group,
		Template:     optional(c.template),
		InstanceType: optional(c.instanceType),
		SubnetPool:   optional(c.subnetPool),
	}
	vars := map[string]string{}
	for _, text := range c.vars {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := vars[name]; !ok || name == "" || twice {
			return nil, usagef("--var %s: must be of the form NAME=VALUE, and each name come once", quote(text))
		}
		vars[name] = value
	}
	if len(vars) > 0 {
		config.Vars = &nstancev1.StringMap{Values: vars}
	}
	if c.loadBalancers != nil {
		config.LoadBalancers = &nstancev1.StringList{Values: c.loadBalancers}
	}
	if c.id != "" {
		if _, err := identity.ParseID(c.id); err != nil {
			return nil, usagef("--id: %w", err)
		}
	}
	return &nstancev1.CreateInstanceRequest{InstanceId: optional(c.id), Config: config}, nil
}

// optional is nil for what was not said.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// createInstance gives the instance its id on this side where it can: a call
// with an id may be repeated, and so outlives a change of leader.
func createInstance(ctx context.Context, env *Env, s *shard, request *nstancev1.CreateInstanceRequest, how *changeFlags, waiting *waitFlag) error {
	request = &nstancev1.CreateInstanceRequest{InstanceId: request.InstanceId, Config: request.GetConfig()}
	if request.InstanceId == nil && request.GetConfig().Template == nil {
		group, err := findGroup(ctx, s, request.GetConfig().GetGroup())
		if err != nil {
			return err
		}
		if identity.ValidateKind(group.GetKind()) == nil {
			id, err := identity.NewID(group.GetKind())
			if err != nil {
				return err
			}
			request.InstanceId = optional(id.String())
		}
	}
	if how.dryRun {
		group, err := findGroup(ctx, s, request.GetConfig().GetGroup())
		if err != nil {
			return err
		}
		fmt.Fprintf(env.Out, "%sgroup %s: an on-demand instance of template %s would be started\n", s.prefix(), group.GetKey(),
			cmp.Or(request.GetConfig().GetTemplate(), group.GetTemplate()))
		return nil
	}
	response, err := s.api.CreateInstance(ctx, request)
	if err != nil {
		return err
	}
	id := response.GetInstanceId()
	fmt.Fprintf(env.Out, "%sinstance %s: %s\n", s.prefix(), id, response.GetStatus())
	if err := waiting.until(ctx, env, s, wait.Goal{Running: []string{id}}); err != nil {
		return err
	}
	if waiting.wait {
		fmt.Fprintf(env.Out, "%sinstance %s: running\n", s.prefix(), id)
	}
	return nil
}
