package rollout

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/hosts/rollout"
)

// Requests are the drains that rollouts ask for. Its zero value is ready, and it is safe for concurrent
// use.
type Requests struct {
	mu     sync.Mutex
	wanted map[string]map[string]request // by configuration, by instance
}

// request asks for the drain of a Node.
type request struct {
	node string // its UID
	drain.Request
}

// reasonRollout is the reason of the drains.
const reasonRollout = "rollout"

// Source returns a source of the drain engine, which asks for nothing as long as one of the others asks
// for the drain of an instance: those have the end of the instance in view, and may force it.
//
// A drain that an earlier process began goes on until this one has looked at the rollout that it is of.
func (q *Requests) Source(others ...drain.Source) drain.Source {
	return func(t drain.Target, now time.Time) (drain.Request, bool) {
		for _, other := range others {
			if r, asks := other(t, now); asks && !r.Withdrawn {
				return drain.Request{}, false
			}
		}
		return q.of(t)
	}
}

func (q *Requests) of(t drain.Target) (drain.Request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, all := range q.wanted {
		if r, asks := all[t.ID()]; asks && (t.Node == "" || string(t.Node) == r.node) {
			return r.Request, true
		}
	}
	configuration, ours := rollout.ConfigurationOf(t.State.Instruction)
	if !ours {
		return drain.Request{}, false
	}
	if _, looked := q.wanted[configuration]; !looked {
		return t.Remembered(), true
	}
	return drain.Request{Instance: t.ID(), Instruction: t.State.Instruction, Withdrawn: true}, true
}

// set says which Nodes a configuration's rollout has drained now, and returns the instances for which that
// is something new.
func (q *Requests) set(configuration string, wanted map[string]request) (changed []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.wanted[configuration]
	if q.wanted == nil {
		q.wanted = map[string]map[string]request{}
	}
	q.wanted[configuration] = wanted
	for instance, r := range wanted {
		if before, asked := was[instance]; !asked || before != r {
			changed = append(changed, instance)
		}
	}
	for instance := range was {
		if _, asks := wanted[instance]; !asks {
			changed = append(changed, instance)
		}
	}
	slices.Sort(changed)
	return changed
}

// forget forgets a configuration that is gone. A drain of it that is still written on a Node is withdrawn.
func (q *Requests) forget(configuration string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.wanted[configuration]) == 0 {
		delete(q.wanted, configuration)
	}
}

// requestsOf are the drains of the machines that a rollout has begun and whose Nodes are there.
func requestsOf(machines []hostsv1.HostMachine, begun map[string]*hostsv1.MachineRollout) map[string]request {
	wanted := map[string]request{}
	for i := range machines {
		m := &machines[i]
		r := begun[m.Name]
		if r == nil || !r.Stage.Begun() || r.NodeUID == "" || m.Spec.Instance == nil {
			continue
		}
		of := request{node: r.NodeUID}
		of.Instance, of.Reason, of.Instruction, of.Force = string(m.Spec.Instance.ID), reasonRollout, rollout.Instruction(r), drain.Never
		if r.StartedAt != nil {
			of.Decided = r.StartedAt.Time
		}
		if r.Until != nil {
			of.Deadline = r.Until.Time
		}
		wanted[of.Instance] = of
	}
	return wanted
}

// drained is whether the engine has said on a Node that it is empty.
func drained(n *corev1.Node, instruction string) bool {
	return n.Annotations[infrav1.AnnotationDrainRequest] == instruction && infrav1.DrainPhase(n.Annotations[infrav1.AnnotationDrainPhase]) == infrav1.DrainDone
}
