package ondemand

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// memory is what this process knows of Pods that ask: how far each is, which its owner could
// change on the Pod, and which of them take up room in their namespace. Its zero value is
// ready; it is safe for concurrent use.
type memory struct {
	mu sync.Mutex
	// state has the annotations of state of a Pod, by UID, as they were written last.
	state map[string]map[string]string
	// held is the namespace of each Pod whose Machine is being made, by UID, until the cache
	// shows it.
	held map[string]string
}

// ours are the annotations of a Pod that decisions go by. They are shown on the Pod, and read
// from it only by a process that knows nothing of the Pod yet.
var ours = []string{infrav1.OnDemandState, infrav1.OnDemandTries, infrav1.OnDemandRetried}

// restore returns the Pod with its state as this process knows it, whatever its owner has
// made of it. A process that has just started goes by what is shown, with the tries of the
// machine that was made: then an owner can give up attempts, but has those of before.
func (m *memory) restore(pod *corev1.Pod, infra *infrav1.NstanceMachine) *corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == nil {
		m.state = map[string]map[string]string{}
	}
	uid := string(pod.UID)
	known, ok := m.state[uid]
	if !ok {
		known = map[string]string{}
		for _, key := range ours {
			known[key] = pod.Annotations[key]
		}
		if infra != nil {
			known[infrav1.OnDemandTries] = joinTries(known[infrav1.OnDemandTries], infra.Annotations[infrav1.OnDemandTries])
		}
		m.state[uid] = known
	}
	next := pod.DeepCopy()
	annotate(next, Annotate(maps.Clone(known)))
	return next
}

// note takes in what was written on a Pod.
func (m *memory) note(uid string, notes Annotate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range ours {
		if value, written := notes[key]; written && m.state[uid] != nil {
			m.state[uid][key] = value
		}
	}
}

// forget forgets a Pod that is gone.
func (m *memory) forget(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.state, uid)
	delete(m.held, uid)
}

// reserve counts the Pods of a namespace, without one, that have a Machine or are about to get
// one, and takes a place for that one if there are fewer than limit; 0 is no limit. made are
// the UIDs of the Pods whose Machines the cache shows.
func (m *memory) reserve(namespace, uid string, made []string, limit int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = map[string]string{}
	}
	taken := map[string]bool{}
	for _, one := range made {
		taken[one] = true
		delete(m.held, one) // the cache shows it
	}
	for one, of := range m.held {
		if of == namespace {
			taken[one] = true
		}
	}
	delete(taken, uid)
	if limit == 0 || len(taken) < limit {
		m.held[uid] = namespace
	}
	return len(taken)
}

// release gives a place back that was not used.
func (m *memory) release(uid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, uid)
}

// joinTries returns the tries of two lists, each once.
func joinTries(a, b string) string {
	tries := readTries(a)
	for _, t := range readTries(b) {
		if !slices.ContainsFunc(tries, func(other try) bool { return other.machine == t.machine }) {
			tries = append(tries, t)
		}
	}
	var all []string
	for _, t := range tries {
		all = append(all, t.machine+"@"+t.shard)
	}
	return strings.Join(all, ",")
}
