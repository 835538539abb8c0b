package machine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/operator/shards"
)

// memory holds what came of the calls of this process. What it forgets costs one call
// more, never another instance. The zero value is ready; it is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	tried map[types.UID]Tried
}

func (m *memory) get(uid types.UID) Tried {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tried[uid]
}

func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tried, uid)
}

// note changes what is known of a machine's calls. Those for an earlier instance are
// forgotten, save when users were warned.
func (m *memory) note(uid types.UID, instance string, change func(*Tried)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tried == nil {
		m.tried = map[types.UID]Tried{}
	}
	t := m.tried[uid]
	if t.Instance != instance {
		t = Tried{Instance: instance, WarnedAt: t.WarnedAt}
	}
	change(&t)
	m.tried[uid] = t
}

// refuse notes a deletion that failed.
func (t *Tried) refuse(err error, now time.Time) {
	t.DeleteFailures++
	t.DeleteFailedAt, t.DeleteMessage = now, err.Error()
}

// failed notes an attempt to create that failed.
func (t *Tried) failed(err error, about string, now time.Time) {
	t.CreateAt, t.About = now, about
	t.Failures++
	t.Class, t.Message = shards.ClassOf(err), err.Error()
}
