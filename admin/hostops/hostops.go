// Package hostops asks for operations on host machines, follows them to their end, and cancels them.
//
// It makes, reads and deletes MachineOperations, and leaves it to the operator to bring them about. How they look
// is what package hostview says.
package hostops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/admin/hostview"
	"nstance.dev/admin/kubeclient"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Request is what is asked for: an operation, on a machine or on those of a selector of labels. Zero fields are
// left to their defaults.
type Request struct {
	Operation         string
	Machine, Selector string        // one of them
	Parameters        []string      // as KEY=VALUE
	MaxConcurrent     int32         // with Selector
	Timeout           time.Duration // once it has begun
	// TTL is how long after its end the object is deleted; negative: it is kept.
	TTL time.Duration
}

// Object returns the operation to be made, and what is wrong with the request.
func (r Request) Object() (*hostsv1.MachineOperation, error) {
	op := &hostsv1.MachineOperation{}
	op.GenerateName, op.Spec.OperationName = generateName(r.Operation), r.Operation
	switch {
	case (r.Machine == "") == (r.Selector == ""):
		return nil, errors.New("name the machine with --machine, or machines with --selector")
	case r.Machine != "":
		op.Spec.MachineRef = &hostsv1.MachineReference{Name: hostsv1.Label(r.Machine)}
	default:
		selector, err := machineSelector(r.Selector)
		if err != nil {
			return nil, err
		}
		op.Spec.MachineSelector = selector
	}
	switch {
	case r.MaxConcurrent < 0 || r.MaxConcurrent > 0 && r.Selector == "":
		return nil, errors.New("--max-concurrent goes with --selector, and is not below 0")
	case r.MaxConcurrent > 0:
		op.Spec.MaxConcurrent = &r.MaxConcurrent
	}
	switch seconds := int32(r.Timeout / time.Second); { //nolint:gosec // bounded below
	case r.Timeout < 0 || r.Timeout > 0 && r.Timeout < time.Second || r.Timeout > 24*time.Hour:
		return nil, fmt.Errorf("--operation-timeout %v is not from 1s to 24h", r.Timeout)
	case seconds > 0:
		op.Spec.TimeoutSeconds = &seconds
	}
	if r.TTL >= 0 {
		seconds := int32(min(r.TTL/time.Second, 1<<31-1)) //nolint:gosec // bounded by min
		op.Spec.TTLSecondsAfterFinished = &seconds
	}
	for _, parameter := range r.Parameters {
		key, value, ok := strings.Cut(parameter, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--param %q is no KEY=VALUE", parameter)
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
		return nil, fmt.Errorf("--selector: %w", err)
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
			return nil, fmt.Errorf("--selector: operator %q must be one of =, ==, !=, in, notin, exists and does-not-exist", r.Operator())
		}
		s.MatchExpressions = append(s.MatchExpressions, hostsv1.LabelExpression{Key: r.Key(), Operator: operator, Values: r.ValuesUnsorted()})
	}
	return s, nil
}

// errEnded ends the following of an operation that has ended.
var errEnded = errors.New("the operation has ended")

// Wait follows an operation to its end, and says what changes. Trouble hears of watches that break. An operation that has failed
// is an error.
func Wait(ctx context.Context, out io.Writer, trouble func(error), api *kubeclient.Client, op *hostsv1.MachineOperation) error {
	said := ""
	err := api.Follow(ctx, func() client.ObjectList { return &hostsv1.MachineOperationList{} }, func(c kubeclient.Change) error {
		is, ok := c.Object.(*hostsv1.MachineOperation)
		if !ok || is.UID != op.UID {
			return nil
		}
		ended := is.Status.State == hostsv1.OperationComplete || is.Status.State == hostsv1.OperationFailed
		if text := hostview.Progress(is); text != said {
			said = text
			fmt.Fprintf(out, "operation %s: %s\n", is.Name, text)
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
	}, trouble, client.MatchingFields{"metadata.name": op.Name})
	switch {
	case errors.Is(err, errEnded):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("operation %s goes on: %w", op.Name, context.Cause(ctx))
	}
	return err
}

// Cancel deletes an operation that is not claimed; of one on a selector, those that are not. A dry run has the API
// server look whether it could.
func Cancel(ctx context.Context, out io.Writer, api *kubeclient.Client, name string, dry bool) error {
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
	var opts []client.DeleteOption
	text := "cancelled"
	if dry {
		opts, text = []client.DeleteOption{client.DryRunAll}, "would be cancelled (dry run: nothing was done)"
	}
	if err := api.DeleteUnchanged(ctx, op, opts...); err != nil {
		return fmt.Errorf("operation %s: %w", name, err)
	}
	if c := op.Status.Children; c != nil && c.InProgress > 0 {
		text += fmt.Sprintf("; on %d machines it is in progress, and goes on", c.InProgress)
	}
	fmt.Fprintf(out, "operation %s: %s\n", name, text)
	return nil
}
