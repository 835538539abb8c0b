package pavesim

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"nstance.dev/agent/paver/transition"
	"nstance.dev/e2e/sim/pavesim/machine"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// agent is the program between a leader and a paver: it remembers the last word of each kind, as the
// real one does, and says it again to a paver that starts.
type agent struct {
	up     bool
	away   time.Time // until when it reaches no leader
	held   [3]*nstancev1.MachineWork
	told   [3]bool
	last   *nstancev1.MachineStatus // that was handed on
	lastAt time.Time
}

// take takes a word in.
func (a *agent) take(m *nstancev1.MachineWork) {
	kind := 0
	switch work := m.GetWork().(type) {
	case *nstancev1.MachineWork_Assignment:
		if a.held[0].GetAssignment().GetEpoch() != work.Assignment.GetEpoch() {
			a.held[1], a.held[2] = nil, nil
		}
	case *nstancev1.MachineWork_CredentialUpdate:
		kind = 1
	case *nstancev1.MachineWork_NodeConfirmed:
		kind = 2
	case *nstancev1.MachineWork_Operation, *nstancev1.MachineWork_CancelOperation:
		return // those are handed on at once, and a leader repeats them
	}
	a.held[kind], a.told[kind] = m, false
}

// next is the kind of word that the paver was not told; negative: there is none.
func (a *agent) next() int {
	for kind, m := range a.held {
		if m != nil && !a.told[kind] {
			return kind
		}
	}
	return -1
}

// agentOf adds what the agent of a host can do.
func (w *world) agentOf(h *host, now time.Time, can func(time.Time, func())) {
	a := &h.agent
	switch {
	case !a.up:
		return
	case a.away.After(now):
		can(a.away, func() {})
	case !w.shard.Connected(h.id) && w.shard.Leads():
		can(now, func() {
			a.last = nil
			w.shard.Connect(h.id)
			w.notef("%s: the agent connects", h.name)
		})
	case w.shard.Waits(h.id):
		can(now, func() {
			m := w.shard.Take(h.id)
			w.notef("%s: the agent hears %.40v", h.name, describe(m))
			a.take(m)
			if m.GetOperation() != nil || m.GetCancelOperation() != nil {
				if h.Up() && !w.chance("lost") {
					h.Take(m)
				}
			}
		})
	}
	if !h.Up() {
		return
	}
	if kind := a.next(); kind >= 0 {
		can(now, func() {
			a.told[kind] = !w.chance("repeat")
			h.Take(proto.CloneOf(a.held[kind]))
			if kind == 0 {
				w.strange(h, a.held[0].GetAssignment())
			}
		})
	}
	if s := h.Status(); s != nil && w.shard.Connected(h.id) && (!alike(s, a.last) || now.Sub(a.lastAt) >= 30*time.Second) {
		can(now, func() {
			a.last, a.lastAt = s, now
			w.shard.Status(h.id, proto.CloneOf(s))
			w.notef("%s: reports epoch %d, %v", h.name, s.GetEpoch(), s.GetStage())
		})
	}
}

// strange gives a paver what it has to ignore: an assignment of before that comes late, and one of the
// epoch that it has just accepted, with the content of another.
func (w *world) strange(h *host, now *nstancev1.MachineAssignment) {
	for _, was := range h.told {
		late := was.GetEpoch() < now.GetEpoch() && w.chance("late")
		forged := was.GetConfiguration().GetHash() != now.GetConfiguration().GetHash() && w.chance("forged")
		if !late && !forged {
			continue
		}
		m := proto.CloneOf(was)
		if forged {
			m.Epoch = now.GetEpoch()
		}
		w.notef("%s: the paver gets epoch %d of %s-v%d", h.name, m.GetEpoch(), m.GetConfiguration().GetName(), m.GetConfiguration().GetVersion())
		h.Take(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: m}})
	}
	h.told = append(h.told, proto.CloneOf(now))
}

// alike is whether two reports say the same, but for when.
func alike(a, b *nstancev1.MachineStatus) bool {
	if b == nil {
		return false
	}
	x, y := proto.CloneOf(a), proto.CloneOf(b)
	x.ReportedAt, y.ReportedAt = nil, nil
	return proto.Equal(x, y)
}

// describe says what a word is, without what is secret in it.
func describe(m *nstancev1.MachineWork) string {
	switch work := m.GetWork().(type) {
	case *nstancev1.MachineWork_Assignment:
		return fmt.Sprintf("assignment %d", work.Assignment.GetEpoch())
	case *nstancev1.MachineWork_CredentialUpdate:
		return fmt.Sprintf("credential %d/%d", work.CredentialUpdate.GetEpoch(), work.CredentialUpdate.GetSequence())
	case *nstancev1.MachineWork_NodeConfirmed:
		return fmt.Sprintf("confirmation of %s", work.NodeConfirmed.GetNodeUid())
	case *nstancev1.MachineWork_Operation:
		return fmt.Sprintf("operation %s", work.Operation.GetId())
	case *nstancev1.MachineWork_CancelOperation:
		return fmt.Sprintf("cancellation of %s", work.CancelOperation.GetId())
	}
	return "nothing"
}

// startPaver starts the paver of a host, which its agent tells everything again.
func (w *world) startPaver(h *host) {
	if h.Up() {
		return
	}
	if err := h.Start(); err != nil {
		panic(fmt.Sprintf("pavesim: %v", err))
	}
	h.agent.told = [3]bool{}
	w.oracle.started(h)
	w.notef("%s: a paver starts", h.name)
}

// goOn lets a look or a step of a paver go on, or kills it in it.
func (w *world) goOn(h *host, c *machine.Parked) {
	var v machine.Verdict
	if c.Down {
		v.Before, v.After = w.chance("dies"), w.chance("dies")
		w.notef("%s: it goes down for an operation%s", h.name, map[bool]string{true: ", and the paver is killed"}[v.Before || v.After])
		if !v.Before {
			w.oracle.goesDown(h)
		}
		h.Go(v)
		return
	}
	if c.Step == nil {
		v.Before = w.chance("dies-looking")
		h.Go(v)
		return
	}
	w.result.Fired["step "+string(c.Step.Kind)]++
	w.result.Fired["steps"]++
	dies := ""
	if fmt.Sprint(w.result.Fired["steps"]) == w.text("step") {
		dies = w.text("dies")
	}
	switch {
	case dies == "before" || w.chance("dies"):
		v.Before = true
	case dies == "within" || w.chance("dies"):
		v.Within = 1 + w.random.IntN(6)
	case dies == "after" || w.chance("dies"):
		v.After = true
	}
	if !v.Before {
		w.oracle.touches(h, *c.Step)
	}
	w.notef("%s: %s %s: %s%s", h.name, c.Step.Kind, c.Step.Slot, c.Step.Reason, map[bool]string{true: ", and is killed"}[v != machine.Verdict{}])
	h.Go(v)
}

// fetch is what becomes of the download of a content.
func (w *world) fetch(hash string) error {
	if w.bad(hash, lacksImage) {
		return errors.New("the image does not exist")
	}
	return nil
}

// What is wrong with some templates, until the faults end.
const (
	lacksImage = 3 // of each four
	neverJoins = 2
)

// bad is whether the content of a hash has a fault.
func (w *world) bad(hash string, of int) bool {
	n, known := w.hashes[hash]
	return known && n%4 == of && !w.calm && !w.mended[n]
}

// ends are the steps by which a machine is stopped.
func ends(kind transition.Kind) bool {
	switch kind {
	case transition.StopKubelet, transition.RetireSlot, transition.KillSlot, transition.StopSlot, transition.ResetHost:
		return true
	default:
		return false
	}
}
