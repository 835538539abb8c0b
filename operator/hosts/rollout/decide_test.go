package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/rollout"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// old is a machine that runs version 1 since a while, and is ready.
func old(name string, since time.Duration, with ...func(*rollout.Machine)) rollout.Machine {
	m := rollout.Machine{Name: name, Follows: true, Applied: version(1), AppliedAt: ago(since), Node: name + "-1", ReadySince: ago(since)}
	for _, f := range with {
		f(&m)
	}
	return m
}

// updated is a machine that runs version 2.
func updated(name string, with ...func(*rollout.Machine)) rollout.Machine {
	m := old(name, time.Hour, with...)
	m.Applied = version(2)
	return m
}

func down(m *rollout.Machine) { m.Down, m.ReadySince = "its Node is not ready", time.Time{} }

// begun is a machine at a stage of the rollout to a version.
func begun(to int32, stage hostsv1.RolloutStage, since, until time.Duration) func(*rollout.Machine) {
	return func(m *rollout.Machine) {
		start, end := metav1.NewTime(ago(since)), metav1.NewTime(now.Add(until))
		m.Rollout = &hostsv1.MachineRollout{VersionReference: version(to), Stage: stage, NodeUID: m.Node, StartedAt: &start, Until: &end}
	}
}

// replaced is a machine whose Node is another one than when it was begun.
func replaced(m *rollout.Machine) { m.Node = m.Name + "-2" }

func failed(v int32, since time.Duration) func(*rollout.Machine) {
	return func(m *rollout.Machine) { m.Failed, m.FailedAt = version(v), ago(since) }
}

func leaves(m *rollout.Machine) {
	m.Leaves, m.Down = "its instance is condemned: expired", "its instance is condemned: expired"
}

// strategy is a rollout that may take two machines at once.
func strategy(with ...func(*rollout.Strategy)) rollout.Strategy {
	s := rollout.Strategy{Rolling: true, MaxUnavailable: intstr.FromInt32(2), DrainTimeout: 10 * time.Minute, MinReady: 30 * time.Second, MaxFailures: 1}
	for _, f := range with {
		f(&s)
	}
	return s
}

func percent(text string) func(*rollout.Strategy) {
	return func(s *rollout.Strategy) { s.MaxUnavailable = intstr.FromString(text) }
}

// steps writes steps in a row: "begin a; finish b".
func steps(d rollout.Decision) string {
	var all []string
	for _, s := range d.Steps {
		all = append(all, fmt.Sprintf("%s %s", s.Action, s.Machine))
	}
	return strings.Join(all, "; ")
}

// M65 to M70, M94, M96: what a rollout does next, over what it finds.
func TestDecide(t *testing.T) {
	night := []hostsv1.Window{{Cron: "0 2 * * *", Duration: "1h"}}
	three := []rollout.Machine{old("a", time.Hour), old("b", 3*time.Hour), old("c", 2*time.Hour)}
	for _, tt := range []struct {
		name     string
		strategy rollout.Strategy
		progress rollout.Progress
		bad      time.Time
		unsynced bool
		machines []rollout.Machine
		steps    string
		rolling  string // reason, and whether it is true
		halted   string // reason; empty: it has not
	}{
		{name: "M65: OnDelete does nothing", strategy: strategy(func(s *rollout.Strategy) { s.Rolling = false }), machines: three, rolling: "OnDelete false"},
		{name: "M66, M67: the oldest first, as many as may be", strategy: strategy(), machines: three, steps: "begin b; begin c", rolling: "RollingOut true"},
		{name: "M67: by name where they are of one age", strategy: strategy(), machines: []rollout.Machine{old("b", time.Hour), old("a", time.Hour), old("c", time.Hour)}, steps: "begin a; begin b", rolling: "RollingOut true"},
		{name: "M66: a percentage is rounded down", strategy: strategy(percent("66%")), machines: three, steps: "begin b", rolling: "RollingOut true"},
		{name: "M66: and is one at least", strategy: strategy(percent("1%")), machines: three, steps: "begin b", rolling: "RollingOut true"},
		{name: "M67: what is down anyway counts", strategy: strategy(), machines: append([]rollout.Machine{updated("x", down)}, three...), steps: "begin b", rolling: "RollingOut true"},
		{name: "M67: what is down leaves no room", strategy: strategy(), machines: append([]rollout.Machine{updated("x", down), updated("y", down)}, three...), rolling: "Blocked false"},
		{name: "M67: a broken one that is outdated comes first, and takes nothing away", strategy: strategy(), machines: append([]rollout.Machine{old("z", time.Minute, down), updated("y", down)}, three...), steps: "begin z", rolling: "RollingOut true"},
		{name: "M66: one that names its version is none of ours", strategy: strategy(), machines: []rollout.Machine{old("a", time.Hour, func(m *rollout.Machine) { m.Follows = false })}, rolling: "UpToDate false"},
		{name: "M66: nothing is outdated", strategy: strategy(), machines: []rollout.Machine{updated("a"), updated("b")}, rolling: "UpToDate false"},
		{name: "the newest version is still being written", strategy: strategy(), unsynced: true, machines: three, rolling: "Writing false"},
		{name: "M69: a Node that is drained is deleted", strategy: strategy(), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutDraining, time.Minute, time.Minute), func(m *rollout.Machine) { m.Drained = true })}, steps: "replace a", rolling: "RollingOut true"},
		{name: "M69: Pods that stay are left alone when the time is over", strategy: strategy(), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutDraining, 10*time.Minute, 0))}, steps: "skip a", rolling: "Blocked false"},
		{name: "M69: the next one has its turn", strategy: strategy(percent("50%")), machines: []rollout.Machine{old("a", 2*time.Hour, begun(2, hostsv1.RolloutDraining, 10*time.Minute, 0)), old("b", time.Hour)}, steps: "skip a; begin b", rolling: "RollingOut true"},
		{name: "M69: it is tried again later", strategy: strategy(), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutSkipped, time.Hour, -time.Second))}, steps: "begin a", rolling: "RollingOut true"},
		{name: "M69: and not before", strategy: strategy(), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutSkipped, time.Hour, time.Second))}, rolling: "Blocked false"},
		{name: "M67: a machine is done when it has been ready for a while", strategy: strategy(), machines: []rollout.Machine{updated("a", begun(2, hostsv1.RolloutRepaving, time.Hour, 0), replaced)}, steps: "finish a", rolling: "UpToDate false"},
		{name: "M67: and not before", strategy: strategy(percent("1%")), machines: []rollout.Machine{updated("a", begun(2, hostsv1.RolloutRepaving, time.Hour, 0), replaced, func(m *rollout.Machine) { m.ReadySince = ago(29 * time.Second) }), old("b", time.Hour)}, rolling: "RollingOut true"},
		{name: "M67: one that is done makes room at once", strategy: strategy(percent("1%")), machines: []rollout.Machine{updated("a", begun(2, hostsv1.RolloutRepaving, time.Hour, 0), replaced), old("b", time.Hour)}, steps: "finish a; begin b", rolling: "RollingOut true"},
		{name: "M68: a machine that was begun is brought to its version, though there is a newer one", strategy: strategy(percent("1%")), machines: []rollout.Machine{old("a", time.Hour, begun(1, hostsv1.RolloutRepaving, time.Minute, 0), func(m *rollout.Machine) { m.Node, m.ReadySince = "", time.Time{} }), old("b", time.Hour)}, rolling: "RollingOut true"},
		{name: "M68: as many failures as may be halt it", strategy: strategy(), machines: []rollout.Machine{old("a", time.Hour, failed(2, time.Minute)), old("b", time.Hour)}, rolling: "Halted false", halted: "MaxFailures"},
		{name: "M68: fewer do not", strategy: strategy(func(s *rollout.Strategy) { s.MaxFailures = 2 }), machines: []rollout.Machine{old("a", time.Hour, failed(2, time.Minute)), old("b", time.Hour)}, steps: "begin b", rolling: "RollingOut true"},
		{name: "M68: failures of another version are none", strategy: strategy(), machines: []rollout.Machine{old("a", 2*time.Hour, failed(3, time.Minute)), old("b", time.Hour)}, steps: "begin a; begin b", rolling: "RollingOut true"},
		{name: "M68: a version that is bad halts it", strategy: strategy(), bad: ago(time.Minute), machines: three, rolling: "Halted false", halted: "VersionUnhealthy"},
		{name: "M68: what is drained when it halts is left as it was", strategy: strategy(), bad: ago(time.Minute), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutDraining, time.Minute, time.Minute))}, steps: "abandon a", rolling: "Halted false", halted: "VersionUnhealthy"},
		{name: "M68: it stays so when the failure is gone", strategy: strategy(), progress: rollout.Progress{Target: 2, StartedAt: ago(time.Hour), Halted: "MaxFailures", HaltedWhy: "1 of 1"}, machines: three, rolling: "Halted false", halted: "MaxFailures"},
		{name: "M68: the next version has not halted", strategy: strategy(), progress: rollout.Progress{Target: 1, StartedAt: ago(time.Hour), Halted: "MaxFailures", HaltedWhy: "1 of 1"}, machines: three, steps: "begin b; begin c", rolling: "RollingOut true"},
		{name: "M68: a user resumes it, and failures of before count no more", strategy: strategy(func(s *rollout.Strategy) { s.Resume = true }), bad: ago(time.Hour), progress: rollout.Progress{Target: 2, StartedAt: ago(time.Hour), Halted: "MaxFailures", HaltedWhy: "1 of 1"}, machines: []rollout.Machine{old("a", time.Hour, failed(2, time.Minute)), old("b", time.Minute)}, steps: "begin a; begin b", rolling: "RollingOut true"},
		{name: "M68: a failure after that halts it again", strategy: strategy(), progress: rollout.Progress{Target: 2, StartedAt: ago(time.Hour), ResumedAt: ago(10 * time.Minute)}, machines: []rollout.Machine{old("a", time.Hour, failed(2, time.Minute))}, rolling: "Halted false", halted: "MaxFailures"},
		{name: "M68: a machine that was begun and failed is done with", strategy: strategy(func(s *rollout.Strategy) { s.MaxFailures = 5 }), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutRepaving, time.Hour, 0), replaced, failed(2, time.Minute))}, steps: "fail a", rolling: "Blocked false"},
		{name: "M70: a VM that is about to go is not repaved, and counts", strategy: strategy(), machines: append([]rollout.Machine{old("x", 9*time.Hour, leaves)}, three...), steps: "begin b", rolling: "RollingOut true"},
		{name: "M70: what was begun with it is left as it was", strategy: strategy(), machines: []rollout.Machine{old("x", time.Hour, begun(2, hostsv1.RolloutDraining, time.Minute, time.Minute), leaves)}, steps: "abandon x", rolling: "Blocked false"},
		{name: "M70: a machine of a group that rotates waits", strategy: strategy(), machines: []rollout.Machine{old("a", time.Hour, func(m *rollout.Machine) { m.Waits = "its group is replacing instance y" })}, rolling: "Blocked false"},
		{name: "M94: the configuration is paused", strategy: strategy(func(s *rollout.Strategy) { s.ConfigurationPaused = true }), machines: three, rolling: "ConfigurationPaused false"},
		{name: "M94: the rollout is", strategy: strategy(func(s *rollout.Strategy) { s.Paused = true }), machines: three, rolling: "Paused false"},
		{name: "M94: what was begun is finished", strategy: strategy(func(s *rollout.Strategy) { s.Paused = true }), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutDraining, time.Minute, time.Minute), func(m *rollout.Machine) { m.Drained = true })}, steps: "replace a", rolling: "Paused false"},
		{name: "M96: no window is open", strategy: strategy(func(s *rollout.Strategy) { s.Windows = night }), machines: three, rolling: "OutsideWindow false"},
		{name: "M96: what was begun is finished", strategy: strategy(func(s *rollout.Strategy) { s.Windows = night }), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutDraining, time.Minute, time.Minute), func(m *rollout.Machine) { m.Drained = true }), old("b", time.Hour)}, steps: "replace a", rolling: "OutsideWindow false"},
		{name: "M96: one that cannot be read", strategy: strategy(func(s *rollout.Strategy) { s.Windows = []hostsv1.Window{{Cron: "soon", Duration: "1h"}} }), machines: three, rolling: "InvalidWindow false"},
		{name: "the strategy becomes OnDelete while a Node is drained", strategy: strategy(func(s *rollout.Strategy) { s.Rolling = false }), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutDraining, time.Minute, time.Minute))}, steps: "abandon a", rolling: "OnDelete false"},
		{name: "a user pins a machine while its Node is drained", strategy: strategy(), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutDraining, time.Minute, time.Minute), func(m *rollout.Machine) { m.Follows = false })}, steps: "abandon a", rolling: "UpToDate false"},
		{name: "a crash between the write and the deletion", strategy: strategy(), machines: []rollout.Machine{old("a", time.Hour, begun(2, hostsv1.RolloutRepaving, time.Minute, 0))}, steps: "delete node a", rolling: "RollingOut true"},
		{name: "a machine that never had a Node is paved, not rolled", strategy: strategy(), machines: []rollout.Machine{{Name: "new", Follows: true, Down: "no Node", Rebuilding: true}}, rolling: "UpToDate false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := rollout.Input{Strategy: tt.strategy, Target: rollout.Target{Version: version(2), Synced: !tt.unsynced, Bad: tt.bad}, Progress: tt.progress, Machines: tt.machines}
			d := rollout.Decide(in, now)
			if got := steps(d); got != tt.steps {
				t.Errorf("steps %q, want %q", got, tt.steps)
			}
			if got := fmt.Sprintf("%s %v", d.Rolling.Reason, d.Rolling.True); got != tt.rolling {
				t.Errorf("rolling out: %s (%s), want %s", got, d.Rolling.Message, tt.rolling)
			}
			halted := ""
			if d.Halted.True {
				halted = d.Halted.Reason
			}
			if halted != tt.halted {
				t.Errorf("halted: %+v, want %q", d.Halted, tt.halted)
			}
		})
	}
}

// M96, M97: the message names the next opening, each machine is listed in its order with what blocks it, and the
// decision comes again when the window opens.
func TestM96M97_WhatIsSaid(t *testing.T) {
	in := rollout.Input{
		Strategy: strategy(func(s *rollout.Strategy) { s.Windows = []hostsv1.Window{{Cron: "0 2 * * *", Duration: "1h"}} }),
		Target:   rollout.Target{Version: version(2), Synced: true},
		Machines: []rollout.Machine{old("a", time.Hour), old("b", 2*time.Hour, begun(2, hostsv1.RolloutDraining, time.Minute, time.Minute))},
	}
	d := rollout.Decide(in, now)
	if want := "no window is open; the next one opens at 2026-11-21T02:00:00Z; 0 of 2 machines run version 2; begun: b"; d.Rolling.Message != want {
		t.Errorf("it says %q, want %q", d.Rolling.Message, want)
	}
	if d.After != time.Minute { // when the time of b is over; the window opens later
		t.Errorf("again after %s", d.After)
	}
	var all []string
	for _, turn := range d.Order {
		all = append(all, fmt.Sprintf("%s %s %s", turn.Machine, turn.Stage, turn.Why))
	}
	want := "b Draining its Pods leave until 2026-11-20T12:01:00Z\na  no window is open; the next one opens at 2026-11-21T02:00:00Z"
	if got := strings.Join(all, "\n"); got != want {
		t.Errorf("order:\n%s\nwant\n%s", got, want)
	}
	in.Machines = in.Machines[:1]
	if d = rollout.Decide(in, now); d.After != 14*time.Hour {
		t.Errorf("again after %s, and the window opens in 14 hours", d.After)
	}
}
