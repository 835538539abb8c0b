package prebuild_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/prebuild"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func version(n int32) hostsv1.VersionReference {
	return hostsv1.VersionReference{Name: "gpu", Version: n, UID: "c", Hash: hostsv1.SHA256(fmt.Sprint("sha256:", n))}
}

func ago(d time.Duration) *metav1.Time {
	t := metav1.NewTime(now.Add(-d))
	return &t
}

// running is what is prepared on a machine since a time.
func running(n int32, since time.Duration) *hostsv1.MachinePrebuild {
	return &hostsv1.MachinePrebuild{VersionReference: version(n), Mode: hostsv1.PrebuildSlot, State: hostsv1.PrebuildRunning, StartedAt: ago(since)}
}

func is(state hostsv1.PrebuildState) *hostsv1.MachinePrebuild {
	p := running(2, 10*time.Minute)
	p.State, p.Message, p.FinishedAt = state, "bad digest", ago(time.Minute)
	return p
}

// able is a host that prepares machines and has been asked for nothing.
func able(change func(*prebuild.Host)) prebuild.Host {
	h := prebuild.Host{Known: true, Connected: true, Prebuilds: true}
	if change != nil {
		change(&h)
	}
	return h
}

func says(n int32, state hostsv1.PrebuildState) func(*prebuild.Host) {
	return func(h *prebuild.Host) {
		h.Version, h.Mode, h.State, h.Message, h.Asked = version(n), hostsv1.PrebuildSlot, state, "layer 2", string(version(n).Hash)
	}
}

// withdrawn is a host whose shard has taken that it is to prepare nothing.
func withdrawn(h prebuild.Host) prebuild.Host {
	h.Asked, h.Withdrawn = "", now.Add(-time.Second)
	return h
}

// longAgo is a host whose shard has taken that a while ago.
func longAgo(h prebuild.Host) prebuild.Host {
	h.Withdrawn = now.Add(-prebuild.Again)
	return h
}

// stray is a machine whose host works although its status says of nothing that it is prepared.
func stray(m prebuild.Machine) prebuild.Machine {
	m.Stray = true
	return m
}

// old is a preparation that ended half an hour ago.
func old(p *hostsv1.MachinePrebuild) *hostsv1.MachinePrebuild {
	p.FinishedAt = ago(prebuild.Longest)
	return p
}

func machine(name string, change func(*prebuild.Machine)) prebuild.Machine {
	m := prebuild.Machine{Name: name, Follows: true, Outdated: true, Host: able(nil)}
	if change != nil {
		change(&m)
	}
	return m
}

func input(machines ...prebuild.Machine) prebuild.Input {
	return prebuild.Input{Mode: hostsv1.PrebuildSlot, MaxConcurrent: 2, Target: version(2), Synced: true, Edited: now.Add(-time.Hour), Machines: machines}
}

// steps are the steps of a decision in a line.
func steps(d prebuild.Decision) string {
	var all []string
	for _, s := range d.Steps {
		state := "nothing"
		if s.Prebuild != nil {
			state = string(s.Prebuild.State)
		}
		all = append(all, fmt.Sprintf("%s %s %s", s.Action, s.Machine, state))
	}
	return strings.Join(all, ", ")
}

func TestM64_Decide(t *testing.T) {
	with := func(p *hostsv1.MachinePrebuild, h prebuild.Host) func(*prebuild.Machine) {
		return func(m *prebuild.Machine) { m.Prebuild, m.Host = p, h }
	}
	for _, c := range []struct {
		name   string
		in     prebuild.Input
		change func(*prebuild.Input)
		steps  string
		reason string // of condition Prebuilt; empty: there is none
	}{
		{"machines are begun in their order, as far as the bound goes", input(machine("c", nil), machine("a", nil), machine("b", nil)), nil, "begin a Running, begin b Running", "Preparing"},
		{"off", input(machine("a", nil)), func(in *prebuild.Input) { in.Mode = hostsv1.PrebuildOff }, "", ""},
		{"paused", input(machine("a", nil)), func(in *prebuild.Input) { in.Paused = true }, "", "ConfigurationPaused"},
		{"the template was just edited", input(machine("a", nil)), func(in *prebuild.Input) { in.Edited = now.Add(-59 * time.Second) }, "", "Settling"},
		{"a minute later", input(machine("a", nil)), func(in *prebuild.Input) { in.Edited = now.Add(-time.Minute) }, "begin a Running", "Preparing"},
		{"the version is not written", input(machine("a", nil)), func(in *prebuild.Input) { in.Synced = false }, "", "Writing"},
		{"all run it", input(machine("a", func(m *prebuild.Machine) { m.Outdated = false })), nil, "", "Prepared"},
		{"a machine that names a version", input(machine("a", func(m *prebuild.Machine) { m.Follows = false })), nil, "", "Prepared"},
		{"one that may not be begun", input(machine("a", func(m *prebuild.Machine) { m.Waits = "it is being repaved" }), machine("b", nil)), nil, "begin b Running", "Preparing"},
		{"none may be begun", input(machine("a", func(m *prebuild.Machine) { m.Waits = "its agent is not connected" })), nil, "", "Blocked"},
		{"its host has not reported", input(machine("a", func(m *prebuild.Machine) { m.Host.Known = false })), nil, "", "Blocked"},
		{"its repave was given up", input(machine("a", func(m *prebuild.Machine) { m.Failed = version(2) })), nil, "", "Blocked"},
		{"that of another version was", input(machine("a", func(m *prebuild.Machine) { m.Failed = version(1) })), nil, "begin a Running", "Preparing"},
		{"a host of an earlier release", input(machine("a", func(m *prebuild.Machine) { m.Host.Prebuilds = false })), nil, "unsupported a Unsupported", "PrebuildFailed"},
		{"the host works", input(machine("a", with(running(2, time.Minute), able(says(2, hostsv1.PrebuildRunning))))), nil, "", "Preparing"},
		{"two work, which is the bound", input(machine("a", with(running(2, 1), able(says(2, hostsv1.PrebuildRunning)))), machine("b", with(running(2, 1), able(says(2, hostsv1.PrebuildRunning)))), machine("c", nil)), nil, "", "Preparing"},
		{"one is done, which frees a place", input(machine("a", with(running(2, 1), able(says(2, hostsv1.PrebuildDone)))), machine("b", with(running(2, 1), able(says(2, hostsv1.PrebuildRunning)))), machine("c", nil)), nil, "finish a Done, begin c Running", "Preparing"},
		{"the host gave up", input(machine("a", with(running(2, 1), able(says(2, hostsv1.PrebuildFailed))))), nil, "fail a Failed", "PrebuildFailed"},
		{"the leader of the shard does not know of it", input(machine("a", with(running(2, 1), able(nil)))), nil, "ask a Running", "Preparing"},
		{"it knows, and the host has said nothing yet", input(machine("a", with(running(2, 1), able(func(h *prebuild.Host) { h.Asked = string(version(2).Hash) })))), nil, "", "Preparing"},
		{"the host speaks of another version", input(machine("a", with(running(2, 1), able(says(1, hostsv1.PrebuildDone))))), nil, "ask a Running", "Preparing"},
		{"it is being repaved", input(machine("a", func(m *prebuild.Machine) { m.Prebuild, m.Waits = running(2, 1), "it is being repaved" })), nil, "", "Preparing"},
		{"half an hour", input(machine("a", with(running(2, prebuild.Longest), able(says(2, hostsv1.PrebuildRunning))))), nil, "timeout a Failed", "PrebuildFailed"},
		{"half an hour without a word", input(machine("a", with(running(2, prebuild.Longest), prebuild.Host{})), machine("b", nil)), nil, "timeout a Failed, begin b Running", "Preparing"},
		{"silent hosts count", input(machine("a", with(running(2, 1), prebuild.Host{})), machine("b", with(running(2, 1), prebuild.Host{})), machine("c", nil)), nil, "", "Preparing"},
		{"all is prepared", input(machine("a", with(is(hostsv1.PrebuildDone), able(nil)))), nil, "", "Prepared"},
		{"what failed is not tried again", input(machine("a", with(is(hostsv1.PrebuildFailed), able(nil)))), nil, "", "PrebuildFailed"},
		{"the next version", input(machine("a", with(is(hostsv1.PrebuildDone), able(nil)))), func(in *prebuild.Input) { in.Target = version(3) }, "begin a Running", "Preparing"},
		{"while the one before is being prepared", input(machine("a", with(running(2, 1), able(nil)))), func(in *prebuild.Input) { in.Target = version(3) }, "withdraw a Running", "Blocked"},
		{"which counts until its host has stopped", input(machine("a", with(running(2, 1), able(says(2, hostsv1.PrebuildRunning)))), machine("b", with(running(2, 1), able(says(2, hostsv1.PrebuildRunning)))), machine("c", nil)), func(in *prebuild.Input) { in.Target = version(3) }, "withdraw a Running, withdraw b Running", "Blocked"},
		{"its shard has taken that, and it has not stopped", input(machine("a", with(running(2, 1), withdrawn(able(says(2, hostsv1.PrebuildRunning)))))), func(in *prebuild.Input) { in.Target = version(3) }, "", "Blocked"},
		{"it is told again", input(machine("a", with(running(2, 1), longAgo(withdrawn(able(says(2, hostsv1.PrebuildRunning))))))), func(in *prebuild.Input) { in.Target = version(3) }, "withdraw a Running", "Blocked"},
		{"it has stopped", input(machine("a", with(running(2, 1), withdrawn(able(nil))))), func(in *prebuild.Input) { in.Target = version(3) }, "begin a Running", "Preparing"},
		{"it was done before it was told", input(machine("a", with(running(2, 1), able(says(2, hostsv1.PrebuildDone))))), func(in *prebuild.Input) { in.Target = version(3) }, "begin a Running", "Preparing"},
		{"it does not stop in half an hour", input(machine("a", with(running(2, prebuild.Longest), able(says(2, hostsv1.PrebuildRunning))))), func(in *prebuild.Input) { in.Target = version(3) }, "withdraw a Running", "Blocked"},
		{"what nobody knows of counts, and is withdrawn", input(stray(machine("a", func(m *prebuild.Machine) { m.Host = able(says(1, hostsv1.PrebuildRunning)) })), machine("b", nil), machine("c", nil)), nil, "withdraw a nothing, begin b Running", "Preparing"},
		{"what was given up goes on, and counts", input(stray(machine("a", with(is(hostsv1.PrebuildFailed), able(says(2, hostsv1.PrebuildRunning))))), machine("b", nil), machine("c", nil)), nil, "withdraw a Failed, begin b Running", "Preparing"},
		{"half an hour on, no longer", input(stray(machine("a", with(old(is(hostsv1.PrebuildFailed)), able(says(2, hostsv1.PrebuildRunning))))), machine("b", nil), machine("c", nil)), nil, "begin b Running, begin c Running", "Preparing"},
		{"what has gone on for half an hour counts", input(machine("a", with(running(2, prebuild.Longest), able(says(2, hostsv1.PrebuildRunning)))), machine("b", with(running(2, 1), able(says(2, hostsv1.PrebuildRunning)))), machine("c", nil)), nil, "timeout a Failed", "Preparing"},
		{"on a host that cannot be told", input(machine("a", with(running(2, 1), prebuild.Host{}))), func(in *prebuild.Input) { in.Target = version(3) }, "", "Blocked"},
		{"until it must have ended", input(machine("a", with(running(2, prebuild.Longest), prebuild.Host{}))), func(in *prebuild.Input) { in.Target = version(3) }, "clear a nothing", "Blocked"},
		{"another mode", input(machine("a", with(is(hostsv1.PrebuildDone), able(nil)))), func(in *prebuild.Input) { in.Mode = hostsv1.PrebuildImages }, "begin a Running", "Preparing"},
		{"switched off meanwhile", input(machine("a", with(running(2, 1), able(nil)))), func(in *prebuild.Input) { in.Mode = hostsv1.PrebuildOff }, "withdraw a Running", ""},
		{"and it has stopped", input(machine("a", with(running(2, 1), withdrawn(able(nil))))), func(in *prebuild.Input) { in.Mode = hostsv1.PrebuildOff }, "clear a nothing", ""},
		{"it runs the version", input(machine("a", func(m *prebuild.Machine) { m.Prebuild, m.Outdated = is(hostsv1.PrebuildDone), false })), nil, "clear a nothing", "Prepared"},
		{"paused meanwhile: what was begun ends", input(machine("a", with(running(2, 1), able(says(2, hostsv1.PrebuildDone)))), machine("b", nil)), func(in *prebuild.Input) { in.Paused = true }, "finish a Done", "ConfigurationPaused"},
	} {
		in := c.in
		if c.change != nil {
			c.change(&in)
		}
		d := prebuild.Decide(in, now)
		if steps(d) != c.steps || d.Reason != c.reason || (d.Reason != "") != (d.Message != "") || d.True != (d.Reason == "Prepared") {
			t.Errorf("%s:\n got %q, %s %q\nwant %q, %s", c.name, steps(d), d.Reason, d.Message, c.steps, c.reason)
		}
		if d.Running > max(in.MaxConcurrent, 2) {
			t.Errorf("%s: %d at once", c.name, d.Running)
		}
		for _, s := range d.Steps {
			if s.Reason == "" {
				t.Errorf("%s: %s %s has no reason", c.name, s.Action, s.Machine)
			}
		}
	}
}

// M95: a rollout waits for a preparation until that is over, or half an hour old; and for none where none is wanted.
func TestM95_Awaited(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  hostsv1.PrebuildMode
		is    *hostsv1.MachinePrebuild
		waits bool
	}{
		{"off", hostsv1.PrebuildOff, nil, false},
		{"not begun", hostsv1.PrebuildSlot, nil, true},
		{"of the version before", hostsv1.PrebuildSlot, running(1, time.Minute), true},
		{"under way", hostsv1.PrebuildSlot, running(2, 29*time.Minute), true},
		{"half an hour old", hostsv1.PrebuildSlot, running(2, 30*time.Minute), false},
		{"done", hostsv1.PrebuildSlot, is(hostsv1.PrebuildDone), false},
		{"done in another mode", hostsv1.PrebuildImages, is(hostsv1.PrebuildDone), true},
		{"failed", hostsv1.PrebuildSlot, is(hostsv1.PrebuildFailed), false},
		{"unsupported", hostsv1.PrebuildSlot, is(hostsv1.PrebuildUnsupported), false},
	} {
		of := &hostsv1.MachineConfiguration{}
		of.Spec.Prebuild = &hostsv1.Prebuild{Mode: c.mode}
		m := &hostsv1.HostMachine{}
		m.Status.Prebuild = c.is
		if why := prebuild.Awaited(of, m, version(2), now); (why != "") != c.waits {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
