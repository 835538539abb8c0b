package prebuild

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

const (
	// Settle is how long after the last edit of the template its version is prepared: until then another edit may
	// come, and would make another version.
	Settle = time.Minute
	// Longest is how long the preparation of a machine may take.
	Longest = 30 * time.Minute
	// Resync is how long what is prepared is left alone at most.
	Resync = time.Minute
	// Again is when a host is told again to stop that goes on.
	Again = 10 * time.Second
)

// Input is all that a decision follows from.
type Input struct {
	Mode          hostsv1.PrebuildMode
	MaxConcurrent int
	// Paused: nothing is begun, because the configuration is paused.
	Paused bool
	// Settle is how long after the last edit nothing is begun; 0: [Settle].
	Settle time.Duration
	// Target is the newest version; its zero value: there is none. Synced: it holds the template that the configuration
	// has. Edited is when it was first seen.
	Target hostsv1.VersionReference
	Synced bool
	Edited time.Time
	// Machines are those that follow the configuration, and those on which something of it is prepared, in any order.
	Machines []Machine
}

// Machine is a machine as far as its preparation is concerned.
type Machine struct {
	Name string
	// Prebuild is what its status says; nil: nothing was prepared.
	Prebuild *hostsv1.MachinePrebuild
	// Follows: it would be built from the newest version. Outdated: a Node has joined, from another version.
	Follows, Outdated bool
	// Waits says why nothing is begun with it now; empty: something may be.
	Waits string
	// Failed is the version whose repave was given up last; zero: none was.
	Failed hostsv1.VersionReference
	// Stray: its host prepares something, or is to by its shard, and its status says of nothing that it is being prepared.
	Stray bool
	Host  Host
}

// Host is what the shard knows of a host.
type Host struct {
	// Known: the shard has said all that it knows, and the host has reported. Connected: its agent is.
	Known, Connected bool
	// Prebuilds: it prepares machines.
	Prebuilds bool
	// Asked is the hash of the template that the leader of the shard has it prepare; empty: none.
	Asked string
	// Version is what the host says of, Mode how much of it is prepared, State how far it is, Over included; Running
	// where the host does not say.
	Version hostsv1.VersionReference
	Mode    hostsv1.PrebuildMode
	State   hostsv1.PrebuildState
	Message string
	// Withdrawn is when the shard last took that it is to prepare nothing; zero: not since it was asked.
	Withdrawn time.Time
}

// works is whether a host is known to prepare something, or to be about to.
func (h *Host) works() bool {
	return h.Known && h.Connected && (h.Asked != "" || h.Version.Version != 0 && !h.State.Over())
}

// Action is what a step does.
type Action string

// The actions.
const (
	Begin       Action = "begin"       // lock the version, write that it is prepared, ask the host
	Ask         Action = "ask"         // ask the host again
	Finish      Action = "finish"      // write that it is prepared
	Fail        Action = "fail"        // write why it is not
	TimeOut     Action = "timeout"     // the same, and take back what was asked of the host
	Unsupported Action = "unsupported" // write that the host cannot
	Withdraw    Action = "withdraw"    // take back what was asked; the status stays as it is until the host has stopped
	Clear       Action = "clear"       // write that nothing is prepared
)

// Step is something to be done with a machine, and why.
type Step struct {
	Machine  string
	Action   Action
	Reason   string
	Prebuild *hostsv1.MachinePrebuild // what its status says then; nil: nothing
}

// Decision is what follows from an input.
type Decision struct {
	// Steps in the order in which they are to be carried out, up to the first that fails: one that frees a place
	// comes before the one that takes it.
	Steps []Step
	// True, Reason and Message are those of condition Prebuilt; an empty reason: there is nothing to say.
	True            bool
	Reason, Message string
	// Running is how many machines are prepared at once when the steps are carried out, by what their status or their
	// hosts say.
	Running int
	// After is when to decide again at the latest; zero: when something changes.
	After time.Duration
}

// On reports whether a mode has machines prepared.
func On(mode hostsv1.PrebuildMode) bool {
	return mode == hostsv1.PrebuildImages || mode == hostsv1.PrebuildSlot
}

// decision is a Decision in the making.
type decision struct {
	Decision
	in  Input
	now time.Time
	// prepared, failed and waiting count the machines that are to be prepared; running are the names of those that are.
	prepared, waiting int
	failed, running   []string
	stuck             string // why the first of those that wait is not begun
}

// Decide returns what follows from an input: equal inputs and times give equal decisions.
func Decide(in Input, now time.Time) Decision {
	d := &decision{in: in, now: now}
	d.in.Machines = slices.Clone(in.Machines)
	slices.SortFunc(d.in.Machines, func(a, b Machine) int { return cmp.Compare(a.Name, b.Name) })
	for i := range d.in.Machines {
		d.goOn(&d.in.Machines[i])
	}
	general := d.general()
	for i := range d.in.Machines {
		d.begin(&d.in.Machines[i], general)
	}
	d.conclude(general)
	return d.Decision
}

// step adds a step, and has the machine as it is then.
func (d *decision) step(m *Machine, a Action, next *hostsv1.MachinePrebuild, format string, args ...any) {
	d.Steps = append(d.Steps, Step{Machine: m.Name, Action: a, Reason: fmt.Sprintf(format, args...), Prebuild: next})
	m.Prebuild = next
}

// wait has the decision made again after a time.
func (d *decision) wait(after time.Duration) {
	if after > 0 && (d.After == 0 || after < d.After) {
		d.After = after
	}
}

// goOn takes a preparation further that was begun, and counts those that run.
func (d *decision) goOn(m *Machine) {
	p := m.Prebuild
	switch {
	case d.strays(m):
		d.Running++
		d.withdraw(m, "its host goes on with what is no longer to be prepared on it")
		return
	case p == nil:
		return
	case p.State.Over():
		if !d.wanted(m) {
			d.step(m, Clear, nil, "version %d of %s is no longer to be prepared on it", p.Version, p.Name)
		}
		return
	}
	ends, said := end(p), m.Host.Known && same(m.Host.Version, p.VersionReference) && m.Host.Mode == p.Mode
	late := !d.now.Before(ends)
	switch {
	case !d.wanted(m):
		d.unwanted(m, said, late)
		return
	case said && m.Host.State == hostsv1.PrebuildDone:
		d.step(m, Finish, over(p, hostsv1.PrebuildDone, "", d.now), "its host has prepared version %d", p.Version)
		return
	case said && m.Host.State == hostsv1.PrebuildFailed:
		d.step(m, Fail, over(p, hostsv1.PrebuildFailed, m.Host.Message, d.now), "its host gave the preparation of version %d up: %s", p.Version, m.Host.Message)
		return
	case late:
		why := unfinished(m)
		d.step(m, TimeOut, over(p, hostsv1.PrebuildFailed, why, d.now), "%s", why)
		if m.Stray = m.Host.works(); m.Stray { // until it has stopped
			d.Running++
		}
		return
	case m.Host.Known && m.Host.Connected && !m.Host.Prebuilds:
		d.step(m, Unsupported, over(p, hostsv1.PrebuildUnsupported, unable, d.now), "%s", unable)
		return
	case m.Waits == "" && m.Host.Known && m.Host.Connected && m.Host.Asked != string(p.Hash) && !said:
		d.step(m, Ask, p, "the leader of its shard does not know of it")
	}
	d.wait(ends.Sub(d.now))
	d.running = append(d.running, m.Name)
	d.Running++
}

// unwanted ends a preparation that is no longer wanted. It counts until its host has stopped, or must have.
func (d *decision) unwanted(m *Machine, said, late bool) {
	p, h := m.Prebuild, &m.Host
	stopped := said && h.State.Over() || !h.Withdrawn.IsZero() && h.Known && h.Connected && !h.works()
	if stopped || late && !h.works() {
		d.step(m, Clear, nil, "version %d of %s is no longer to be prepared on it", p.Version, p.Name)
		return
	}
	if h.Connected {
		d.withdraw(m, fmt.Sprintf("version %d of %s is no longer to be prepared on it", p.Version, p.Name))
	}
	d.wait(end(p).Sub(d.now))
	d.Running++
}

// withdraw has a host told to stop, and told again while it goes on.
func (d *decision) withdraw(m *Machine, why string) {
	if again := m.Host.Withdrawn.Add(Again).Sub(d.now); !m.Host.Withdrawn.IsZero() && again > 0 {
		d.wait(again)
		return
	}
	d.step(m, Withdraw, m.Prebuild, "%s", why)
}

// strays is whether a host works that nobody counts by the machine's status. What was given up half an hour ago is not
// counted any more, so a host that does not stop keeps no place for ever.
func (d *decision) strays(m *Machine) bool {
	p := m.Prebuild
	return m.Stray && (p == nil || p.FinishedAt == nil || d.now.Before(p.FinishedAt.Add(Longest)))
}

// unfinished says of a machine whose time is over what its host says.
func unfinished(m *Machine) string {
	why := fmt.Sprintf("it is not prepared after %s", Longest)
	if m.Host.Message != "" {
		why += ": " + m.Host.Message
	}
	return why
}

const unable = "its agent or its paver is of an earlier release, which prepares nothing"

// wanted is whether what is prepared on a machine, or was, is still what is to be.
func (d *decision) wanted(m *Machine) bool {
	p := m.Prebuild
	return On(d.in.Mode) && m.Follows && m.Outdated && p.Mode == d.in.Mode && same(p.VersionReference, d.in.Target)
}

// general says why nothing is begun; empty: something may be.
func (d *decision) general() string {
	settle := cmp.Or(d.in.Settle, Settle)
	settled := d.in.Edited.Add(settle)
	switch {
	case !On(d.in.Mode), d.in.Target.Version == 0:
		return "nothing is to be prepared"
	case d.in.Paused:
		return "the configuration is paused"
	case !d.in.Synced:
		return "the newest version does not hold the template yet"
	case d.now.Before(settled):
		d.wait(settled.Sub(d.now))
		return fmt.Sprintf("the template was edited less than %s ago", settle)
	}
	return ""
}

// begin begins the preparation of a machine, as far as the bound goes.
func (d *decision) begin(m *Machine, general string) {
	switch p := m.Prebuild; {
	case !On(d.in.Mode) || !m.Follows || !m.Outdated:
		return
	case p != nil && !d.wanted(m): // its host has not stopped yet
		d.waits(m, fmt.Sprintf("version %d of %s is no longer to be prepared on it, and its host has not stopped yet", p.Version, p.Name))
		return
	case p != nil && p.State == hostsv1.PrebuildRunning:
		return
	case p != nil && p.State == hostsv1.PrebuildDone:
		d.prepared++
		return
	case p != nil:
		d.failed = append(d.failed, m.Name+": "+p.Message)
		return
	}
	why := general
	switch {
	case why != "":
	case same(m.Failed, d.in.Target) && m.Failed.Version != 0:
		why = fmt.Sprintf("its repave to version %d was given up", d.in.Target.Version)
	case m.Waits != "":
		why = m.Waits
	case m.Stray:
		why = "its host goes on with what is no longer to be prepared on it"
	case !m.Host.Known || !m.Host.Connected:
		why = "its host has not reported"
	case !m.Host.Prebuilds:
		of := d.fresh()
		d.step(m, Unsupported, over(of, hostsv1.PrebuildUnsupported, unable, d.now), "%s", unable)
		d.failed = append(d.failed, m.Name+": "+unable)
		return
	case d.Running >= d.in.MaxConcurrent:
		why = fmt.Sprintf("%d machines are being prepared, and maxConcurrent is %d", d.Running, d.in.MaxConcurrent)
	}
	if why != "" {
		d.waits(m, why)
		return
	}
	d.Running++
	d.running = append(d.running, m.Name)
	d.Steps = slices.DeleteFunc(d.Steps, func(s Step) bool { return s.Machine == m.Name }) // what clears it: this one does
	d.step(m, Begin, d.fresh(), "version %d is the newest; %d of %d machines are being prepared then", d.in.Target.Version, d.Running, d.in.MaxConcurrent)
	d.wait(Longest)
}

// waits counts a machine that is not begun.
func (d *decision) waits(m *Machine, why string) {
	d.waiting++
	if d.stuck == "" {
		d.stuck = m.Name + ": " + why
	}
}

// fresh is a preparation that begins now.
func (d *decision) fresh() *hostsv1.MachinePrebuild {
	return &hostsv1.MachinePrebuild{VersionReference: d.in.Target, Mode: d.in.Mode, State: hostsv1.PrebuildRunning, StartedAt: at(d.now)}
}

// conclude says how far the preparation is.
func (d *decision) conclude(general string) {
	if !On(d.in.Mode) {
		return
	}
	total := d.prepared + d.waiting + len(d.failed) + len(d.running)
	how := fmt.Sprintf("version %d is prepared on %d of %d outdated machines", d.in.Target.Version, d.prepared, total)
	if len(d.running) > 0 {
		slices.Sort(d.running)
		how += "; being prepared: " + first(d.running)
	}
	if len(d.failed) > 0 {
		how += fmt.Sprintf("; %d could not be prepared, which no rollout waits for: %s", len(d.failed), d.failed[0])
	}
	say := func(reason, why string) { d.Reason, d.Message = reason, strings.TrimPrefix(why+"; "+how, "; ") }
	switch {
	case d.in.Paused:
		say(hostsv1.ReasonConfigurationPaused, general)
	case d.in.Target.Version == 0 || !d.in.Synced:
		say(hostsv1.ReasonWriting, "the newest version does not hold the template yet")
	case general != "":
		say(hostsv1.ReasonSettling, general)
	case len(d.running) > 0:
		say(hostsv1.ReasonPreparing, "")
	case d.waiting > 0:
		say(hostsv1.ReasonBlocked, d.stuck)
	case len(d.failed) > 0:
		say(hostsv1.ReasonPrebuildFailed, "")
	default:
		d.True = true
		say(hostsv1.ReasonPrepared, "")
	}
}

// first are some of many names.
func first(names []string) string {
	const some = 5
	if len(names) <= some {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:some], ", "), len(names)-some)
}

// over is a preparation that has ended.
func over(p *hostsv1.MachinePrebuild, state hostsv1.PrebuildState, message string, now time.Time) *hostsv1.MachinePrebuild {
	next := p.DeepCopy()
	next.State, next.Message, next.FinishedAt = state, message[:min(len(message), 1000)], at(now)
	return next
}

// end is when a preparation ends at the latest.
func end(p *hostsv1.MachinePrebuild) time.Time {
	if p.StartedAt == nil {
		return time.Time{}
	}
	return p.StartedAt.Add(Longest)
}

// same is whether two references mean the same version.
func same(a, b hostsv1.VersionReference) bool {
	return a.Name == b.Name && a.Version == b.Version && a.UID == b.UID
}

// at is a time as objects have it.
func at(t time.Time) *metav1.Time {
	is := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &is
}
