package proxmox

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// How long what was done is remembered. Figures and states in the cluster's list are
// as old as the last round of the nodes' daemons, some ten seconds.
const (
	settling  = time.Minute      // after a create: its machine counts as used, and as young
	forsaken  = 15 * time.Minute // a create that nobody asks for any more
	marksKept = time.Hour        // of ids that were deleted
	avoidFor  = time.Minute      // a node that has failed
)

// registry is what a driver remembers: creates on their way, ids that were deleted, and
// nodes that have failed. Losing it costs nothing but comfort, see the package.
type registry struct {
	mu     sync.Mutex
	jobs   map[identity.ID]*job
	marks  map[identity.ID]time.Time
	failed map[string]time.Time // nodes
	now    func() time.Time
}

func newRegistry(now func() time.Time) *registry {
	return &registry{jobs: map[identity.ID]*job{}, marks: map[identity.ID]time.Time{}, failed: map[string]time.Time{}, now: now}
}

// tidy forgets what is old. The caller locks.
func (r *registry) tidy() {
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
func (r *registry) job(id identity.ID) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	return r.jobs[id]
}

// begin remembers a new create.
func (r *registry) begin(req driver.CreateRequest, want rules.Settings) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := &job{request: req, want: want, quit: make(chan struct{})}
	j.touched = r.now()
	r.jobs[req.InstanceID] = j
	return j
}

// update changes what others may know of a create.
func (r *registry) update(j *job, change func(p *progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&j.progress)
	j.touched = r.now()
}

// end forgets a create.
func (r *registry) end(id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[id]; j != nil {
		j.release()
		delete(r.jobs, id)
	}
}

// mark remembers that an instance is to be deleted, and stops its create.
func (r *registry) mark(id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	r.marks[id] = r.now()
	if j := r.jobs[id]; j != nil {
		j.giveUp()
	}
}

// marked reports whether an instance was to be deleted, in the last hour.
func (r *registry) marked(id identity.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.marks[id]
	return ok
}

// shun remembers that a node has failed.
func (r *registry) shun(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[node] = r.now()
}

// claims are what creates will take of the nodes that the cluster's list does not show.
type claims struct {
	taken  map[string]need // by node
	group  []at            // machines of the group in question
	failed []string        // nodes, lately
}

// reserve has where choose a node for a create, and notes the choice at once. shown are the
// numbers of machines whose memory the list shows as theirs.
func (r *registry) reserve(j *job, n need, shown map[int]bool, where func(claims) (node string, ok bool)) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	j.need, j.at = need{}, at{}
	node, ok := where(r.claims(j, shown))
	if ok {
		j.need, j.at.node = n, node
	}
	return node, ok
}

func (r *registry) claims(of *job, shown map[int]bool) claims {
	c := claims{taken: map[string]need{}, failed: slices.Sorted(maps.Keys(r.failed))}
	for _, j := range r.jobs {
		if j == of || j.at.node == "" {
			continue
		}
		if j.request.Owner == of.request.Owner && j.group() == of.group() && of.group() != "" {
			c.group = append(c.group, j.at)
		}
		if shown[j.at.vmid] {
			continue
		}
		n := c.taken[j.at.node]
		n.memory += j.need.memory
		n.cores += j.need.cores
		c.taken[j.at.node] = n
	}
	return c
}

// underway are the machines of an owner that are being made, by the number that was
// asked for.
func (r *registry) underway(owner driver.Owner) map[identity.ID]at {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	list := map[identity.ID]at{}
	for id, j := range r.jobs {
		if j.sent && j.done.IsZero() && j.request.Owner == owner {
			list[id] = j.at
		}
	}
	return list
}

// making reports whether a machine is being made: a clone was asked for, and the
// create has not ended.
func (r *registry) making(id identity.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	return j != nil && j.sent && j.done.IsZero()
}

// made reports whether this driver made a machine of that id there, a short while ago.
func (r *registry) made(id identity.ID, m at) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	return j != nil && j.at == m
}

// progress is how far a create has come.
func (r *registry) progress(j *job) progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return j.progress
}

func (m at) providerID() string { return strconv.Itoa(m.vmid) }
