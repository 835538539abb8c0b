package planner

// MaxSize is the greatest size of one shard of a pool.
const MaxSize = 10000

// Shard is one shard of a pool, as far as sizes depend on it.
type Shard struct {
	Name string
	// Size is what the pool wants of it now, retiring instances not counted; 0 for a
	// shard that is new. A negative size counts as 0.
	Size int
	// RedirectGrowth: it has not answered for so long that growth goes to other shards.
	RedirectGrowth bool
	// Incomplete: it is not ready, or what it has is not completely known. As while growth is
	// redirected, it loses only instances whose deletion was requested; but it may grow.
	Incomplete bool
	// Refusal is what its provider said against growth a short time ago, such as "out of
	// capacity"; empty: nothing. With one it grows only if no other shard can.
	Refusal string
	// Surge: it has one instance more than its part because a rebalancing move is
	// open; see Rebalance. At most one shard of a pool has this.
	Surge bool
}

// onlyRequested reports whether only instances whose deletion was requested may go: the shard may have
// others that are not known.
func (s Shard) onlyRequested() bool { return s.RedirectGrowth || s.Incomplete }

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
	// are not fully known would have to shrink.
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
// part shrinks, the last listed where two are. While a shard is not fully known, no other
// one goes below its own part in its stead: the rest waits. Equal: nothing moves, however
// uneven the sizes are.
func Plan(p Pool) Result {
	d := begin(p)
	delta := max(p.Replicas, 0) - d.sum()
	if surge := d.surge(); surge {
		if delta == -1 { // exactly the instance that the open move made
			return d.result(p)
		}
		d.out.EndSurge = true
	}
	for _, request := range p.Requests {
		if delta >= 0 {
			break
		}
		if d.serveRequest(request) {
			delta++
		}
	}
	for ; delta < 0; delta++ {
		if !d.shrink() {
			d.out.Blocked = -delta
			break
		}
	}
	for ; delta > 0 && len(p.Shards) > 0; delta-- {
		if !d.grow() {
			d.out.Unplaced = delta
			break
		}
	}
	return d.result(p)
}

// draft is a plan in the making: sizes move one by one.
type draft struct {
	shards []Shard
	want   []int
	passed []bool // by growth
	out    Result
}

func begin(p Pool) *draft {
	d := &draft{
		shards: p.Shards,
		want:   EqualSplit(p.Replicas, len(p.Shards)),
		passed: make([]bool, len(p.Shards)),
	}
	for _, s := range p.Shards {
		size := max(s.Size, 0)
		d.out.Changes = append(d.out.Changes, Change{Shard: s.Name, From: size, To: size})
	}
	return d
}

func (d *draft) sum() int {
	n := 0
	for _, c := range d.out.Changes {
		n += c.To
	}
	return n
}

func (d *draft) surge() bool {
	for _, s := range d.shards {
		if s.Surge {
			return true
		}
	}
	return false
}

// serveRequest lets an instance go whose deletion was requested; false if its shard has nothing to give.
func (d *draft) serveRequest(request DeletionRequest) bool {
	for i := range d.out.Changes {
		c := &d.out.Changes[i]
		if c.Shard == request.Shard && c.To > 0 {
			c.To--
			c.Requested = append(c.Requested, request.Instance)
			return true
		}
	}
	return false
}

// shrink takes one instance whose deletion was not requested; false if none may be taken.
func (d *draft) shrink() bool {
	anyOnlyRequested := false
	for _, s := range d.shards {
		anyOnlyRequested = anyOnlyRequested || s.onlyRequested()
	}
	best := -1
	for i, s := range d.shards {
		c := d.out.Changes[i]
		if s.onlyRequested() || c.To == 0 || anyOnlyRequested && c.To <= d.want[i] {
			continue
		}
		if best < 0 || c.To-d.want[i] >= d.out.Changes[best].To-d.want[best] {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	d.out.Changes[best].To--
	d.out.Changes[best].Pick++
	return true
}

// grow gives one instance to the shard that lacks most, among those that can have it;
// false if none can.
func (d *draft) grow() bool {
	first := d.neediest(func(Shard) bool { return true })
	if first < 0 {
		return false
	}
	best := d.neediest(func(s Shard) bool { return !s.RedirectGrowth && s.Refusal == "" })
	if best < 0 {
		best = d.neediest(func(s Shard) bool { return !s.RedirectGrowth })
	}
	if best < 0 {
		best = first
	}
	if best != first {
		d.passed[first] = true
	}
	d.out.Changes[best].To++
	return true
}

// neediest returns the index of the eligible shard furthest below its part that may be
// greater; -1 if there is none.
func (d *draft) neediest(eligible func(Shard) bool) int {
	best := -1
	for i, s := range d.shards {
		if !eligible(s) || d.out.Changes[i].To >= MaxSize {
			continue
		}
		if best < 0 || d.want[i]-d.out.Changes[i].To > d.want[best]-d.out.Changes[best].To {
			best = i
		}
	}
	return best
}

func (d *draft) result(p Pool) Result {
	for i, s := range d.shards {
		if d.passed[i] {
			d.out.Redirected = append(d.out.Redirected, s.Name)
		}
	}
	d.out.Reason = d.reason(p.Name)
	return d.out
}
