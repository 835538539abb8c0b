package transition_test

import (
	"fmt"
	"testing"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/transition"
)

// live lets a host live through a few assignments with crashes and faults, then without, and
// returns what is wrong.
func live(seed uint64, r rules) []string {
	w := newWorld(seed, r)
	epoch := int64(0)
	for range 1 + w.rng.IntN(4) {
		epoch++
		mode := assignment.Repave
		if w.good == journal.None {
			mode = assignment.Pave
		}
		digit := fmt.Sprintf("%x", w.rng.IntN(6))
		a := order(epoch, mode, digit)
		if w.rng.IntN(4) == 0 {
			a.Hold = true
		}
		if w.good != journal.None && w.rng.IntN(3) == 0 && w.trees[w.good].content != a.Configuration.Hash {
			w.bad[a.Configuration.Hash] = true
		}
		w.assign(a)
		if w.rng.IntN(3) == 0 { // an operator that was restored from a backup
			w.assign(order(epoch, mode, fmt.Sprintf("%x", w.rng.IntN(16))))
			w.assign(order(epoch-1, mode, digit))
		}
		for range 5 + w.rng.IntN(60) {
			w.misfortune()
			if _, err := w.pass(); err == nil && len(w.violated) > 0 {
				return w.violated
			}
		}
	}
	return w.settle()
}

// settle lets the rest happen without faults, and looks at how it ends.
func (w *world) settle() []string {
	w.faults = false
	for range 500 {
		busy, _ := w.pass()
		if len(w.violated) > 0 {
			return w.violated
		}
		if !busy {
			w.expectQuiet()
			return w.violated
		}
	}
	return append(w.violated, fmt.Sprintf("does not settle: %+v", w.load().Transition))
}

func (w *world) expectQuiet() {
	j := w.load()
	if t := j.Transition; t != nil { // held
		if len(w.machines) > 1 {
			w.violate("held, and %d machines run", len(w.machines))
		}
		return
	}
	m, ok := w.machines[j.Active]
	switch {
	case len(w.machines) != 1 || !ok || m.orphan:
		w.violate("%d machines run, and the active slot is %q", len(w.machines), j.Active)
		return
	case !m.kubelet:
		w.violate("the kubelet of %s does not run", j.Active.Machine())
	case w.bad[w.trees[j.Active].content]:
		w.violate("%s runs, which cannot join", j.Active.Machine())
	case w.building != nil:
		w.violate("node-x.new is left over")
	case w.enabled != j.Active:
		w.violate("%q is enabled, and %q is active", w.enabled, j.Active)
	case j.Contents[j.Active].Configuration.Hash != w.trees[j.Active].content:
		w.violate("the journal says that %s holds something else", j.Active.Machine())
	}
	tree := w.trees[j.Active]
	if want := w.accepted[tree.epoch]; want != tree.content {
		w.violate("epoch %d was accepted with content %.10s, and %.10s was built", tree.epoch, want, tree.content)
	}
	if last := w.stored; j.Outcome == nil && j.Contents[j.Active].Configuration.Hash != last.Configuration.Hash {
		w.violate("nothing failed, and %.10s runs instead of %.10s", tree.content, last.Configuration.Hash)
	}
}

const seeds = 400

// TestM58_CrashAtEveryWrite: killed before or after any write, with machines that die, hosts that
// reboot and steps that fail, a host ends with one machine, whose Node joins, and nothing is left
// over; and the old machine's tree is there until the new one has joined.
func TestM58_CrashAtEveryWrite(t *testing.T) {
	for seed := range uint64(seeds) {
		if wrong := live(seed, right()); len(wrong) > 0 {
			t.Fatalf("seed %d: %q", seed, wrong)
		}
	}
}

// TestMistakesAreFound: rules with one mistake do not pass.
func TestMistakesAreFound(t *testing.T) {
	for name, mistake := range map[string]func(*rules){
		"M58: the old slot is destroyed before the join": func(r *rules) {
			r.next = func(v transition.View) transition.Step {
				if t := v.Journal.Transition; t != nil && t.Stage == journal.Join && t.From != journal.None && v.Slots[t.From].Reusable != "" {
					return transition.Step{Kind: transition.FreeSlot, Slot: t.From}
				}
				return transition.Next(v)
			}
		},
		"M60: the wrong slot is gone back to": func(r *rules) {
			r.after = func(v transition.View, s transition.Step, res transition.Result) (journal.Journal, bool) {
				j, changed := transition.After(v, s, res)
				if t, was := j.Transition, v.Journal.Transition; t != nil && t.Kind == journal.KindRevert && was.Kind == journal.KindBuild {
					t.From, t.To = t.To, t.From
				}
				return j, changed
			}
		},
		"M41: an equal epoch with another hash is accepted": func(r *rules) {
			r.accept = func(j journal.Journal, stored *assignment.Assignment, a assignment.Assignment) (bool, error) {
				return stored == nil || a.Epoch >= stored.Epoch, nil
			}
		},
		"M46: a stale Node is believed": func(r *rules) {
			r.next = func(v transition.View) transition.Step {
				if t := v.Journal.Transition; t != nil && t.Stage == journal.Join && v.Confirmed != nil && v.Slots[t.To].Phase == journal.Running {
					return transition.Step{Kind: transition.ConfirmJoin, Slot: t.To}
				}
				return transition.Next(v)
			}
		},
		"the new slot is started before the old one is down": func(r *rules) {
			r.next = func(v transition.View) transition.Step {
				if t := v.Journal.Transition; t != nil && t.Stage == journal.Retire && t.Kind == journal.KindBuild {
					return transition.Step{Kind: transition.BootSlot, Slot: t.To}
				}
				return transition.Next(v)
			}
		},
		"leftovers are not killed": func(r *rules) {
			r.next = func(v transition.View) transition.Step {
				for slot, o := range v.Slots {
					if o.Phase == journal.Orphan {
						o.Phase = journal.Absent
						v.Slots[slot] = o
					}
				}
				return transition.Next(v)
			}
		},
		"M59: the kubelet of the old machine remains stopped": func(r *rules) {
			r.next = func(v transition.View) transition.Step {
				step := transition.Next(v)
				if step.Kind == transition.GiveUp {
					step.Slot = journal.None
				}
				return step
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := right()
			mistake(&r)
			for seed := range uint64(seeds) {
				if wrong := live(seed, r); len(wrong) > 0 {
					t.Logf("seed %d: %s", seed, wrong[0])
					return
				}
			}
			t.Errorf("not found in %d seeds", seeds)
		})
	}
}
