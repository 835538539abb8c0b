package creation

import (
	"maps"
	"slices"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/placement"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// How long what was done is remembered. Figures and states in the cluster's list are
// as old as the last round of the nodes' daemons, some ten seconds.
const (
	settling       = time.Minute      // after a create: its machine counts as used, and as young
	abandonedAfter = 15 * time.Minute // a create that nobody asks for any more
	marksKept      = time.Hour        // of ids that were deleted
	avoidFor       = time.Minute      // a node that has failed
)

// Registry is what a driver remembers: creates on their way, ids that were deleted, and
// nodes that have failed. Losing it costs nothing but comfort, see the package.
type Registry struct {
	mu     sync.Mutex
	jobs   map[identity.ID]*job
	marks  map[identity.ID]time.Time
	failed map[string]time.Time // nodes
	now    func() time.Time
}

// NewRegistry returns a registry that remembers nothing yet.
func NewRegistry(now func() time.Time) *Registry {
	return &Registry{jobs: map[identity.ID]*job{}, marks: map[identity.ID]time.Time{}, failed: map[string]time.Time{}, now: now}
}

// tidy forgets what is old. The caller locks.
func (r *Registry) tidy() {
	now := r.now()
	maps.DeleteFunc(r.marks, func(_ identity.ID, at time.Time) bool { return now.Sub(at) > marksKept })
	maps.DeleteFunc(r.failed, func(_ string, at time.Time) bool { return now.Sub(at) > avoidFor })
	for id, j := range r.jobs {
		if j.over(now) {
			j.release()
			delete(r.jobs, id)
		}
	}
}

// job returns the create of an instance that is on its way or has just ended; nil if
// there is none.
func (r *Registry) job(id identity.ID) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	return r.jobs[id]
}

// begin remembers a new create.
func (r *Registry) begin(req driver.CreateRequest, want rules.Settings) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := &job{request: req, want: want, quit: make(chan struct{})}
	j.touched = r.now()
	r.jobs[req.InstanceID] = j
	return j
}

// update changes what others may know of a create.
func (r *Registry) update(j *job, change func(p *progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&j.progress)
	j.touched = r.now()
}

// Forget forgets a create.
func (r *Registry) Forget(id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[id]; j != nil {
		j.release()
		delete(r.jobs, id)
	}
}

// MarkDeleted remembers that an instance is to be deleted, and stops its create.
func (r *Registry) MarkDeleted(id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	r.marks[id] = r.now()
	if j := r.jobs[id]; j != nil {
		j.stop()
	}
}

// Deleted reports whether an instance was to be deleted, in the last hour.
func (r *Registry) Deleted(id identity.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.marks[id]
	return ok
}

// avoid remembers that a node has failed.
func (r *Registry) avoid(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[node] = r.now()
}

// claims are what creates will take of the nodes that the cluster's list does not show.
type claims struct {
	taken  map[string]placement.Need // by node
	group  []api.VM                  // machines of the group in question
	failed []string                  // nodes, lately
}

// reserve has where choose a node for a create, and notes the choice at once. shown are the
// numbers of machines whose memory the list shows as theirs.
func (r *Registry) reserve(j *job, n placement.Need, shown map[int]bool, where func(claims) (node string, ok bool)) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	j.need, j.at = placement.Need{}, api.VM{}
	node, ok := where(r.claims(j, shown))
	if ok {
		j.need, j.at.Node = n, node
	}
	return node, ok
}

func (r *Registry) claims(of *job, shown map[int]bool) claims {
	c := claims{taken: map[string]placement.Need{}, failed: slices.Sorted(maps.Keys(r.failed))}
	for _, j := range r.jobs {
		if j == of || j.at.Node == "" {
			continue
		}
		if j.request.Owner == of.request.Owner && j.group() == of.group() && of.group() != "" {
			c.group = append(c.group, j.at)
		}
		if shown[j.at.Number] {
			continue
		}
		n := c.taken[j.at.Node]
		n.Memory += j.need.Memory
		n.Cores += j.need.Cores
		c.taken[j.at.Node] = n
	}
	return c
}

// Underway returns the machines of an owner that are being made, by the number that was
// asked for.
func (r *Registry) Underway(owner driver.Owner) map[identity.ID]api.VM {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	list := map[identity.ID]api.VM{}
	for id, j := range r.jobs {
		if j.sent && j.done.IsZero() && j.request.Owner == owner {
			list[id] = j.at
		}
	}
	return list
}

// Making reports whether a machine is being made: a clone was asked for, and the
// create has not ended.
func (r *Registry) Making(id identity.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	return j != nil && j.sent && j.done.IsZero()
}

// InFlight returns where a machine will be that is being made and not to be deleted; false
// if there is none.
func (r *Registry) InFlight(id identity.ID) (api.VM, bool) {
	j := r.job(id)
	if j == nil || r.Deleted(id) || !r.Making(id) {
		return api.VM{}, false
	}
	return r.progress(j).at, true
}

// Made reports whether this driver made a machine of that id there, a short while ago.
func (r *Registry) Made(id identity.ID, m api.VM) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	return j != nil && j.at == m
}

// progress is how far a create has come.
func (r *Registry) progress(j *job) progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return j.progress
}
