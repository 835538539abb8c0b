package planner

// MaxSize is the greatest size of one shard of a pool.
const MaxSize = 10000

// Shard is one shard of a pool, as far as sizes depend on it.
type Shard struct {
	Name string
	// Size is what the pool wants of it now, retiring instances not
	// counted; 0 for a shard that is new. A negative size counts as 0.
	Size int
	// Unreachable: it has been unreachable for so long that growth goes elsewhere.
	Unreachable bool
	// Incomplete: it is not ready, or what it has is not completely known. Like an unreachable
	// shard it loses only instances that somebody named; unlike one it may grow.
	Incomplete bool
	// Refusal is what its provider said against growth a short time ago, such as "out of
	// capacity"; empty: nothing. With one it grows only if no other shard can.
	Refusal string
	// Surge: it has one instance more than its part because a rebalancing move is
	// open; see Rebalance. At most one shard of a pool has this.
	Surge bool
}

// notFullyKnown reports whether an instance may exist that nobody here knows of: then none of the shard
// is chosen unless its deletion was requested.
func (s Shard) notFullyKnown() bool { return s.Unreachable || s.Incomplete }

// DeletionRequest names an instance that somebody wants to go when the pool shrinks.
type DeletionRequest struct {
	Instance, Shard string
}

// Pool is the input of Plan.
type Pool struct {
	Name string // for the reason
	// Replicas is the wanted size of the pool. A negative one counts as 0.
	Replicas int
	// Shards are those that the pool lists, in its order; no name comes twice. A shard
	// that was taken off the list is not among them: see Retire.
	Shards []Shard
	// Requests are in the order in which they are to be served, the oldest first; no
	// instance comes twice. Those in shards that are not listed are passed over.
	Requests []DeletionRequest
}

// Change is what becomes of one shard.
type Change struct {
	Shard    string
	From, To int
	// Requested are the instances whose deletion was requested and that go, in the order of the requests.
	Requested []string
	// Pick is how many more instances go, which the order of a [Choice] decides. From − To = len(Requested) + Pick, where the shard shrinks.
	Pick int
}

// Result is a plan.
type Result struct {
	// Changes has one entry for each shard, in the pool's order, also for those that
	// keep their size.
	Changes []Change
	// EndSurge: the pool's size changed during a rebalancing move. The surge annotation
	// of the move is to be removed with, or before, the first write.
	EndSurge bool
	// Blocked is by how much the sizes still exceed the pool's because shards that
	// nobody can see would have to shrink.
	Blocked int
	// Unplaced is by how much the sizes fall short of the pool's because every shard has
	// MaxSize.
	Unplaced int
	// Redirected are the shards that would have grown, had they been reachable and had
	// room, in the pool's order.
	Redirected []string
	// Reason says all of that to people; empty if nothing changes, is blocked or is
	// without a place.
	Reason string
}

// Writes returns the changes that are to be written, in this order: shards that grow,
// then those that shrink, so that the pool is never below its size.
func (r Result) Writes() []Change {
	var grow, shrink []Change
	for _, c := range r.Changes {
		switch {
		case c.To > c.From:
			grow = append(grow, c)
		case c.To < c.From:
			shrink = append(shrink, c)
		}
	}
	return append(grow, shrink...)
}

// Plan brings the sizes of the shards to the size of the pool.
//
// Too few: the shard furthest below its equal part grows, the first listed where two are
// equally far. Too many: instances whose deletion was requested go first; then the shard furthest above its
// part shrinks, the last listed where two are. While a shard cannot be seen, no other
// one goes below its own part in its stead: the rest waits. Equal: nothing moves, however
// uneven the sizes are.
func Plan(p Pool) Result {
	w := begin(p)
	delta := max(p.Replicas, 0) - w.sum()
	if surge := w.surge(); surge {
		if delta == -1 { // exactly the instance that the open move made
			return w.result(p)
		}
		w.out.EndSurge = true
	}
	for _, m := range p.Requests {
		if delta >= 0 {
			break
		}
		if w.serveRequest(m) {
			delta++
		}
	}
	for ; delta < 0; delta++ {
		if !w.shrink() {
			w.out.Blocked = -delta
			break
		}
	}
	for ; delta > 0 && len(p.Shards) > 0; delta-- {
		if !w.grow() {
			w.out.Unplaced = delta
			break
		}
	}
	return w.result(p)
}

// begunPlan is a plan in the making: sizes move one by one.
type begunPlan struct {
	shards []Shard
	want   []int
	passed []bool // by growth
	out    Result
}

func begin(p Pool) *begunPlan {
	w := &begunPlan{
		shards: p.Shards,
		want:   EqualSplit(p.Replicas, len(p.Shards)),
		passed: make([]bool, len(p.Shards)),
	}
	for _, s := range p.Shards {
		size := max(s.Size, 0)
		w.out.Changes = append(w.out.Changes, Change{Shard: s.Name, From: size, To: size})
	}
	return w
}

func (w *begunPlan) sum() int {
	n := 0
	for _, c := range w.out.Changes {
		n += c.To
	}
	return n
}

func (w *begunPlan) surge() bool {
	for _, s := range w.shards {
		if s.Surge {
			return true
		}
	}
	return false
}

// serveRequest lets an instance go whose deletion was requested; false if its shard has nothing to give.
func (w *begunPlan) serveRequest(m DeletionRequest) bool {
	for i := range w.out.Changes {
		c := &w.out.Changes[i]
		if c.Shard == m.Shard && c.To > 0 {
			c.To--
			c.Requested = append(c.Requested, m.Instance)
			return true
		}
	}
	return false
}

// shrink takes one instance that nobody named; false if none may be taken.
func (w *begunPlan) shrink() bool {
	anyUnknown := false
	for _, s := range w.shards {
		anyUnknown = anyUnknown || s.notFullyKnown()
	}
	best := -1
	for i, s := range w.shards {
		c := w.out.Changes[i]
		if s.notFullyKnown() || c.To == 0 || anyUnknown && c.To <= w.want[i] {
			continue
		}
		if best < 0 || c.To-w.want[i] >= w.out.Changes[best].To-w.want[best] {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	w.out.Changes[best].To--
	w.out.Changes[best].Pick++
	return true
}

// grow gives one instance to the shard that lacks most, among those that can have it;
// false if none can.
func (w *begunPlan) grow() bool {
	first := w.neediest(func(Shard) bool { return true })
	if first < 0 {
		return false
	}
	best := w.neediest(func(s Shard) bool { return !s.Unreachable && s.Refusal == "" })
	if best < 0 {
		best = w.neediest(func(s Shard) bool { return !s.Unreachable })
	}
	if best < 0 {
		best = first
	}
	if best != first {
		w.passed[first] = true
	}
	w.out.Changes[best].To++
	return true
}

// neediest returns the index of the eligible shard furthest below its part that may be
// greater; -1 if there is none.
func (w *begunPlan) neediest(eligible func(Shard) bool) int {
	best := -1
	for i, s := range w.shards {
		if !eligible(s) || w.out.Changes[i].To >= MaxSize {
			continue
		}
		if best < 0 || w.want[i]-w.out.Changes[i].To > w.want[best]-w.out.Changes[best].To {
			best = i
		}
	}
	return best
}

func (w *begunPlan) result(p Pool) Result {
	for i, s := range w.shards {
		if w.passed[i] {
			w.out.Redirected = append(w.out.Redirected, s.Name)
		}
	}
	w.out.Reason = w.reason(p.Name)
	return w.out
}
