package transition_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/transition"
)

// errKilled is what a process says no more, because it was killed.
var errKilled = errors.New("killed")

type tree struct {
	content string // the hash; what was assigned under it
	epoch   int64
	whole   bool
}

type machine struct {
	bootID  string
	kubelet bool
	orphan  bool
}

// rules are the functions under test; a mistake replaces one.
type rules struct {
	next   func(transition.View) transition.Step
	after  func(transition.View, transition.Step, transition.Result) (journal.Journal, bool)
	accept func(journal.Journal, *assignment.Assignment, assignment.Assignment) (bool, error)
}

func right() rules { return rules{transition.Next, transition.After, accept} }

// accept is for a host that is not reset.
func accept(j journal.Journal, stored *assignment.Assignment, a assignment.Assignment) (bool, error) {
	return transition.Accept(j, stored, 0, a)
}

// world is a host with a disk, machines and an API server, in memory. Every write may be the last
// thing that the process does.
type world struct {
	rules
	rng *rand.Rand
	now time.Time

	disk     []byte // the journal
	stored   *assignment.Assignment
	trees    map[journal.Slot]tree
	building *tree // node-x.new
	enabled  journal.Slot
	machines map[journal.Slot]machine

	credential int64           // the epoch for which one is there
	bad        map[string]bool // contents that never join
	joined     string          // boot ID of the Node's kubelet
	good       journal.Slot    // the slot that last joined
	accepted   map[int64]string
	idle       time.Time
	faults     bool
	violated   []string
	boots      int
}

func newWorld(seed uint64, r rules) *world {
	return &world{
		rules: r, rng: rand.New(rand.NewPCG(seed, 19)), now: now, trees: map[journal.Slot]tree{}, machines: map[journal.Slot]machine{},
		bad: map[string]bool{}, accepted: map[int64]string{}, faults: true,
	}
}

func (w *world) violate(format string, args ...any) {
	w.violated = append(w.violated, fmt.Sprintf(format, args...))
}

func (w *world) chance(percent int) bool { return w.faults && w.rng.IntN(100) < percent }

// write is one durable change; the process may be killed before or after it.
func (w *world) write(change func()) error {
	if w.chance(4) {
		return errKilled
	}
	change()
	if w.chance(4) {
		return errKilled
	}
	return nil
}

func (w *world) load() journal.Journal {
	if w.disk == nil {
		return journal.Journal{V: journal.Version}
	}
	j, err := journal.Decode(w.disk)
	if err != nil {
		w.violate("the journal cannot be read: %v", err)
	}
	return j
}

// assign is what the operator sends.
func (w *world) assign(a assignment.Assignment) {
	fresh, err := w.accept(w.load(), w.stored, a)
	if err != nil || !fresh {
		return
	}
	if before, ok := w.accepted[a.Epoch]; ok && before != a.Configuration.Hash {
		w.violate("epoch %d was accepted with two contents", a.Epoch)
	}
	w.accepted[a.Epoch] = a.Configuration.Hash
	w.stored, w.credential = &a, a.Epoch
}

func (w *world) view(j journal.Journal) transition.View {
	v := transition.View{Journal: j, Assignment: w.stored, Slots: map[journal.Slot]transition.Observed{}, Now: w.now, Idle: w.idle, DiskLow: w.chance(10)}
	for _, slot := range journal.Slots() {
		var o transition.Observed
		if m, ok := w.machines[slot]; ok {
			o = transition.Observed{Phase: journal.Running, BootID: m.bootID, Kubelet: m.kubelet}
			if m.orphan {
				o.Phase = journal.Orphan
			}
		}
		if tree := w.trees[slot]; tree.whole {
			o.Reusable = tree.content
		}
		v.Slots[slot] = o
	}
	if w.stored != nil {
		v.Credential = w.credential == w.stored.Epoch && (j.Transition == nil || j.Transition.Epoch == w.stored.Epoch)
	}
	if t := j.Transition; t != nil {
		v.Credential = w.credential == t.Epoch
		if m, ok := w.machines[t.To]; ok && m.kubelet && !m.orphan && !w.bad[w.trees[t.To].content] {
			w.joined = m.bootID
			v.Confirmed = &transition.Confirmation{Epoch: t.Epoch, NodeUID: "node-" + m.bootID, BootID: m.bootID}
		} else {
			v.Confirmed = &transition.Confirmation{Epoch: t.Epoch, NodeUID: "stale", BootID: w.joined} // the Node of before
		}
	}
	return v
}

// pass is one decision with its step. It reports whether there was anything to do.
func (w *world) pass() (busy bool, err error) {
	j := w.load()
	v := w.view(j)
	step := w.next(v)
	if step.Kind == transition.AskForSecret {
		w.credential = j.Transition.Epoch
		return true, nil
	}
	if step.Kind == transition.Wait {
		w.now = step.Until
		return v.Now.Before(v.Idle) || j.Transition != nil && !j.Transition.Marks.Held || w.stored != nil && w.stored.Epoch > j.Epoch, nil
	}
	result, err := w.do(j, step)
	if errors.Is(err, errKilled) {
		return true, err
	}
	result.Err, result.Now = err, w.now
	w.idle = time.Time{}
	if err != nil {
		w.idle = w.now.Add(10 * time.Second)
	}
	next, changed := w.after(v, step, result)
	if !changed {
		return true, nil
	}
	text, err := journal.Encode(next)
	if err != nil {
		w.violate("after %s of %s: %v", step.Kind, step.Slot, err)
		return false, nil
	}
	return true, w.write(func() { w.disk = text })
}

var errFault = errors.New("no luck")

// do carries a step out on the fake host.
func (w *world) do(j journal.Journal, step transition.Step) (r transition.Result, err error) {
	slot := step.Slot
	switch step.Kind {
	case transition.KillSlot, transition.StopSlot, transition.RetireSlot:
		if step.Kind == transition.RetireSlot {
			if err := w.write(func() { w.enabled = journal.None }); err != nil {
				return r, err
			}
		}
		return r, w.write(func() { delete(w.machines, slot) })
	case transition.StopKubelet, transition.GiveUp, transition.TakeOver, transition.Refuse:
		if step.Kind == transition.GiveUp {
			if err := w.write(func() { w.enabled = slot }); err != nil {
				return r, err
			}
		}
		m, ok := w.machines[slot]
		if !ok || m.orphan {
			return r, nil
		}
		m.kubelet = step.Kind != transition.StopKubelet
		return r, w.write(func() { w.machines[slot] = m })
	case transition.FetchRoot, transition.RecordHost, transition.CheckGuards:
		if w.chance(30) {
			return r, errFault
		}
	case transition.BuildSlot:
		return r, w.build(j, slot)
	case transition.RefreshSlot:
		w.destroys(j, slot)
		if tree := w.trees[slot]; tree.content != j.Transition.Assignment.Configuration.Hash || !tree.whole || w.chance(10) {
			return r, errFault
		}
		w.trees[slot] = tree{j.Hash, j.Epoch, true}
	case transition.BootSlot, transition.LookAgain:
		return w.boot(slot)
	case transition.StartActive:
		if r, err = w.boot(slot); err == nil {
			err = w.write(func() { w.enabled = slot })
		}
		return r, err
	case transition.EnableSlot:
		return r, w.write(func() { w.enabled, w.good = slot, slot })
	case transition.SweepSlots:
		return r, w.write(func() { w.building = nil })
	case transition.FreeSlot:
		w.destroys(j, slot)
		return r, w.write(func() { delete(w.trees, slot) })
	}
	return r, nil
}

func (w *world) build(j journal.Journal, slot journal.Slot) error {
	if w.chance(10) {
		return errFault
	}
	a := j.Transition.Assignment
	if err := w.write(func() { w.building = &tree{a.Configuration.Hash, a.Epoch, false} }); err != nil {
		return err
	}
	w.destroys(j, slot)
	if err := w.write(func() { delete(w.trees, slot) }); err != nil {
		return err
	}
	return w.write(func() { w.trees[slot], w.building = tree{a.Configuration.Hash, a.Epoch, true}, nil })
}

// destroys is the moment in which what a slot held is lost.
func (w *world) destroys(j journal.Journal, slot journal.Slot) {
	if _, ok := w.machines[slot]; ok {
		w.violate("the tree of %s is changed under a running machine", slot.Machine())
	}
	if slot == w.good {
		w.violate("the tree of %s is lost before another machine has joined", slot.Machine())
	}
}

func (w *world) boot(slot journal.Slot) (r transition.Result, err error) {
	if m, ok := w.machines[slot.Other()]; ok {
		w.violate("%s is started while %s runs (boot %s)", slot.Machine(), slot.Other().Machine(), m.bootID)
	}
	if tree := w.trees[slot]; !tree.whole {
		w.violate("%s is started from a tree that is not whole", slot.Machine())
	}
	if w.chance(10) {
		return r, errFault
	}
	m, ok := w.machines[slot]
	if !ok {
		m = w.started()
		if err := w.write(func() { w.machines[slot] = m }); err != nil {
			return r, err
		}
	}
	return transition.Result{BootID: m.bootID, CredentialUntil: w.now.Add(time.Hour)}, nil
}

func (w *world) started() machine {
	w.boots++
	return machine{bootID: fmt.Sprintf("boot-%d", w.boots), kubelet: true}
}

// misfortune is what happens to a host beside the paver.
func (w *world) misfortune() {
	slot := journal.Slots()[w.rng.IntN(2)]
	switch m, ok := w.machines[slot]; {
	case w.chance(3) && ok: // systemd-nspawn is killed; the payload lives on
		m.orphan = true
		w.machines[slot] = m
	case w.chance(2) && ok: // the machine ends by itself
		delete(w.machines, slot)
	case w.chance(2) && ok && !m.orphan: // and is started again by its own unit
		w.machines[slot] = w.started()
	case w.chance(2): // the host reboots: what is on a tmpfs is lost, the enabled slot boots
		clear(w.machines)
		w.credential = 0
		if w.enabled != journal.None {
			w.machines[w.enabled] = w.started()
		}
	}
}
