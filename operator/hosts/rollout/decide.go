package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/windows"
)

// Decision is what follows from an input.
type Decision struct {
	// Steps in the order in which they are to be carried out.
	Steps []Step
	// Rollout is what the configuration's status says of the rollout; nil: there never was one.
	Rollout *hostsv1.Rollout
	// Rolling says whether machines are brought to the newest version, and if not, why. Halted says
	// whether the rollout has halted; its zero value: there is no rollout that could.
	Rolling, Halted Verdict
	// Resumed: the user's word that it shall go on was taken.
	Resumed bool
	// News is what has just become so with the rollout as a whole; empty: nothing.
	News News
	// Order are the outdated machines that were not begun, the one that comes next first, after those that were
	// begun; each with what it waits for.
	Order []Turn
	// Budget is how many machines may be unavailable at once; Unavailable is how many are, those that
	// the steps begin among them; Following is how many machines follow.
	Budget, Unavailable, Following int
	// Windows says whether machines may be begun now, Opens when the next window opens; zero: none does.
	Open  bool
	Opens time.Time
	// After is when to decide again at the latest; zero: when something changes.
	After time.Duration
}

// Verdict is a condition without its type.
type Verdict struct {
	True            bool
	Reason, Message string
}

// News is something that is told once.
type News string

// The news.
const (
	Started  News = "started"
	Complete News = "complete"
	Halted   News = "halted"
	Resumed  News = "resumed"
)

// Turn is a machine that is outdated or begun, and what it waits for.
type Turn struct {
	Machine string
	// Runs is the number of the version that it runs; 0: none.
	Runs int32
	// Stage that it is in; empty: it was not begun.
	Stage hostsv1.RolloutStage
	// Why says what it waits for; empty: it is begun now.
	Why string
}

// decision is a Decision in the making.
type decision struct {
	Decision
	in     Input
	now    time.Time
	halted string // why; empty: it has not
	reason string // of halted
	active int    // machines that are begun once the steps are carried out
	stuck  string // why the first outdated machine is not begun
	faulty string // what is wrong with the windows
}

// Decide returns what follows from an input: equal inputs and times give equal decisions.
func Decide(in Input, now time.Time) Decision {
	d := &decision{in: in, now: now}
	d.in.Machines = slices.Clone(in.Machines)
	slices.SortFunc(d.in.Machines, d.before)
	d.measure()
	d.judge()
	d.advance()
	d.begin()
	d.conclude()
	return d.Decision
}

// before orders machines: those that are down first, as nothing is lost with them, then by the age of what
// they run, the oldest first, then by name.
func (d *decision) before(a, b Machine) int {
	up := func(m Machine) int {
		if m.Down != "" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(up(a), up(b)), a.AppliedAt.Compare(b.AppliedAt), cmp.Compare(a.Name, b.Name))
}

// measure counts machines and looks at the windows.
func (d *decision) measure() {
	for i := range d.in.Machines {
		if d.in.Machines[i].Follows {
			d.Following++
		}
	}
	d.Budget = Budget(d.in.Strategy.MaxUnavailable, d.Following)
	d.Open, d.Opens = windows.Open(d.in.Strategy.Windows, d.now)
	if err := windows.Check(d.in.Strategy.Windows); err != nil {
		d.faulty = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}

// judge decides whether the rollout has halted, which it does for a target once, until a user resumes it.
func (d *decision) judge() {
	p, t := d.in.Progress, d.in.Target
	if p.Target != t.Version.Version {
		p = Progress{Target: t.Version.Version}
	}
	if d.in.Strategy.Resume {
		d.Resumed = true
		if p.Halted != "" {
			p.Halted, p.HaltedWhy, p.ResumedAt = "", "", d.now.Truncate(time.Second)
			d.News = Resumed
		}
	}
	failures := 0
	for i := range d.in.Machines {
		if m := &d.in.Machines[i]; m.failed(t.Version, p.ResumedAt) {
			failures++
		}
	}
	switch {
	case !d.in.Strategy.Rolling || t.Version.Version == 0:
	case p.Halted != "":
		d.reason, d.halted = p.Halted, p.HaltedWhy
	case failures >= d.in.Strategy.MaxFailures:
		d.reason, d.News = hostsv1.ReasonMaxFailures, Halted
		d.halted = fmt.Sprintf("%d of %d failures that may be: repaves to version %d were given up", failures, d.in.Strategy.MaxFailures, t.Version.Version)
	case t.Bad.After(p.ResumedAt):
		d.reason, d.News = hostsv1.ReasonVersionUnhealthy, Halted
		d.halted = fmt.Sprintf("machines that were built from version %d do not become ready", t.Version.Version)
	}
	d.in.Progress = p
	d.Rollout = &hostsv1.Rollout{Target: p.Target, Failures: int32(failures)} //nolint:gosec // machines of one cluster
}

// advance takes those further that were begun, and counts who is unavailable then.
func (d *decision) advance() {
	for i := range d.in.Machines {
		m := &d.in.Machines[i]
		active := m.begun()
		if m.Rollout != nil {
			step, after, acts := m.next(d.in.Strategy, d.halted, d.now)
			d.wait(after)
			if acts {
				d.Steps = append(d.Steps, step)
				active = step.Rollout != nil && step.Rollout.Stage.Begun()
			}
			if active {
				d.Order = append(d.Order, Turn{Machine: m.Name, Runs: m.Applied.Version, Stage: m.Rollout.Stage, Why: waitsFor(m)})
				d.Rollout.Updating = append(d.Rollout.Updating, m.Name)
			}
			m.Rollout = carried(m.Rollout, step, acts)
		}
		switch {
		case active:
			d.active++
			d.Unavailable++
		case m.Follows && m.Down != "":
			d.Unavailable++
		}
	}
}

// carried is what a machine has once a step was carried out.
func carried(was *hostsv1.MachineRollout, step Step, acts bool) *hostsv1.MachineRollout {
	if acts {
		return step.Rollout
	}
	return was
}

// waitsFor says what a machine that was begun waits for.
func waitsFor(m *Machine) string {
	switch {
	case m.Rollout.Stage == hostsv1.RolloutDraining:
		return "its Pods leave until " + clock(end(m.Rollout))
	case m.Node == "" || m.Node == m.Rollout.NodeUID:
		return "it is built again"
	case m.Down != "":
		return m.Down
	}
	return "it is ready, and has to stay so for a while"
}

// begin begins machines, in their order, as far as the budget goes.
func (d *decision) begin() {
	general := d.general()
	for i := range d.in.Machines {
		m := &d.in.Machines[i]
		if !m.outdated(d.in.Target.Version) || m.begun() {
			continue
		}
		why := general
		if why == "" {
			why = d.blocks(m)
		}
		turn := Turn{Machine: m.Name, Runs: m.Applied.Version, Why: why}
		if m.Rollout != nil {
			turn.Stage = m.Rollout.Stage
		}
		d.Order = append(d.Order, turn)
		if why != "" {
			if d.stuck == "" {
				d.stuck = m.Name + ": " + why
			}
			continue
		}
		d.active++
		if m.Down == "" {
			d.Unavailable++
		}
		reason := fmt.Sprintf("it runs version %d, and %d is the newest; %d of %d machines are unavailable then, and %d may be", m.Applied.Version, d.in.Target.Version.Version, d.Unavailable, d.Following, d.Budget)
		if m.Down != "" {
			reason += "; it is down already: " + m.Down
		}
		d.Steps = append(d.Steps, m.begin(d.in.Target.Version, d.in.Strategy.DrainTimeout, reason, d.now))
		d.Rollout.Updating = append(d.Rollout.Updating, m.Name)
	}
}

// general says why no machine is begun; empty: one may be.
func (d *decision) general() string {
	s := d.in.Strategy
	switch {
	case !s.Rolling:
		return "the update strategy is OnDelete: delete its Node"
	case s.ConfigurationPaused:
		return "the configuration is paused"
	case !d.in.Target.Synced:
		return "the newest version does not hold the template yet"
	case d.halted != "":
		return "the rollout has halted: " + d.halted
	case s.Paused:
		return "the rollout is paused"
	case d.faulty != "":
		return d.faulty
	case !d.Open:
		return d.closed()
	}
	return ""
}

// closed says that no window is open, and when one will be.
func (d *decision) closed() string {
	if d.Opens.IsZero() {
		return "no window is open, and none ever opens"
	}
	return "no window is open; the next one opens at " + clock(d.Opens)
}

// blocks says why a machine is not begun; empty: it may be. What is down already takes nothing of what may be
// unavailable, but no more are begun at once than may be.
func (d *decision) blocks(m *Machine) string {
	switch {
	case m.Leaves != "":
		return m.Leaves
	case m.failed(d.in.Target.Version, d.in.Progress.ResumedAt):
		return fmt.Sprintf("its repave to version %d was given up", d.in.Target.Version.Version)
	case m.Rebuilding:
		return "it is built again already: " + m.Down
	case m.Waits != "":
		return m.Waits
	case m.Rollout != nil && d.now.Before(end(m.Rollout)):
		d.wait(end(m.Rollout).Sub(d.now))
		return "its Pods did not leave in time; it is tried again at " + clock(end(m.Rollout))
	case d.active >= d.Budget:
		return fmt.Sprintf("%d machines are begun, and maxUnavailable is %d", d.active, d.Budget)
	case m.Down == "" && d.Unavailable >= d.Budget:
		return fmt.Sprintf("%d machines are unavailable, and maxUnavailable is %d", d.Unavailable, d.Budget)
	}
	return ""
}

// wait has the decision made again after a time.
func (d *decision) wait(after time.Duration) {
	if after > 0 && (d.After == 0 || after < d.After) {
		d.After = after
	}
}

// first are the first names of a list that may be long.
func first(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
