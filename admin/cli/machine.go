package cli

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/admin/hostview"
	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

func newMachineCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("machine", "Host machines of a Kubernetes cluster: what their nodes are built from")
	cmd.Long = `Look at the HostMachines of a Kubernetes cluster: the hosts whose nodes are built from
numbered configurations. "list", "get" and "op" talk to the API server of the cluster, with
a kubeconfig as kubectl does; "assignments" asks the servers of the shards what the
hosts were told. "op" asks for an operation; nothing else changes anything.`
	flags := &kubeFlags{}
	list, get, op := newMachineListCommand(env, flags), newMachineGetCommand(env, flags), newMachineOpCommand(env, flags)
	flags.add(list)
	flags.add(get)
	flags.add(op)
	cmd.AddCommand(list, get, op, newMachineAssignmentsCommand(env))
	return cmd
}

// allMachines is an empty list, to be filled.
func allMachines() client.ObjectList { return &hostsv1.HostMachineList{} }

func newMachineListCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var watch bool
	var selector string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the host machines of the cluster",
		Long: `List the host machines of the cluster. RUNS is the version that the node was built
from, DESIRED what a repave now would build, and WAITS why a machine has no
configuration; -o wide says what to do about it.`,
		Example: `  nstance-admin machine list
  nstance-admin machine list -l hosts.nstance.dev/group=gpu -o wide
  nstance-admin machine list --watch -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			labels, err := parseLabels(selector)
			if err != nil {
				return err
			}
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			view := hostview.Machines(env.Now)
			if watch {
				return watchObjects(cmd.Context(), env, api, format, hostsv1.KindHostMachine, view, allMachines, labels)
			}
			var all hostsv1.HostMachineList
			if err := api.List(cmd.Context(), &all, labels); err != nil {
				return err
			}
			return printObjects(env, format, hostsv1.KindHostMachine, view, pointers(all.Items))
		},
	}
	addOutputFlag(cmd, &format)
	addWatchFlag(cmd, &watch)
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only the machines whose labels match this `SELECTOR`, as for kubectl")
	return cmd
}

func newMachineGetCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var watch bool
	cmd := &cobra.Command{
		Use:   "get MACHINE",
		Short: "Show one host machine: what it is built from, or what it waits for",
		Long: `Show one host machine: what its node runs, what a repave now would build, what it waits
for, and which configurations select it. Of several that do, the one with the
highest priority gets the machine; the others say why they lose it.`,
		Example: `  nstance-admin machine get knd068a3cp3thz5z2mv1gejwftabc
  nstance-admin machine get knd068a3cp3thz5z2mv1gejwftabc --watch`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeObjects(env, flags, machineNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			view := hostview.Machines(env.Now)
			m := &hostsv1.HostMachine{}
			if err := api.Get(cmd.Context(), args[0], m); err != nil {
				return err
			}
			if watch {
				return watchObjects(cmd.Context(), env, api, format, hostsv1.KindHostMachine, view, allMachines, named(args[0]))
			}
			return printDescription(env, format, hostsv1.KindHostMachine, view, m, func() ([]hostview.Line, error) {
				all, err := objects(cmd.Context(), env, api)
				return hostview.Machine(m, all), err
			})
		},
	}
	addOutputFlag(cmd, &format)
	addWatchFlag(cmd, &watch)
	return cmd
}

// pointers to the elements of a list.
func pointers[T any](list []T) []*T {
	all := make([]*T, 0, len(list))
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}
