package hostview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

type operation = *hostsv1.MachineOperation

// Operations are the columns of MachineOperations.
func Operations(now func() time.Time) output.View[*hostsv1.MachineOperation] {
	type column = output.Column[operation]
	return output.View[operation]{
		Name: operation.GetName,
		Columns: []column{
			{Header: "OPERATION", Value: operation.GetName},
			{Header: "NAME", Value: func(o operation) string { return o.Spec.OperationName }},
			{Header: "MACHINE", Value: on},
			{Header: "STATE", Value: OperationState},
			{Header: "REASON", Value: func(o operation) string { return o.Status.Reason }},
			{Header: "EXECUTOR", Value: func(o operation) string { return o.Status.Executor }},
			{Header: "AGE", Value: func(o operation) string { return output.Age(o.CreationTimestamp.Time, now()) }},
			{Header: "STARTED", Wide: true, Value: func(o operation) string { return clock(o.Status.StartTime) }},
			{Header: "FINISHED", Wide: true, Value: func(o operation) string { return clock(o.Status.CompletionTime) }},
			{Header: "DONE", Wide: true, Value: done},
			{Header: "MESSAGE", Wide: true, Value: func(o operation) string { return o.Status.Message }},
		},
	}
}

// OperationState is the state of an operation; one that nobody has looked at is pending.
func OperationState(o *hostsv1.MachineOperation) string {
	if o.Status.State == "" {
		return string(hostsv1.OperationPending)
	}
	return string(o.Status.State)
}

// on is the machine of an operation; those of a selector in angle brackets.
func on(o operation) string {
	if o.Spec.MachineRef != nil {
		return string(o.Spec.MachineRef.Name)
	}
	if c := o.Status.Children; c != nil {
		return fmt.Sprintf("<%d machines>", c.Total)
	}
	return "<selector>"
}

// done says how many of the machines of a selector are done; empty: it has none.
func done(o operation) string {
	if c := o.Status.Children; c != nil {
		return fmt.Sprintf("%d/%d", c.Complete+c.Failed, c.Total)
	}
	return ""
}

// Progress is how far an operation is, on one line.
func Progress(o *hostsv1.MachineOperation) string {
	text := OperationState(o)
	if o.Status.Reason != "" {
		text += "/" + o.Status.Reason
	}
	if c := o.Status.Children; c != nil {
		text += fmt.Sprintf(": %d of %d done, %d in progress, %d failed", c.Complete+c.Failed, c.Total, c.InProgress, c.Failed)
	}
	if o.Status.Message != "" {
		text += ": " + o.Status.Message
	}
	return text
}

// Operation describes an operation, with those that were made for the machines of its selector.
func Operation(o *hostsv1.MachineOperation, children []hostsv1.MachineOperation, now time.Time) []Line {
	p := &page{now: now}
	p.line(0, "operation %s: %s on %s, %s, %s old", o.Name, o.Spec.OperationName, on(o), Progress(o), p.age(o.CreationTimestamp))
	for _, key := range sorted(o.Spec.Parameters) {
		p.line(1, "parameter %s=%s", key, o.Spec.Parameters[key])
	}
	if s := o.Status; s.Executor != "" {
		p.line(1, "executor %s, attempt %d%s", s.Executor, s.Attempts, until(s.Deadline, s.CompletionTime))
	}
	for _, key := range sorted(o.Status.Results) {
		p.line(1, "result %s=%s", key, o.Status.Results[key])
	}
	if o.Status.Children != nil {
		slices.SortFunc(children, func(a, b hostsv1.MachineOperation) int { return strings.Compare(a.Name, b.Name) })
		var lines []string
		for i := range children {
			if c := &children[i]; c.Status.State != hostsv1.OperationComplete {
				lines = append(lines, fmt.Sprintf("%s on %s: %s", c.Name, on(c), Progress(c)))
			}
		}
		p.some("operations of its machines that are not complete", lines)
		p.line(1, "complete: %d of %d", o.Status.Children.Complete, o.Status.Children.Total)
	}
	p.conditions(1, o.Status.Conditions)
	return p.lines
}

// until says until when an operation has time, or when it had finished.
func until(deadline, end *metav1.Time) string {
	switch {
	case end != nil:
		return ", finished " + clock(end)
	case deadline != nil:
		return ", until " + clock(deadline)
	}
	return ""
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
