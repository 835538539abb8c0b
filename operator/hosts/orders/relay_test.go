package orders

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
)

// around is what a relay works with, as a test says.
type around struct {
	drained bool
	outcome *operations.Outcome
	failed  error
	known   bool // to the shard
	calls   []string
}

func (a *around) Drained(context.Context, *hostsv1.MachineOperation, *hostsv1.HostMachine) (bool, string, error) {
	a.calls = append(a.calls, "drain")
	return a.drained, "Node n1 is being drained", nil
}

func (a *around) End(*hostsv1.MachineOperation, time.Time) { a.calls = append(a.calls, "end") }

func (a *around) Carry(context.Context, *hostsv1.MachineOperation, *hostsv1.HostMachine) (*operations.Outcome, error) {
	a.calls = append(a.calls, "carry")
	return a.outcome, a.failed
}

func (a *around) Known(context.Context, *hostsv1.MachineOperation, *hostsv1.HostMachine) (bool, error) {
	a.calls = append(a.calls, "known")
	return a.known, a.failed
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestM76_WhatIsOffered: what the paver says, as long as its agent is connected.
func TestM76_WhatIsOffered(t *testing.T) {
	r := &Relay{}
	m := &hostsv1.HostMachine{}
	m.Spec.Instance = &hostsv1.InstanceReference{}
	m.Status.Executors = []hostsv1.Executor{{Name: "another", Operations: []string{"x"}}, {Name: hostsv1.ExecutorPaver, Operations: []string{"reboot"}}}
	if got := r.Offers(m); got != nil {
		t.Errorf("of a silent host: %q", got)
	}
	m.Status.Conditions = []metav1.Condition{{Type: hostsv1.ConditionAgentConnected, Status: metav1.ConditionTrue}}
	if got := r.Offers(m); !slices.Equal(got, []string{"reboot"}) {
		t.Errorf("%q", got)
	}
	m.Status.Executors = nil
	if got := r.Offers(m); got != nil {
		t.Errorf("of a paver of an earlier release: %q", got)
	}
}

// TestM79_HowOperationsOfHostsEnd: by their host's word, or by the provider's where the host is off; a drain that a
// reboot asks for comes before it, and ends with it.
func TestM79_HowOperationsOfHostsEnd(t *testing.T) {
	done := &operations.Outcome{Message: "done"}
	off := []metav1.Condition{{Type: hostsv1.ConditionProvisioned, Status: metav1.ConditionTrue, Reason: hostsv1.ReasonInstanceOff}}
	drain := map[string]hostsv1.ParameterValue{"drain": "true"}
	for _, c := range []struct {
		name, operation string
		parameters      map[string]hostsv1.ParameterValue
		around          around
		conditions      []metav1.Condition
		late            bool
		want            string // reason or message of the outcome; empty: it is not over
		calls           []string
	}{
		{"under way", "reboot", nil, around{}, nil, false, "", []string{"carry"}},
		{"the host says so", "reboot", nil, around{outcome: done}, nil, false, "done", []string{"carry"}},
		{"by its other name", "restart", drain, around{}, nil, false, "", []string{"known", "drain"}},
		{"with Pods", "reboot", drain, around{}, nil, false, "", []string{"known", "drain"}},
		{"drained", "reboot", drain, around{drained: true}, nil, false, "", []string{"known", "drain", "carry"}},
		{"back", "reboot", drain, around{known: true, outcome: done}, nil, false, "done", []string{"known", "carry", "end"}},
		{"Pods that do not go", "reboot", drain, around{}, nil, true, hostsv1.ReasonTimeout, []string{"known", "drain", "end"}},
		{"it reboots, and its Node is drained for something else by then", "reboot", drain, around{known: true}, nil, true, "", []string{"known", "carry"}},
		{"whether the shard has it is not known", "reboot", drain, around{failed: errors.New("away")}, nil, true, "away", []string{"known"}},
		{"another operation is not drained for", "restartMachine", drain, around{}, nil, false, "", []string{"carry"}},
		{"the shard is away", "reboot", nil, around{failed: errors.New("away")}, nil, false, "away", []string{"carry"}},
		{"the host is about to go down", "shutdown", nil, around{}, nil, false, "", []string{"carry"}},
		{"the instance is off", "shutdown", nil, around{}, off, false, "the provider says that the instance is off", nil},
		{"which proves nothing else", "reboot", nil, around{}, off, false, "", []string{"carry"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := now
			if c.late {
				at = now.Add(time.Hour)
			}
			r := &Relay{Shards: &c.around, Drains: &c.around, Now: func() time.Time { return at }}
			op, m := &hostsv1.MachineOperation{}, &hostsv1.HostMachine{}
			deadline := metav1.NewTime(now.Add(time.Minute))
			op.Spec.OperationName, op.Spec.Parameters, op.Status.Deadline, m.Status.Conditions = c.operation, c.parameters, &deadline, c.conditions
			outcome, err := r.Carry(t.Context(), op, m)
			got := ""
			switch {
			case err != nil:
				got = err.Error()
			case outcome != nil && outcome.Failed:
				got = outcome.Reason
			case outcome != nil:
				got = outcome.Message
			}
			if got != c.want || !slices.Equal(c.around.calls, c.calls) {
				t.Errorf("%q after %q, want %q after %q", got, c.around.calls, c.want, c.calls)
			}
		})
	}
}
