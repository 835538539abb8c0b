package operations

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type change = func(*hostsv1.MachineOperation)

// operation returns one that was made ago, on machine box.
func operation(name, operationName string, ago time.Duration, changes ...change) *hostsv1.MachineOperation {
	op := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now.Add(-ago))}}
	op.Spec.OperationName, op.Spec.MachineRef = operationName, &hostsv1.MachineReference{Name: "box"}
	for _, c := range changes {
		c(op)
	}
	return op
}

func state(s hostsv1.OperationState) change {
	return func(op *hostsv1.MachineOperation) { op.Status.State = s }
}

func label(executor string) change {
	return func(op *hostsv1.MachineOperation) { op.Labels = map[string]string{hostsv1.LabelExecutor: executor} }
}

func parameter(key, value string) change {
	return func(op *hostsv1.MachineOperation) {
		if op.Spec.Parameters == nil {
			op.Spec.Parameters = map[string]hostsv1.ParameterValue{}
		}
		op.Spec.Parameters[key] = hostsv1.ParameterValue(value)
	}
}

func timeout(seconds int32) change {
	return func(op *hostsv1.MachineOperation) { op.Spec.TimeoutSeconds = &seconds }
}

func claimedAgo(executor string, ago time.Duration) change {
	return func(op *hostsv1.MachineOperation) {
		start := metav1.NewTime(now.Add(-ago))
		op.Status.State, op.Status.Executor, op.Status.StartTime = hostsv1.OperationInProgress, executor, &start
		label(executor)(op)
	}
}

func waitsAgo(reason string, ago time.Duration) change {
	return func(op *hostsv1.MachineOperation) {
		op.Status.State = hostsv1.OperationPending
		op.Status.Conditions = append(op.Status.Conditions, metav1.Condition{
			Type: hostsv1.ConditionClaimed, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-ago)),
		})
	}
}

func finishedAgo(s hostsv1.OperationState, ttl int32, ago time.Duration) change {
	return func(op *hostsv1.MachineOperation) {
		end := metav1.NewTime(now.Add(-ago))
		op.Status.State, op.Status.Reason, op.Status.CompletionTime = s, hostsv1.ReasonSucceeded, &end
		if ttl >= 0 {
			op.Spec.TTLSecondsAfterFinished = &ttl
		}
	}
}

func box(changes ...func(*Machine)) Machine {
	m := Machine{Found: true, Name: "box", UID: "uid-box", Executors: []hostsv1.Executor{
		{Name: "paver", Operations: []string{"reboot", "shutdown", "restartService", "resetHost", "collectLogs"}},
		{Name: "provider", Operations: []string{"powerCycle", "powerOff", "reboot"}},
		{Name: "tracer", Operations: []string{"packetCapture", "shutdown"}},
	}}
	for _, c := range changes {
		c(&m)
	}
	return m
}

// decision is what is looked at of a Decision, in one line.
func decision(d Decision) string {
	if d.Delete {
		return "delete"
	}
	line := string(d.Status.State) + "/" + d.Status.Reason
	if d.Executor != "" {
		line += " by " + d.Executor
	}
	if d.After > 0 {
		line += " until " + d.After.String()
	}
	return line
}

func TestDecide(t *testing.T) {
	paused := func(m *Machine) { m.Paused = true }
	repaving := func(m *Machine) { m.Repaving = "Join" }
	bare := func(m *Machine) { m.Executors = nil }
	absent := func(m *Machine) { m.Found = false; m.Executors = nil }
	replaced := func(m *Machine) { m.UID = "uid-other" }
	day := 24 * time.Hour
	parent := operation("all", "reboot", 0)
	child := Child(parent, &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "box", UID: "uid-box"}})
	child.CreationTimestamp = metav1.NewTime(now)
	for _, tt := range []struct {
		name    string
		op      *hostsv1.MachineOperation
		machine Machine
		others  []*hostsv1.MachineOperation
		parent  *Parent
		busy    string
		full    bool
		want    string
	}{
		{name: "M71: one without a state is pending, and may be taken", op: operation("a", "reboot", 0), machine: box(), want: "Pending/Offered by paver until 24h0m0s"},
		{name: "M76: of those who offer a predefined name only its own executor is meant", op: operation("a", "powerCycle", 0), machine: box(), want: "Pending/Offered by provider until 24h0m0s"},
		{name: "M76: a custom name goes to who offers it", op: operation("a", "packetCapture", 0), machine: box(), want: "Pending/Offered by tracer until 24h0m0s"},
		{name: "restart is another word for reboot", op: operation("a", "restart", 0), machine: box(), want: "Pending/Offered by paver until 24h0m0s"},
		{name: "M76: nobody offers a predefined name", op: operation("a", "reboot", 3*time.Minute, waitsAgo("NoExecutor", 3*time.Minute)), machine: box(bare), want: "Pending/NoExecutor until 7m0s"},
		{name: "M76: nor after ten minutes", op: operation("a", "reboot", time.Hour, waitsAgo("NoExecutor", 10*time.Minute)), machine: box(bare), want: "Failed/NoExecutor"},
		{name: "M76: the ten minutes begin when nobody offers it", op: operation("a", "reboot", time.Hour, waitsAgo("Queued", time.Hour)), machine: box(bare), want: "Pending/NoExecutor until 10m0s"},
		{name: "M76: nobody offers a custom name within its time-out", op: operation("a", "example.com/x", time.Hour, timeout(7200)), machine: box(), want: "Pending/NoExecutor until 1h0m0s"},
		{name: "M78: nor after it", op: operation("a", "example.com/x", 2*time.Hour, timeout(7200)), machine: box(), want: "Failed/Expired"},
		{name: "a machine that is not there offers nothing", op: operation("a", "reboot", 0), machine: box(absent), want: "Pending/NoExecutor until 10m0s"},
		{name: "M77: the older one comes first", op: operation("b", "reboot", 0), machine: box(), others: []*hostsv1.MachineOperation{operation("a", "reboot", time.Second)}, want: "Pending/Queued until 24h0m0s"},
		{name: "M77: of two that are as old the name decides", op: operation("b", "reboot", 0), machine: box(), others: []*hostsv1.MachineOperation{operation("c", "reboot", 0)}, want: "Pending/Offered by paver until 24h0m0s"},
		{name: "M77: a younger one that is under way comes first", op: operation("b", "reboot", time.Hour), machine: box(), others: []*hostsv1.MachineOperation{operation("c", "powerCycle", 0, claimedAgo("provider", 0))}, want: "Pending/Queued until 23h0m0s"},
		{name: "M77: a younger one that may be taken already comes first", op: operation("b", "reboot", time.Hour), machine: box(), others: []*hostsv1.MachineOperation{operation("c", "reboot", 0, state("Pending"), label("paver"))}, want: "Pending/Queued until 23h0m0s"},
		{name: "M77: one that has finished holds nobody up", op: operation("b", "reboot", 0), machine: box(), others: []*hostsv1.MachineOperation{operation("a", "reboot", time.Hour, finishedAgo("Failed", -1, 0))}, want: "Pending/Offered by paver until 24h0m0s"},
		{name: "M77: one that nobody offers holds nobody up", op: operation("b", "reboot", 0), machine: box(), others: []*hostsv1.MachineOperation{operation("a", "example.com/x", time.Hour)}, want: "Pending/Offered by paver until 24h0m0s"},
		{name: "M77: what the cache does not show yet counts", op: operation("b", "reboot", 0), machine: box(), busy: "a", want: "Pending/Queued until 24h0m0s"},
		{name: "M77: a repave comes first", op: operation("a", "reboot", 0), machine: box(repaving), want: "Pending/Repaving until 24h0m0s"},
		{name: "M77: but not where power is forced", op: operation("a", "powerOff", 0, parameter("force", "true")), machine: box(repaving), want: "Pending/Offered by provider until 24h0m0s"},
		{name: "M83: a machine that is paused", op: operation("a", "reboot", 0), machine: box(paused), want: "Pending/Paused until 24h0m0s"},
		{name: "M83: force is no parameter of reboot", op: operation("a", "reboot", 0, parameter("force", "true")), machine: box(paused), want: "Failed/InvalidParameters"},
		{name: "M83: power that is forced does not wait for a pause", op: operation("a", "powerCycle", 0, parameter("force", "true")), machine: box(paused), want: "Pending/Offered by provider until 24h0m0s"},
		{name: "M83: what may be taken may not be once the machine is paused", op: operation("a", "reboot", 0, state("Pending"), label("paver")), machine: box(paused), want: "Pending/Paused until 24h0m0s"},
		{name: "M83: one that is under way goes on", op: operation("a", "reboot", time.Minute, claimedAgo("paver", time.Minute)), machine: box(paused), want: "InProgress/ by paver until 10m0s"},
		{name: "M78: nobody has taken it for a day", op: operation("a", "reboot", day), machine: box(paused), want: "Failed/Expired"},
		{name: "M78: the deadline is the start and the time-out", op: operation("a", "reboot", day, claimedAgo("paver", 4*time.Minute), timeout(300)), machine: box(), want: "InProgress/ by paver until 2m0s"},
		{name: "M78: the executor says nothing until a minute after it", op: operation("a", "reboot", day, claimedAgo("paver", 11*time.Minute)), machine: box(), want: "Failed/ExecutorLost by paver"},
		{name: "M82: the machine is another one of the same name", op: operation("a", "reboot", 0, func(op *hostsv1.MachineOperation) { op.Status.MachineUID = "uid-box" }), machine: box(replaced), want: "Failed/MachineReplaced"},
		{name: "M82: also while it is under way", op: operation("a", "reboot", 0, claimedAgo("paver", 0), func(op *hostsv1.MachineOperation) { op.Status.MachineUID = "uid-box" }), machine: box(replaced), want: "Failed/MachineReplaced by paver"},
		{name: "M82: a child's machine is the one that the selector matched", op: child, machine: box(), parent: &Parent{Begun: true}, want: "Pending/Offered by paver until 24h0m0s"},
		{name: "M82: also where it was replaced before the first look at the child", op: child, machine: box(replaced), parent: &Parent{Begun: true}, want: "Failed/MachineReplaced"},
		{name: "M81: a parameter that is none", op: operation("a", "reboot", 0, parameter("speed", "1")), machine: box(), want: "Failed/InvalidParameters"},
		{name: "M81: a custom name takes any", op: operation("a", "packetCapture", 0, parameter("speed", "$(id)")), machine: box(), want: "Pending/Offered by tracer until 24h0m0s"},
		{name: "M80: without a time to live it stays", op: operation("a", "reboot", day, finishedAgo("Complete", -1, 20*time.Hour)), machine: box(), want: "Complete/Succeeded"},
		{name: "M80: its time to live", op: operation("a", "reboot", day, finishedAgo("Complete", 60, 20*time.Second)), machine: box(), want: "Complete/Succeeded until 40s"},
		{name: "M80: is over", op: operation("a", "reboot", day, finishedAgo("Failed", 60, time.Minute)), machine: box(), want: "delete"},
		{name: "M80: a time to live of nothing", op: operation("a", "reboot", day, finishedAgo("Complete", 0, 0)), machine: box(), want: "delete"},
		{name: "M73: none begins before all are made", op: operation("a", "reboot", 0), machine: box(), parent: &Parent{}, want: "Pending/NotBegun until 24h0m0s"},
		{name: "M74: as many are under way as may", op: operation("a", "reboot", 0), machine: box(), parent: &Parent{Begun: true, Limit: 2}, full: true, want: "Pending/Limited until 24h0m0s"},
		{name: "M74: the parent has ended", op: operation("a", "reboot", 0), machine: box(), parent: &Parent{Finished: true}, want: "Failed/Cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := Input{Operation: tt.op, Machine: tt.machine, Parent: tt.parent, Others: append(tt.others, tt.op), Busy: tt.busy, Full: tt.full}
			d := Decide(in, now)
			if got := decision(d); got != tt.want {
				t.Errorf("got  %s\nwant %s\n(%s)", got, tt.want, d.Status.Message)
			}
			if !MayFollow(tt.op.Status.State, d.Status.State) {
				t.Errorf("from %q to %q", tt.op.Status.State, d.Status.State)
			}
		})
	}
}

// M81: what each predefined operation takes, and what it does not.
func TestM81_Parameters(t *testing.T) {
	for _, tt := range []struct {
		operation, key, value, want string
	}{
		{"reboot", "graceSeconds", "30", ""},
		{"reboot", "graceSeconds", "-1", "must be a number of seconds"},
		{"reboot", "drain", "yes", "must be one of true, false"},
		{"restartService", "service", "kubelet.service", ""},
		{"restartService", "service", "kubelet;reboot", "must be the name of a systemd unit"},
		{"restartService", "service", "docker.socket", ""},
		{"restartService", "service", "poweroff.target", "must be a service, socket or timer"},
		{"restartService", "service", "--now", "must be the name of a systemd unit"},
		{"restartService", "scope", "host", "service is missing"},
		{"resetHost", "confirm", "box", ""},
		{"resetHost", "confirm", "other", "must be the name of the machine"},
		{"repave", "version", "12", ""},
		{"repave", "version", "v12", "must be the number of a version"},
		{"collectLogs", "since", "2h", ""},
		{"collectLogs", "since", "2026-03-01T08:00:00Z", ""},
		{"collectLogs", "since", "yesterday", "must be a duration"},
		{"collectLogs", "units", "kubelet.service,containerd.service", ""},
		{"collectLogs", "units", "a b", "must be the name of a systemd unit"},
		{"powerOff", "mode", "gentle", "must be one of graceful, hard"},
		{"powerOff", "mode", "graceful", ""},
		{"powerCycle", "mode", "hard", ""},
		{"powerCycle", "mode", "graceful", "must be one of hard"},
		{"applyConfiguration", "force", "true", "takes no parameter"},
	} {
		err := CheckParameters(operation("a", tt.operation, 0, parameter(tt.key, tt.value)), "box")
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s=%s: %v, want %q", tt.operation, tt.key, tt.value, err, tt.want)
		}
	}
	for _, name := range Names() {
		if p, ok := Known(name); !ok || p.Executor == "" || p.Timeout <= 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// M75, M71: an operation is claimed by the executor that its label names, once, and what has finished stays so.
func TestM71M75_ClaimAndFinish(t *testing.T) {
	op := operation("a", "packetCapture", 0, state("Pending"))
	if _, err := Claim(op, "tracer", now); !errors.Is(err, ErrNotYours) {
		t.Errorf("claimed without a label: %v", err)
	}
	label("tracer")(op)
	if _, err := Claim(op, "other", now); !errors.Is(err, ErrNotYours) {
		t.Errorf("claimed by another one: %v", err)
	}
	next, err := Claim(op, "tracer", now)
	if err != nil || next.Attempts != 1 || !next.Deadline.Equal(ptr(now.Add(10*time.Minute))) {
		t.Fatalf("%+v, %v", next, err)
	}
	op.Status = next
	if _, err := Claim(op, "tracer", now); !errors.Is(err, ErrNotYours) {
		t.Errorf("claimed twice: %v", err)
	}
	if _, err := Finish(op, "other", Outcome{}, now); !errors.Is(err, ErrNotYours) {
		t.Errorf("ended by another one: %v", err)
	}
	results := map[string]string{"long": strings.Repeat("ä", MaxResult), strings.Repeat("k", 64): "x"}
	for i := range MaxResults + 5 {
		results[fmt.Sprintf("a%02d", i)] = "x"
	}
	if op.Status, err = Finish(op, "tracer", Outcome{Results: results, Message: strings.Repeat("m", 2*MaxMessage)}, now); err != nil {
		t.Fatal(err)
	}
	if s := op.Status; s.State != hostsv1.OperationComplete || len(s.Results) != MaxResults || len(s.Message) != MaxMessage || s.CompletionTime == nil {
		t.Errorf("%+v", s)
	}
	if _, err := Finish(op, "tracer", Outcome{Failed: true}, now); !errors.Is(err, ErrNotYours) {
		t.Errorf("ended twice: %v", err)
	}
}

func ptr(at time.Time) *metav1.Time { t := metav1.NewTime(at); return &t }
