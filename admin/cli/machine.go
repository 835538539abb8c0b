package cli

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/admin/hostops"
	"nstance.dev/admin/hostview"
	"nstance.dev/admin/kubeclient"
	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

func newMachineCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("machine", "Host machines of a Kubernetes cluster: what their nodes are built from")
	cmd.Long = `Look at the HostMachines of a Kubernetes cluster: the hosts whose nodes are built from
numbered configurations. "list", "get", "op" and "repave" talk to the API server of the
cluster, with a kubeconfig as kubectl does; "assignments" asks the servers of the shards
what the hosts were told. "op" asks for an operation, "repave" for that of its name. "hold"
keeps a machine from being replaced while it is worked on, and "unhold" ends that; nothing
else changes anything.`
	flags := &kubeFlags{}
	for _, of := range []*cobra.Command{
		newMachineListCommand(env, flags), newMachineGetCommand(env, flags), newMachineOpCommand(env, flags), newMachineRepaveCommand(env, flags),
	} {
		flags.add(of)
		cmd.AddCommand(of)
	}
	cmd.AddCommand(newMachineAssignmentsCommand(env), newMachineHoldCommand(env), newMachineUnholdCommand(env))
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
  nstance-admin machine list --sort-by .metadata.creationTimestamp
  nstance-admin machine list -l hosts.nstance.dev/group=gpu -o wide
  nstance-admin machine list --watch -o json`,
		Args:              usedArgs,
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
	addListFlags(cmd, &format)
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
		Args:              usedArgs,
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

func newOperationCommand(env *Env) *cobra.Command {
	cmd := newParentCommand("operation", "Operations on host machines of a Kubernetes cluster: what they wait for, and what became of them")
	cmd.Long = `Look at the MachineOperations of a Kubernetes cluster, and cancel those that wait. These
commands talk to the API server of the cluster, with a kubeconfig as kubectl does; "list"
and "get" change nothing. To ask for an operation: 'nstance-admin machine op'.`
	flags := addKubeFlags(cmd)
	cmd.AddCommand(newOperationListCommand(env, flags), newOperationGetCommand(env, flags), newOperationCancelCommand(env, flags))
	return cmd
}

// allOperations is an empty list, to be filled.
func allOperations() client.ObjectList { return &hostsv1.MachineOperationList{} }

func newOperationListCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var watch bool
	var selector string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the operations of the cluster",
		Long: `List the operations of the cluster. REASON is what one waits for, or why it has ended; -o wide
says it in full. An operation on a selector is followed by those of its machines.`,
		Example: `  nstance-admin operation list
  nstance-admin operation list -l hosts.nstance.dev/machine=knd068a3cp3thz5z2mv1gejwftabc
  nstance-admin operation list --watch -o json`,
		Args:              usedArgs,
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
			view := hostview.Operations(env.Now)
			if watch {
				return watchObjects(cmd.Context(), env, api, format, hostsv1.KindMachineOperation, view, allOperations, labels)
			}
			var all hostsv1.MachineOperationList
			if err := api.List(cmd.Context(), &all, labels); err != nil {
				return err
			}
			return printObjects(env, format, hostsv1.KindMachineOperation, view, pointers(all.Items))
		},
	}
	addListFlags(cmd, &format)
	addWatchFlag(cmd, &watch)
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only the operations whose labels match this `SELECTOR`, as for kubectl")
	return cmd
}

func newOperationGetCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var watch bool
	cmd := &cobra.Command{
		Use:   "get OPERATION",
		Short: "Show one operation: what it waits for, or what became of it",
		Long: `Show one operation: parameters, executor, deadline and results, and of one on a selector
the operations of its machines that are not complete.`,
		Example: `  nstance-admin operation get reboot-7kq2x
  nstance-admin operation get reboot-7kq2x --watch`,
		Args:              usedArgs,
		ValidArgsFunction: completeObjects(env, flags, operationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			view := hostview.Operations(env.Now)
			op := &hostsv1.MachineOperation{}
			if err := api.Get(cmd.Context(), args[0], op); err != nil {
				return err
			}
			if watch {
				return watchObjects(cmd.Context(), env, api, format, hostsv1.KindMachineOperation, view, allOperations, named(args[0]))
			}
			return printDescription(env, format, hostsv1.KindMachineOperation, view, op, func() ([]hostview.Line, error) {
				var children hostsv1.MachineOperationList
				var err error
				if op.Spec.MachineSelector != nil {
					err = api.List(cmd.Context(), &children, client.MatchingLabels{hostsv1.LabelParentUID: string(op.UID)})
				}
				return hostview.Operation(op, children.Items, env.Now()), err
			})
		},
	}
	addOutputFlag(cmd, &format)
	addWatchFlag(cmd, &watch)
	return cmd
}

func newOperationCancelCommand(env *Env, flags *kubeFlags) *cobra.Command {
	dry := false
	cmd := &cobra.Command{
		Use:   "cancel OPERATION...",
		Short: "Cancel operations that are not claimed",
		Long: `Cancel operations, by deleting them. One that an executor has claimed is not interrupted by that,
and is left alone. Of one on a selector all that are not claimed are cancelled; the others
go on.`,
		Example: `  nstance-admin operation cancel reboot-7kq2x
  nstance-admin operation cancel reboot-7kq2x trace-web`,
		Args:              usedArgs,
		ValidArgsFunction: completeObjects(env, flags, operationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			var failed failures
			for _, name := range args {
				failed.add(hostops.Cancel(cmd.Context(), env.Out, api, name, dry))
			}
			return failed.err()
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be cancelled")
	return cmd
}

func operationNames(ctx context.Context, api *kubeclient.Client) ([]string, error) {
	var all hostsv1.MachineOperationList
	err := api.List(ctx, &all)
	var names []string
	for i := range all.Items {
		names = append(names, cobra.CompletionWithDesc(all.Items[i].Name, hostview.Progress(&all.Items[i])))
	}
	return names, err
}
