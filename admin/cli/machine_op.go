package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/admin/hostops"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// asking is how an operation is asked for.
type asking struct {
	wait, dry bool
}

func (a *asking) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&a.wait, "wait", false, "wait until it has ended, and say how far it is")
	f.BoolVar(&a.dry, "dry-run", false, "have the API server check the operation, and ask for nothing")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
}

// ask asks for an operation.
func (a *asking) ask(cmd *cobra.Command, env *Env, flags *kubeFlags, o hostops.Request) error {
	op, err := o.Object()
	if err != nil {
		return usagef("%w", err)
	}
	api, err := flags.client(env)
	if err != nil {
		return err
	}
	if a.dry { // the API server checks it as it would check the real one
		if err := api.Create(cmd.Context(), op, client.DryRunAll); err != nil {
			return err
		}
		fmt.Fprintf(env.Out, "operation %s: would be asked for (dry run: nothing was done)\n", op.Spec.OperationName)
		return nil
	}
	if err := api.Create(cmd.Context(), op); err != nil {
		return err
	}
	fmt.Fprintf(env.Out, "operation %s: asked for\n", op.Name)
	if !a.wait {
		return nil
	}
	return hostops.Wait(cmd.Context(), env.Out, func(err error) {
		fmt.Fprintf(env.Err, "the watch has ended (%s), opening it again\n", text(err))
	}, api, op)
}

func newMachineOpCommand(env *Env, flags *kubeFlags) *cobra.Command {
	o, how := hostops.Request{}, asking{}
	cmd := &cobra.Command{
		Use:   "op OPERATION",
		Short: "Ask for an operation on a machine, or on all that a selector matches",
		Long: `Ask for an operation, such as restartService or a custom one like example.com/packetCapture, on one
machine or on all whose labels match. A MachineOperation is made; its name is printed. With
--wait the command ends when the operation has, and fails if that has; an interrupt ends the
waiting alone.`,
		Example: `  nstance-admin machine op example.com/packetCapture --machine knd068a3cp3thz5z2mv1gejwftabc --param seconds=30 --wait
  nstance-admin machine op reboot -l hosts.nstance.dev/group=web --max-concurrent 5 --wait`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Operation = args[0]
			return how.ask(cmd, env, flags, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Machine, "machine", "", "the `MACHINE`")
	f.StringVarP(&o.Selector, "selector", "l", "", "the machines whose labels match this `SELECTOR`, as for kubectl")
	f.StringArrayVar(&o.Parameters, "param", nil, "a parameter, as `KEY=VALUE`; may be repeated")
	f.Int32Var(&o.MaxConcurrent, "max-concurrent", 0, "with --selector, on so many machines at once (default: all)")
	f.DurationVar(&o.Timeout, "operation-timeout", 0, "time that it may take from the claim on (default: by its name)")
	f.DurationVar(&o.TTL, "ttl", -1, "delete the object so long after its end (default: keep it)")
	how.add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("machine", func(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		return completeObjects(env, flags, machineNames)(cmd, nil, text)
	})
	return cmd
}

func newMachineRepaveCommand(env *Env, flags *kubeFlags) *cobra.Command {
	how, version, drain := asking{}, int32(0), true
	cmd := &cobra.Command{
		Use:   "repave MACHINE",
		Short: "Build the node of a machine again",
		Long: `Build the node of a machine again: its Node is drained and deleted, and the host builds
another one in its place. The same as 'machine op repave --machine MACHINE', which has more
flags. What is built follows from the configuration of the machine; --version is a check, and
the operation fails where it would be another one.`,
		Example: `  nstance-admin machine repave knd068a3cp3thz5z2mv1gejwftabc --wait
  nstance-admin machine repave knd068a3cp3thz5z2mv1gejwftabc --version 12 --drain=false`,
		Args:              usedArgs,
		ValidArgsFunction: completeObjects(env, flags, machineNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := hostops.Request{Operation: hostsv1.OperationRepave, Machine: args[0], TTL: -1}
			if version > 0 {
				o.Parameters = append(o.Parameters, "version="+strconv.Itoa(int(version)))
			}
			if !drain {
				o.Parameters = append(o.Parameters, "drain=false")
			}
			return how.ask(cmd, env, flags, o)
		},
	}
	f := cmd.Flags()
	f.Int32Var(&version, "version", 0, "fail if another version would be built")
	f.BoolVar(&drain, "drain", true, "drain the Node first")
	how.add(cmd)
	return cmd
}
