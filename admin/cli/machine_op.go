package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/watch"

	"nstance.dev/admin/hostview"
	"nstance.dev/admin/kubeclient"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// operationOptions say which operation, on which machines.
type operationOptions struct {
	machine, selector string
	parameters        []string
	concurrent        int32
	limit             time.Duration // of the operation
	ttl               time.Duration // negative: the object is kept
	wait              bool
}

func newMachineOpCommand(env *Env, flags *kubeFlags) *cobra.Command {
	o := &operationOptions{}
	cmd := &cobra.Command{
		Use:   "op OPERATION",
		Short: "Ask for an operation on a machine, or on all that a selector matches",
		Long: `Ask for an operation, such as restartService or a custom one like example.com/packetCapture, on one
machine or on all whose labels match. A MachineOperation is made; its name is printed. With
--wait the command ends when the operation has, and fails if that has; an interrupt ends the
waiting alone.`,
		Example: `  nstance-admin machine op example.com/packetCapture --machine knd068a3cp3thz5z2mv1gejwftabc --param seconds=30 --wait
  nstance-admin machine op reboot -l hosts.nstance.dev/group=web --max-concurrent 5 --wait`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			op, err := o.operation(args[0])
			if err != nil {
				return err
			}
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			if err := api.Create(cmd.Context(), op); err != nil {
				return err
			}
			fmt.Fprintf(env.Out, "operation %s: asked for\n", op.Name)
			if !o.wait {
				return nil
			}
			return waitForOperation(cmd.Context(), env, api, op)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.machine, "machine", "", "the `MACHINE`")
	f.StringVarP(&o.selector, "selector", "l", "", "the machines whose labels match this `SELECTOR`, as for kubectl")
	f.StringArrayVar(&o.parameters, "param", nil, "a parameter, as `KEY=VALUE`; may be repeated")
	f.Int32Var(&o.concurrent, "max-concurrent", 0, "with --selector, on so many machines at once (default: all)")
	f.DurationVar(&o.limit, "operation-timeout", 0, "how long it may take once it has begun (default: by its name)")
	f.DurationVar(&o.ttl, "ttl", -1, "delete the object so long after its end (default: keep it)")
	f.BoolVar(&o.wait, "wait", false, "wait until it has ended, and say how far it is")
	_ = cmd.RegisterFlagCompletionFunc("machine", func(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		return completeObjects(env, flags, machineNames)(cmd, nil, text)
	})
	return cmd
}

// operation is what is asked for.
func (o *operationOptions) operation(name string) (*hostsv1.MachineOperation, error) {
	op := &hostsv1.MachineOperation{}
	op.GenerateName, op.Spec.OperationName = generateName(name), name
	switch {
	case (o.machine == "") == (o.selector == ""):
		return nil, usagef("name the machine with --machine, or machines with --selector")
	case o.machine != "":
		op.Spec.MachineRef = &hostsv1.MachineReference{Name: hostsv1.Label(o.machine)}
	default:
		selector, err := machineSelector(o.selector)
		if err != nil {
			return nil, err
		}
		op.Spec.MachineSelector = selector
	}
	switch {
	case o.concurrent < 0 || o.concurrent > 0 && o.selector == "":
		return nil, usagef("--max-concurrent goes with --selector, and is not below 0")
	case o.concurrent > 0:
		op.Spec.MaxConcurrent = &o.concurrent
	}
	switch seconds := int32(o.limit / time.Second); {
	case o.limit < 0 || o.limit > 0 && o.limit < time.Second || o.limit > 24*time.Hour:
		return nil, usagef("--operation-timeout %v is not from 1s to 24h", o.limit)
	case seconds > 0:
		op.Spec.TimeoutSeconds = &seconds
	}
	if o.ttl >= 0 {
		seconds := int32(min(o.ttl/time.Second, 1<<31-1)) //nolint:gosec // bounded by min
		op.Spec.TTLSecondsAfterFinished = &seconds
	}
	for _, parameter := range o.parameters {
		key, value, ok := strings.Cut(parameter, "=")
		if !ok || key == "" {
			return nil, usagef("--param %q is no KEY=VALUE", parameter)
		}
		if op.Spec.Parameters == nil {
			op.Spec.Parameters = map[string]hostsv1.ParameterValue{}
		}
		op.Spec.Parameters[key] = hostsv1.ParameterValue(value)
	}
	return op, nil
}

// generateName begins the name of the object of an operation.
func generateName(operation string) string {
	_, last, found := strings.Cut(operation, "/")
	if !found {
		last = operation
	}
	text := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		}
		return '-'
	}, last)
	if text = strings.Trim(text, "-"); text == "" {
		text = "operation"
	}
	return text + "-"
}

// machineSelector is a selector of labels in the form of an operation.
func machineSelector(text string) (*hostsv1.MachineSelector, error) {
	parsed, err := labels.Parse(text)
	if err != nil {
		return nil, usagef("--selector: %w", err)
	}
	s := &hostsv1.MachineSelector{}
	requirements, _ := parsed.Requirements()
	for _, r := range requirements {
		operator, known := map[selection.Operator]hostsv1.SelectorOperator{
			selection.In: hostsv1.SelectorIn, selection.Equals: hostsv1.SelectorIn, selection.DoubleEquals: hostsv1.SelectorIn,
			selection.NotIn: hostsv1.SelectorNotIn, selection.NotEquals: hostsv1.SelectorNotIn,
			selection.Exists: hostsv1.SelectorExists, selection.DoesNotExist: hostsv1.SelectorDoesNotExist,
		}[r.Operator()]
		if !known {
			return nil, usagef("--selector: operator %q is none that machines are selected by", r.Operator())
		}
		s.MatchExpressions = append(s.MatchExpressions, hostsv1.LabelExpression{Key: r.Key(), Operator: operator, Values: r.ValuesUnsorted()})
	}
	return s, nil
}

// errEnded ends the following of an operation that has ended.
var errEnded = errors.New("the operation has ended")

// waitForOperation follows an operation to its end, and says what changes.
func waitForOperation(ctx context.Context, env *Env, api *kubeclient.Client, op *hostsv1.MachineOperation) error {
	said := ""
	err := api.Follow(ctx, allOperations, func(c kubeclient.Change) error {
		is, ok := c.Object.(*hostsv1.MachineOperation)
		if !ok || is.UID != op.UID {
			return nil
		}
		ended := is.Status.State == hostsv1.OperationComplete || is.Status.State == hostsv1.OperationFailed
		if text := hostview.Progress(is); text != said {
			said = text
			fmt.Fprintf(env.Out, "operation %s: %s\n", is.Name, text)
		}
		switch {
		case is.Status.State == hostsv1.OperationFailed:
			return fmt.Errorf("operation %s failed: %s: %s", is.Name, is.Status.Reason, is.Status.Message)
		case ended:
			return errEnded
		case c.Type == watch.Deleted:
			return fmt.Errorf("operation %s was deleted before it had ended", is.Name)
		}
		return nil
	}, func(err error) {
		fmt.Fprintf(env.Err, "the watch has ended (%s), opening it again\n", text(err))
	}, named(op.Name))
	switch {
	case errors.Is(err, errEnded):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("operation %s goes on: %w", op.Name, context.Cause(ctx))
	}
	return err
}
