package cli

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/admin/hostview"
	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

func newMcfgCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("mcfg", "MachineConfigurations of a Kubernetes cluster, and their versions")
	cmd.Long = `Look at the MachineConfigurations of a Kubernetes cluster: whom they select, which
versions they have, how those differ, and which files a host would write for one. These commands read the API server of the
cluster, with a kubeconfig as kubectl does, and neither write nor lock anything.`
	flags := addKubeFlags(cmd)
	cmd.AddCommand(newMcfgListCommand(env, flags), newMcfgGetCommand(env, flags), newMcfgHistoryCommand(env, flags), newMcfgDiffCommand(env, flags), newMcfgRenderCommand(env, flags))
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
		Args:              cobra.NoArgs,
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
	addOutputFlag(cmd, &format)
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
		Args:              cobra.ExactArgs(1),
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
