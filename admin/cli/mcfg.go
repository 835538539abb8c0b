package cli

import (
	"context"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/admin/hostview"
	"nstance.dev/admin/kubeclient"
	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/rollout"
)

func newMcfgCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("mcfg", "MachineConfigurations of a Kubernetes cluster, and their versions")
	cmd.Long = `Look at the MachineConfigurations of a Kubernetes cluster: whom they select, which
versions they have, how those differ, and which files a host would write for one. These commands read the API server of the
cluster, with a kubeconfig as kubectl does, and neither write nor lock anything.`
	flags := addKubeFlags(cmd)
	cmd.AddCommand(newMcfgListCommand(env, flags), newMcfgGetCommand(env, flags), newMcfgHistoryCommand(env, flags), newMcfgDiffCommand(env, flags), newMcfgRenderCommand(env, flags), newMcfgRolloutCommand(env, flags))
	return cmd
}

// allConfigurations is an empty list, to be filled.
func allConfigurations() client.ObjectList { return &hostsv1.MachineConfigurationList{} }

func newMcfgListCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var watch bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the configurations of the cluster",
		Long: `List the configurations of the cluster. LATEST is the highest version that was ever made,
EDITABLE the one that a change of the template goes into, LOCKED the highest that a
machine was assigned to; MACHINES are those that would be built from it.`,
		Example: `  nstance-admin mcfg list
  nstance-admin mcfg list -o wide
  nstance-admin mcfg list --watch`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			view := hostview.Configurations(env.Now)
			if watch {
				return watchObjects(cmd.Context(), env, api, format, hostsv1.KindMachineConfiguration, view, allConfigurations)
			}
			var all hostsv1.MachineConfigurationList
			if err := api.List(cmd.Context(), &all); err != nil {
				return err
			}
			return printObjects(env, format, hostsv1.KindMachineConfiguration, view, pointers(all.Items))
		},
	}
	addListFlags(cmd, &format)
	addWatchFlag(cmd, &watch)
	return cmd
}

func newMcfgGetCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var watch bool
	cmd := &cobra.Command{
		Use:   "get CONFIGURATION",
		Short: "Show one configuration: whom it selects, and which machines others get",
		Long: `Show one configuration: the machines that it selects, those that its selector matches and
another configuration gets, with the reason, and its versions.`,
		Example: `  nstance-admin mcfg get gpu
  nstance-admin mcfg get gpu -o yaml`,
		Args:              usedArgs,
		ValidArgsFunction: completeObjects(env, flags, configurationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			view := hostview.Configurations(env.Now)
			c := &hostsv1.MachineConfiguration{}
			if err := api.Get(cmd.Context(), args[0], c); err != nil {
				return err
			}
			if watch {
				return watchObjects(cmd.Context(), env, api, format, hostsv1.KindMachineConfiguration, view, allConfigurations, named(args[0]))
			}
			return printDescription(env, format, hostsv1.KindMachineConfiguration, view, c, func() ([]hostview.Line, error) {
				all, err := objects(cmd.Context(), env, api)
				return hostview.Configuration(c, all), err
			})
		},
	}
	addOutputFlag(cmd, &format)
	addWatchFlag(cmd, &watch)
	return cmd
}

func newMcfgRolloutCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var dry bool
	var nodesContext string
	cmd := &cobra.Command{
		Use:   "rollout CONFIGURATION --dry-run",
		Short: "Show what a rollout of the newest version would do, in order",
		Long: `Show what the operator would do now to bring the machines of a configuration to its newest
version: how many may be unavailable and are, when machines may be begun, and all
outdated machines in their order, with what blocks each. Where the update strategy
is OnDelete it shows what RollingUpdate with its defaults would do.

Nothing is written or locked. What only the shards know is not known here: whether an
instance is about to be replaced, or its group is rotating. Nodes are read with the same
kubeconfig; where they are in another cluster, name its context with --nodes-context.`,
		Example: `  nstance-admin mcfg rollout gpu --dry-run
  nstance-admin mcfg rollout gpu --dry-run -o json`,
		Args:              usedArgs,
		ValidArgsFunction: completeObjects(env, flags, configurationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !dry {
				return usagef("a rollout begins by itself where spec.updateStrategy.type is RollingUpdate; --dry-run shows what it would do")
			}
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			nodes := api
			if nodesContext != "" {
				other := *flags
				other.context = nodesContext
				if nodes, err = other.client(env); err != nil {
					return err
				}
			}
			return dryRun(cmd.Context(), env, api, nodes, format, args[0])
		},
	}
	addOutputFlag(cmd, &format)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would be done; required")
	cmd.Flags().StringVar(&nodesContext, "nodes-context", "", "context of the cluster that the Nodes are in; default: that of the machines")
	return cmd
}

// dryRun prints what a rollout would do.
func dryRun(ctx context.Context, env *Env, api, nodes *kubeclient.Client, format output.Format, configuration string) error {
	c := &hostsv1.MachineConfiguration{}
	if err := api.Get(ctx, configuration, c); err != nil {
		return err
	}
	all, err := objects(ctx, env, api)
	if err != nil {
		return err
	}
	var list corev1.NodeList
	if err := nodes.List(ctx, &list); err != nil {
		return err
	}
	around := rollout.Around{Nodes: map[string]*corev1.Node{}}
	for i := range list.Items {
		around.Nodes[list.Items[i].Name] = &list.Items[i]
	}
	now := env.Now()
	in := rollout.Observe(c, all.Versions, all.Machines, around, now)
	by := "RollingUpdate"
	if !in.Strategy.Rolling {
		by = "OnDelete; shown is what RollingUpdate would do"
		in.Strategy.Rolling = true
	}
	view := hostview.Rollout(c.Name, by, in, rollout.Decide(in, now))
	switch format.Shape() {
	case output.JSON:
		return output.Value(env.Out, format, view)
	case output.Name:
		for _, t := range view.Machines {
			if _, err := env.Out.Write([]byte(t.Machine + "\n")); err != nil {
				return err
			}
		}
		return nil
	}
	return printLines(env, view.Lines())
}
