package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/admin/hostview"
	"nstance.dev/admin/kubeclient"
	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

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
	addOutputFlag(cmd, &format)
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
		Args:              cobra.ExactArgs(1),
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
	cmd := &cobra.Command{
		Use:   "cancel OPERATION...",
		Short: "Cancel operations that nobody has begun",
		Long: `Cancel operations, by deleting them. One that an executor has begun is not interrupted by that,
and is left alone. Of one on a selector all that have not begun are cancelled; the others
go on.`,
		Example: `  nstance-admin operation cancel reboot-7kq2x
  nstance-admin operation cancel reboot-7kq2x trace-web`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeObjects(env, flags, operationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			var failed failures
			for _, name := range args {
				failed.add(cancelOperation(cmd.Context(), env, api, name))
			}
			return failed.err()
		},
	}
	return cmd
}

func cancelOperation(ctx context.Context, env *Env, api *kubeclient.Client, name string) error {
	op := &hostsv1.MachineOperation{}
	if err := api.Get(ctx, name, op); err != nil {
		return fmt.Errorf("operation %s: %w", name, err)
	}
	switch state := op.Status.State; {
	case state == hostsv1.OperationComplete || state == hostsv1.OperationFailed:
		return fmt.Errorf("operation %s has ended already: %s", name, hostview.Progress(op))
	case state == hostsv1.OperationInProgress && op.Spec.MachineSelector == nil:
		return fmt.Errorf("operation %s is in progress, and is not interrupted: executor %s has it", name, op.Status.Executor)
	}
	// Refused if an executor has taken it in between.
	if err := api.DeleteUnchanged(ctx, op); err != nil {
		return fmt.Errorf("operation %s: %w", name, err)
	}
	text := "cancelled"
	if c := op.Status.Children; c != nil && c.InProgress > 0 {
		text = fmt.Sprintf("cancelled; on %d machines it is in progress, and goes on", c.InProgress)
	}
	fmt.Fprintf(env.Out, "operation %s: %s\n", name, text)
	return nil
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
