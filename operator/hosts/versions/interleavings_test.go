package versions

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// world is what the API server stores of one configuration, with what it refuses: a write of
// something that changed meanwhile, a change of a locked version, a deletion of one that a
// machine refers to. It notes what must not happen.
type world struct {
	random   *rand.Rand
	revision int // of whatever was written last

	template      hostsv1.SHA256
	latest        int32
	pending       int32
	configuration int // revision of the configuration
	versions      map[int32]*stored
	machines      [4]int32 // the version that each machine refers to; 0: none
	limit         int

	used       map[int32]bool // numbers of which a version could be locked
	everLocked map[int32]hostsv1.SHA256
	edits      int
	late       int // versions that were created when their number had been used
	wrong      []string
	// mistake, if there is one, makes a write in place of the right one, and says so.
	mistake func(*world, seen, Step) bool
}

type stored struct {
	Version
	revision int
}

func (w *world) fail(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *world) next() int { w.revision++; return w.revision }

func (w *world) referenced() map[int32]bool {
	all := map[int32]bool{}
	for _, n := range w.machines {
		if n != 0 {
			all[n] = true
		}
	}
	return all
}

// seen is what a controller read, maybe some time ago.
type seen struct {
	State
	configuration int
	revisions     map[int32]int
}

func (w *world) read() seen {
	s := seen{
		State:         State{Template: w.template, Latest: w.latest, Pending: w.pending, HistoryLimit: w.limit, Referenced: w.referenced()},
		configuration: w.configuration, revisions: map[int32]int{},
	}
	for _, n := range slices.Sorted(maps.Keys(w.versions)) {
		s.Versions = append(s.Versions, w.versions[n].Version)
		s.revisions[n] = w.versions[n].revision
	}
	return s
}

// write carries a step out as the API server does.
func (w *world) write(s seen, step Step) {
	current := w.configuration == s.configuration
	v := w.versions[step.Number]
	unchanged := v != nil && v.revision == s.revisions[step.Number]
	switch step.Action {
	case Raise, Reserve, Clear:
		if !current {
			return
		}
		if step.Number < w.latest && step.Action != Clear {
			w.fail("the highest number falls from %d to %d", w.latest, step.Number)
		}
		w.configuration = w.next()
		switch step.Action {
		case Raise:
			w.latest = step.Number
		case Reserve:
			w.latest, w.pending = step.Number, step.Number
		case Clear:
			if of := w.versions[w.pending]; of != nil && of.Recorded {
				w.used[w.pending] = true
			}
			w.pending = 0
		}
	case Create: // whatever the configuration is by now: the API server cannot know
		if v != nil {
			return
		}
		if w.used[step.Number] {
			w.late++
		}
		w.versions[step.Number] = &stored{Version{Number: step.Number, Template: s.Template}, w.next()}
	case Record:
		if !unchanged {
			return
		}
		if w.used[step.Number] || step.Number > w.latest {
			w.fail("number %d is used again, or was never reserved", step.Number)
		}
		w.used[step.Number] = w.pending != step.Number
		v.Recorded, v.revision = true, w.next()
	case Copy:
		if !unchanged || v.Deployed {
			return
		}
		v.Template, v.revision = s.Template, w.next()
	case Lock:
		if unchanged {
			w.lock(v)
		}
	case Delete:
		if unchanged {
			w.delete(step.Number)
		}
	}
}

func (w *world) lock(v *stored) {
	if was := w.everLocked[v.Number]; was != "" && was != v.Template {
		w.fail("number %d is locked with %s, and was with %s", v.Number, v.Template, was)
	}
	w.everLocked[v.Number] = v.Template
	v.Deployed, v.revision = true, w.next()
}

// delete is refused for what a machine refers to, as by the policy.
func (w *world) delete(number int32) {
	if !w.referenced()[number] {
		delete(w.versions, number)
	}
}

// assign locks the version for a machine as the host controller does: with what it read, and
// only then the machine refers to it. locked says that it crashed between the two.
func (w *world) assign(s seen, number int32, machine int, crash bool) {
	v := w.versions[number]
	if MayLock(s.State, number) != "" || v == nil || v.revision != s.revisions[number] {
		return
	}
	if !v.Deployed {
		w.lock(v)
	}
	if !crash {
		w.machines[machine] = number
	}
}

func (w *world) check() {
	for n, v := range w.versions {
		if content := w.everLocked[n]; content != "" && v.Recorded && (!v.Deployed || v.Template != content) {
			w.fail("version %d was locked with %s, and now holds %s, locked: %v", n, content, v.Template, v.Deployed)
		}
	}
	for n := range w.referenced() {
		if w.versions[n] == nil {
			w.fail("version %d is gone, and a machine refers to it", n)
		}
	}
}

// controller is one of some that may all believe that they lead. It plans from what it read
// and then writes, one step at a time, and may be stopped between the two.
type controller struct {
	seen  seen
	steps []Step
}

func (w *world) turn(c *controller) {
	if len(c.steps) > 0 {
		if w.mistake == nil || !w.mistake(w, c.seen, c.steps[0]) {
			w.write(c.seen, c.steps[0])
		}
		c.steps = c.steps[1:]
		return
	}
	c.seen = w.read()
	c.steps = Plan(c.seen.State)
}

// story makes one random interleaving of edits, locks, deletions and crashes.
func story(seed uint64, mistake func(*world, seen, Step) bool) *world {
	w := &world{
		mistake: mistake, random: rand.New(rand.NewPCG(seed, 18)), template: "t0", limit: 2, versions: map[int32]*stored{},
		used: map[int32]bool{}, everLocked: map[int32]hostsv1.SHA256{},
	}
	controllers, host := [3]controller{}, seen{}
	some := func() *controller { return &controllers[w.random.IntN(9)/4] } // the third one is slow
	for range 400 {
		switch w.random.IntN(20) {
		case 0, 1:
			w.edits++
			w.template = hostsv1.SHA256(fmt.Sprintf("t%d", w.random.IntN(5)))
			w.configuration = w.next()
		case 2:
			host = w.read()
		case 3, 4:
			if len(host.Versions) > 0 {
				v := host.Versions[w.random.IntN(len(host.Versions))]
				w.assign(host, v.Number, w.random.IntN(len(w.machines)), w.random.IntN(4) == 0)
			}
		case 5:
			w.machines[w.random.IntN(len(w.machines))] = 0
		case 6:
			if all := slices.Sorted(maps.Keys(w.versions)); len(all) > 0 {
				w.delete(all[w.random.IntN(len(all))])
			}
		case 7:
			*some() = controller{} // it crashes and starts again
		case 8:
			w.limit = w.random.IntN(4)
			w.configuration = w.next()
		default:
			w.turn(some())
		}
		w.check()
	}
	w.settle()
	return w
}

// settle lets one controller work until it has nothing to do.
func (w *world) settle() {
	var c controller
	for range 200 {
		w.turn(&c)
		w.check()
	}
	s := w.read()
	if steps := Plan(s.State); len(steps) > 0 {
		w.fail("there is no end: %v", steps)
	}
	sum := Summarize(s.State)
	if !sum.Synced {
		w.fail("the newest version does not hold the template: %+v", s.State)
	}
	for n, v := range w.versions {
		switch {
		case !v.Recorded && !v.Foreign && !w.referenced()[n]:
			w.fail("version %d came too late, and stays", n)
		case v.Recorded && !v.Deployed && n != sum.Editable:
			w.fail("version %d is editable beside version %d", n, sum.Editable)
		}
	}
}

// M22, M24, M27: in 1,000 interleavings of edits, locks, deletions and crashes of three controllers
// no version changes after its lock, no edit is lost, and no number is used twice.
func TestM22M24M27_EditsRaceLocks(t *testing.T) {
	edits, locks, late := 0, 0, 0
	for seed := range uint64(1000) {
		w := story(seed, nil)
		for _, wrong := range w.wrong {
			t.Errorf("seed %d: %s", seed, wrong)
		}
		if t.Failed() {
			return
		}
		edits, locks, late = edits+w.edits, locks+len(w.everLocked), late+w.late
	}
	t.Logf("%d edits, %d locked versions, %d versions that came too late", edits, locks, late)
	if edits < 10000 || locks < 1500 || late < 100 {
		t.Errorf("%d edits, %d locks and %d late versions are too few to show anything", edits, locks, late)
	}
}

// M25: two controllers stopped at each write of a version's creation, one after the other: no
// number gets other content after it was locked, and a foreign object stays as it is.
func TestM25_CrashesAtEveryWrite(t *testing.T) {
	for first := range 5 {
		for second := range 5 {
			for _, taken := range []bool{false, true} {
				w := &world{
					template: "a", limit: 2, versions: map[int32]*stored{},
					used: map[int32]bool{}, everLocked: map[int32]hostsv1.SHA256{},
				}
				if taken {
					w.versions[1] = &stored{Version{Number: 1, Foreign: true, Template: "foreign"}, w.next()}
				}
				for i, turns := range []int{first, second} {
					var c controller
					for range turns {
						w.turn(&c)
					}
					w.template, w.configuration = hostsv1.SHA256(fmt.Sprint("edit ", i)), w.next()
				}
				w.settle()
				if v := w.versions[1]; taken && (v.Template != "foreign" || v.Deployed) {
					t.Errorf("stopped after %d and %d turns: the foreign object is now %+v", first, second, v)
				}
				for n := range w.versions {
					if n > w.latest {
						t.Errorf("stopped after %d and %d turns: version %d exists, the highest number is %d", first, second, n, w.latest)
					}
				}
				for _, wrong := range w.wrong {
					t.Errorf("stopped after %d and %d turns: %s", first, second, wrong)
				}
			}
		}
	}
}

// What the stories must find is found: each of these mistakes breaks one of the promises.
func TestMistakesAreFound(t *testing.T) {
	for name, mistake := range map[string]func(*world, seen, Step) bool{
		"a copy into what was locked meanwhile": func(w *world, s seen, step Step) bool {
			v := w.versions[step.Number]
			if step.Action != Copy || v == nil {
				return false
			}
			v.Template, v.revision = s.Template, w.next()
			return true
		},
		"a number that is reserved below the highest one": func(w *world, _ seen, step Step) bool {
			if step.Action != Reserve || w.latest < 2 {
				return false
			}
			w.latest, w.pending, w.configuration = w.latest-1, w.latest-1, w.next()
			return true
		},
		"a deletion of what a machine refers to": func(w *world, _ seen, step Step) bool {
			if step.Action != Reserve || len(w.referenced()) == 0 {
				return false
			}
			for n := range w.referenced() {
				delete(w.versions, n)
			}
			return true
		},
	} {
		found := false
		for seed := uint64(0); seed < 200 && !found; seed++ {
			found = len(story(seed, mistake).wrong) > 0
		}
		if !found {
			t.Errorf("%s is not found", name)
		}
	}
}
