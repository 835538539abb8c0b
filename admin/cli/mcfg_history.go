package cli

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/admin/hostview"
	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// allVersions is an empty list, to be filled.
func allVersions() client.ObjectList { return &hostsv1.MachineConfigurationVersionList{} }

func newMcfgHistoryCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var watch bool
	cmd := &cobra.Command{
		Use:   "history CONFIGURATION",
		Short: "List the versions of a configuration, the newest first",
		Long: `List the versions of a configuration, the newest first. A version is editable until a
machine is assigned to it, and locked from then on; MACHINES refer to it and keep
it from being deleted. To go back, name one in spec.configurationRef of a machine.`,
		Example: `  nstance-admin mcfg history gpu
  nstance-admin mcfg history gpu -o wide`,
		Args:              usedArgs,
		ValidArgsFunction: completeObjects(env, flags, configurationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			if err := api.Get(cmd.Context(), args[0], &hostsv1.MachineConfiguration{}); err != nil {
				return err
			}
			view := hostview.Versions(env.Now)
			own := client.MatchingLabels{hostsv1.LabelConfiguration: args[0]}
			if watch {
				return watchObjects(cmd.Context(), env, api, format, hostsv1.KindMachineConfigurationVersion, view, allVersions, own)
			}
			var all hostsv1.MachineConfigurationVersionList
			if err := api.List(cmd.Context(), &all, own); err != nil {
				return err
			}
			return printObjects(env, format, hostsv1.KindMachineConfigurationVersion, view, hostview.Newest(all.Items))
		},
	}
	addOutputFlag(cmd, &format)
	addWatchFlag(cmd, &watch)
	return cmd
}
