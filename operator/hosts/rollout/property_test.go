package rollout_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/rollout"
	"nstance.dev/operator/hosts/windows"
)

// fleet is a simulated fleet: what the objects say, and what happens to machines.
type fleet struct {
	t        *testing.T
	r        *rand.Rand
	now      time.Time
	in       rollout.Input
	machines []*box
	bad      map[int32]bool // versions that fail on every machine
	calm     bool           // nothing happens any more but what the rollout does
	begins   int
	log      []string
}

// box is a machine with what happens to it.
type box struct {
	rollout.Machine
	drains  time.Time // when its Node is empty; zero: never
	joins   time.Time // when the next Node joins; zero: none is awaited
	builds  int32     // the version that is built
	sick    time.Time // until when its Node is not ready
	nodes   int
	started hostsv1.VersionReference // that it was begun for
}

func version(n int32) hostsv1.VersionReference {
	return hostsv1.VersionReference{Name: "gpu", Version: n, UID: "uid"}
}

func newFleet(t *testing.T, seed uint64) *fleet {
	f := &fleet{t: t, r: rand.New(rand.NewPCG(seed, 20)), now: time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC), bad: map[int32]bool{}}
	f.in.Strategy = rollout.Strategy{
		Rolling: true, MaxUnavailable: intstr.FromInt(1 + f.r.IntN(5)), DrainTimeout: 5 * time.Minute, MinReady: time.Duration(f.r.IntN(60)) * time.Second,
		MaxFailures: 1 + f.r.IntN(3),
	}
	if f.r.IntN(3) == 0 {
		f.in.Strategy.MaxUnavailable = intstr.FromString(fmt.Sprintf("%d%%", 1+f.r.IntN(40)))
	}
	if f.r.IntN(3) == 0 {
		f.in.Strategy.Windows = []hostsv1.Window{{Cron: "*/30 * * * *", Duration: "12m"}}
	}
	f.in.Target = rollout.Target{Version: version(2), Synced: true}
	for i := range 3 + f.r.IntN(25) {
		b := &box{nodes: 1}
		b.Name, b.Follows, b.Applied, b.Node = fmt.Sprintf("m%02d", i), f.r.IntN(12) > 0, version(1), fmt.Sprintf("m%02d-1", i)
		b.AppliedAt = f.now.Add(-time.Duration(f.r.IntN(100)) * time.Hour)
		b.ReadySince = b.AppliedAt
		f.machines = append(f.machines, b)
	}
	return f
}

// happen lets ten seconds pass.
func (f *fleet) happen() {
	f.now = f.now.Add(10 * time.Second)
	if !f.calm {
		f.disturb()
	}
	for _, b := range f.machines {
		b.Drained = b.Rollout != nil && b.Rollout.Stage == hostsv1.RolloutDraining && !b.drains.IsZero() && !f.now.Before(b.drains)
		if !b.joins.IsZero() && !f.now.Before(b.joins) {
			f.join(b)
		}
		b.Down, b.Rebuilding = "", b.Node == ""
		switch {
		case b.Node == "":
			b.Down, b.ReadySince = "no Node", time.Time{}
		case f.now.Before(b.sick):
			b.Down, b.ReadySince = "not ready", time.Time{}
		case b.ReadySince.IsZero():
			b.ReadySince = f.now
		}
	}
}

// join has a Node join, or the machine go back to what it ran.
func (f *fleet) join(b *box) {
	b.joins, b.nodes = time.Time{}, b.nodes+1
	b.Node, b.ReadySince = fmt.Sprintf("%s-%d", b.Name, b.nodes), f.now
	if f.bad[b.builds] {
		b.Failed, b.FailedAt = version(b.builds), f.now
		return
	}
	b.Applied, b.AppliedAt, b.Failed = version(b.builds), f.now, hostsv1.VersionReference{}
}

// disturb lets something happen that the rollout has not asked for.
func (f *fleet) disturb() {
	b := f.machines[f.r.IntN(len(f.machines))]
	switch f.r.IntN(30) {
	case 0, 1:
		b.sick = f.now.Add(time.Duration(f.r.IntN(600)) * time.Second)
	case 2:
		if b.Node != "" && !(b.Rollout != nil && b.Rollout.Stage.Begun()) { // a user deletes it
			f.replace(b, f.in.Target.Version.Version)
		}
	case 3:
		f.in.Target = rollout.Target{Version: version(f.in.Target.Version.Version + 1), Synced: true}
		f.bad[f.in.Target.Version.Version] = f.r.IntN(3) == 0
	case 4:
		f.in.Strategy.Paused = !f.in.Strategy.Paused
	case 5:
		f.in.Strategy.ConfigurationPaused = !f.in.Strategy.ConfigurationPaused
	case 6:
		b.Leaves = map[string]string{"": "its instance is condemned"}[b.Leaves]
	case 7:
		b.Waits = map[string]string{"": "on hold"}[b.Waits]
	case 8:
		b.Follows = !b.Follows
	case 9:
		f.in.Strategy.Resume = true
	case 10:
		f.in.Strategy.Rolling = !f.in.Strategy.Rolling
	case 11:
		f.in.Target.Bad = map[bool]time.Time{true: f.now}[f.bad[f.in.Target.Version.Version]]
	}
}

// replace has a machine without a Node build another one.
func (f *fleet) replace(b *box, to int32) {
	b.Node, b.builds, b.joins = "", to, f.now.Add(time.Duration(20+f.r.IntN(200))*time.Second)
	b.Failed = hostsv1.VersionReference{}
}

// decide carries out what is decided, and checks every step.
func (f *fleet) decide() rollout.Decision {
	f.in.Machines = nil
	for _, b := range f.machines {
		f.in.Machines = append(f.in.Machines, b.Machine)
	}
	d := rollout.Decide(f.in, f.now)
	if f.r.IntN(50) == 0 {
		before := f.written(f.in)
		if again := rollout.Decide(f.in, f.now); f.written(d) != f.written(again) || f.written(f.in) != before {
			f.t.Fatal("a decision is not a function of its arguments")
		}
	}
	for _, s := range d.Steps {
		f.carryOut(d, s)
	}
	f.remember(d)
	return d
}

func (f *fleet) written(v any) string {
	f.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(data)
}

// remember keeps what the status would.
func (f *fleet) remember(d rollout.Decision) {
	f.in.Strategy.Resume = f.in.Strategy.Resume && !d.Resumed
	f.in.Progress = rollout.Progress{}
	if r := d.Rollout; r != nil {
		f.in.Progress.Target = r.Target
		if r.StartedAt != nil {
			f.in.Progress.StartedAt = r.StartedAt.Time
		}
		if r.ResumedAt != nil {
			f.in.Progress.ResumedAt = r.ResumedAt.Time
		}
	}
	if d.Halted.True {
		f.in.Progress.Halted, f.in.Progress.HaltedWhy = d.Halted.Reason, d.Halted.Message
	}
}

func (f *fleet) begun() (n int) {
	for _, b := range f.machines {
		if b.Rollout != nil && b.Rollout.Stage.Begun() {
			n++
		}
	}
	return n
}

// unavailable are the machines that nobody can use, and those that are begun.
func (f *fleet) unavailable() (n int) {
	for _, b := range f.machines {
		if b.Follows && b.Down != "" || b.Rollout != nil && b.Rollout.Stage.Begun() {
			n++
		}
	}
	return n
}

func (f *fleet) carryOut(d rollout.Decision, s rollout.Step) {
	f.t.Helper()
	i := slices.IndexFunc(f.machines, func(b *box) bool { return b.Name == s.Machine })
	b := f.machines[i]
	f.log = append(f.log, fmt.Sprintf("%s %s %s: %s", f.now.Format("15:04:05"), s.Action, s.Machine, s.Reason))
	wrong := func(format string, args ...any) {
		f.t.Helper()
		f.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), f.tail())
	}
	was := b.Rollout
	switch s.Action {
	case rollout.Begin:
		f.begins++
		b.Rollout, b.started = s.Rollout, s.Rollout.VersionReference
		b.drains = f.now.Add(time.Duration(f.r.IntN(400)) * time.Second)
		if f.r.IntN(15) == 0 {
			b.drains = time.Time{}
		}
		switch open, _ := windows.Open(f.in.Strategy.Windows, f.now); {
		case f.begun() > d.Budget:
			wrong("%d machines are begun, and %d may be", f.begun(), d.Budget)
		case b.Down == "" && f.unavailable() > d.Budget:
			wrong("%d machines are unavailable, and %d may be", f.unavailable(), d.Budget)
		case !open:
			wrong("%s is begun while no window is open", b.Name)
		case f.in.Strategy.Paused, f.in.Strategy.ConfigurationPaused, !f.in.Strategy.Rolling, d.Halted.True:
			wrong("%s is begun in a rollout that does not go on", b.Name)
		case !b.Follows, b.Leaves != "", b.Waits != "", b.Rebuilding, was != nil && was.Stage.Begun():
			wrong("%s is begun: %+v", b.Name, b.Machine)
		}
		return
	case rollout.Replace:
		if b.Node == was.NodeUID && !b.Drained {
			wrong("the Node of %s is deleted with Pods on it", b.Name)
		}
		if b.Node == was.NodeUID {
			f.replace(b, was.Version)
		}
	case rollout.Delete:
		wrong("the Node of %s was deleted already", b.Name)
	case rollout.Skip:
		if b.Drained || f.now.Before(was.Until.Time) {
			wrong("%s is skipped before its time", b.Name)
		}
	case rollout.Abandon:
		if was.Stage != hostsv1.RolloutDraining {
			wrong("%s is left as it was, without its Node", b.Name)
		}
	case rollout.Finish:
		if b.Node == was.NodeUID || f.now.Sub(b.ReadySince) < f.in.Strategy.MinReady || b.ReadySince.IsZero() {
			wrong("%s is done: %+v", b.Name, b.Machine)
		}
	case rollout.Fail, rollout.Clear:
	}
	if s.Rollout != nil && s.Rollout.VersionReference != b.started {
		wrong("%s was begun for %+v, and is brought to %+v", b.Name, b.started, s.Rollout)
	}
	b.Rollout = s.Rollout
}

func (f *fleet) tail() (text string) {
	for _, line := range f.log[max(0, len(f.log)-25):] {
		text += line + "\n"
	}
	return text
}

// M66, M67, M68, M69, M94, M96: over random fleets, budgets, windows and mishaps no step ever takes more machines
// away than may be unavailable, nothing begins in a rollout that does not go on, no Node is deleted with Pods on it,
// and a machine that was begun is brought to the version that it was begun for. When nothing happens any more, all
// machines run the newest version.
func TestM66M67M68M69M94M96_RandomFleets(t *testing.T) {
	begins := 0
	for seed := range uint64(60) {
		f := newFleet(t, seed)
		for range 800 {
			f.happen()
			f.decide()
		}
		f.settle()
		var d rollout.Decision
		for i := 0; ; i++ {
			f.happen()
			if d = f.decide(); d.Rolling.Reason == hostsv1.ReasonUpToDate {
				break
			}
			if i > 20_000 {
				t.Fatalf("seed %d: after two days: %+v, %+v\n%s", seed, d.Rolling, d.Order, f.tail())
			}
		}
		for _, b := range f.machines {
			if b.Follows && b.Applied != f.in.Target.Version {
				t.Fatalf("seed %d: %s runs %+v", seed, b.Name, b.Applied)
			}
		}
		begins += f.begins
	}
	if begins < 800 {
		t.Errorf("%d machines were begun: too few to show anything", begins)
	}
}

// settle ends all mishaps: the next version is good, and users leave everything alone.
func (f *fleet) settle() {
	f.calm = true
	n := f.in.Target.Version.Version + 1
	f.in.Target = rollout.Target{Version: version(n), Synced: true}
	s := &f.in.Strategy
	s.Rolling, s.Paused, s.ConfigurationPaused = true, false, false
	for _, b := range f.machines {
		b.Leaves, b.Waits, b.sick = "", "", time.Time{}
	}
	f.bad = map[int32]bool{}
}
