package machinepool

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machinepool/planner"
)

// write is what the shard group of one shard becomes.
type write struct {
	shard string
	// spec is the whole spec; create says that there is no shard group yet.
	spec   infrav1.NstanceShardGroupSpec
	create bool
	// surge and retireAfter are the annotations of the same names; empty: none.
	surge, retireAfter string
	// victims start retiring with this write.
	victims []planner.Victim
}

// end is a shard group that is removed from its pool.
type end struct{ shard, why string }

// plan is what is to be done about a pool.
type plan struct {
	writes []write // shardGroups that grow first
	ends   []end
	// sizes is the outcome of the distribution, move that of the rebalancing; lowered are
	// sizes that no provider has room for.
	sizes   planner.Result
	move    planner.Move
	lowered []planner.Lowered
	// division says how the bounds of a demand pool are divided, or what becomes of one that is to have a
	// size again; empty: nothing changes.
	division string
	// takeover are the settings that the spec takes over because the group is no longer static;
	// nil: none.
	takeover *takeover
	// annotations are the annotations of the pool as they are to be; empty values: none.
	annotations map[string]string
	// again is when time alone may change the plan; zero: never.
	again time.Time
}

// needsLiveRead reports whether the plan deletes something, for a smaller size, for a health check that gave a machine
// up (its limit counts those that are being deleted already), or for a Machine whose instance is gone. Such a plan is
// made again from uncached reads before it is carried out.
func (p plan) needsLiveRead(st state) bool {
	for _, w := range p.writes {
		shardGroup := st.shardGroups[w.shard]
		if shardGroup != nil && (len(w.victims) > 0 || (w.spec.Demand == nil) != (shardGroup.Spec.Demand == nil) || w.size() < int(shardGroup.Spec.SizeOrZero())) {
			return true
		}
	}
	return len(p.ends) > 0 || len(st.staleMachines) > 0 || len(remediated(st)) > 0 || st.removedMachinePool == nil && st.machinePoolRemovalReason() != ""
}

// decide plans for one pool. It depends on its arguments alone and changes none of them.
func decide(st state, now time.Time) plan {
	if len(st.otherPools) == 0 && !st.paused && st.pool.DeletionTimestamp.IsZero() {
		switch {
		case st.demands():
			return decideDemand(st, now)
		case st.returning():
			return decideReturn(st, now)
		}
	}
	if st.machinePool == nil || st.machinePool.Spec.Replicas == nil || len(st.otherPools) > 0 || st.paused || !st.pool.DeletionTimestamp.IsZero() || st.tooMany() {
		return plan{annotations: map[string]string{}}
	}
	d := &draft{state: st, now: now, listed: st.listed(now), becomes: map[string]*write{}}
	d.begin()
	d.distribute()
	d.retire()
	d.finish()
	return d.plan
}

// draft is a plan in the making.
type draft struct {
	state
	now     time.Time
	listed  []string
	becomes map[string]*write // by shard: what each shard group becomes
	plan    plan
}

// begin writes down each shard group as it is, with the settings of the pool and without the
// retiring instances that are gone.
func (d *draft) begin() {
	d.plan.annotations = map[string]string{}
	own, kept, takesOver := d.settingsToWrite()
	d.plan.annotations[infrav1.AnnotationReleasedTemplate], d.plan.takeover = kept, takesOver
	names := slices.Clone(d.listed)
	for name, shardGroup := range d.shardGroups {
		if !slices.Contains(names, name) && shardGroup.DeletionTimestamp.IsZero() {
			names = append(names, name)
		}
	}
	for _, name := range names {
		w := &write{shard: name, spec: infrav1.NstanceShardGroupSpec{
			Group: d.pool.Spec.Group, Shard: name, Size: ptr.To(int32(d.size(name))), // at most MaxSize
			InstanceType: d.pool.Spec.InstanceType, Vars: d.pool.Spec.Vars,
		}}
		if !d.static(name) {
			set := d.settings(name, own)
			w.spec.Template, w.spec.Subnets, w.spec.LoadBalancers = set.template, set.subnets, set.loadBalancers
		}
		if shardGroup := d.shardGroups[name]; shardGroup != nil {
			w.surge, w.retireAfter = shardGroup.Annotations[infrav1.AnnotationSurge], shardGroup.Annotations[infrav1.AnnotationRetireAfter]
			g := planner.Forget(planner.Group{Retiring: shardGroup.Spec.Retiring}, func(id string) bool { return d.shards[name].gone[id] })
			w.spec.Retiring = g.Retiring
		} else {
			w.create = true
		}
		d.becomes[name] = w
	}
}

// distribute brings the sizes of the shard groups to the size of the pool, or, where they are
// that already, one step nearer to the equal split.
func (d *draft) distribute() {
	pool := planner.Pool{Name: d.pool.Name, Replicas: int(*d.machinePool.Spec.Replicas), Requests: planner.DeletionRequests(d.candidates())}
	total := 0
	for _, name := range d.listed {
		s := d.shard(name)
		pool.Shards, total = append(pool.Shards, s), total+s.Size
	}
	ending := !d.machinePool.DeletionTimestamp.IsZero()
	if ending { // instances that it grows by now would be deleted with it
		pool.Replicas = min(pool.Replicas, total)
	}
	d.lower(pool.Shards)
	d.plan.sizes = planner.Plan(pool)
	for _, change := range d.plan.sizes.Changes {
		d.resize(change)
	}
	if d.plan.sizes.EndSurge {
		for _, w := range d.becomes {
			w.surge = ""
		}
	}
	if !ending && len(d.plan.sizes.Writes()) == 0 && d.plan.sizes.Blocked == 0 && len(d.plan.lowered) == 0 && !d.plan.sizes.EndSurge {
		d.rebalance(pool)
	}
}

// shard is a listed shard for the distribution.
func (d *draft) shard(name string) planner.Shard {
	s := d.shards[name]
	refusal := ""
	if d.pool.Spec.UnreachablePolicy != infrav1.UnreachableHold && s.coolOff.Refuses(d.now) {
		refusal = s.refusal().text()
	}
	return planner.Shard{
		Name: name, Size: d.becomes[name].size(), RedirectGrowth: d.redirectsGrowth(name, d.now), Incomplete: !s.inventoryComplete(),
		Refusal: refusal, Surge: d.becomes[name].surge != "",
	}
}

// lower takes sizes back that cannot be filled, where others may grow instead.
func (d *draft) lower(listed []planner.Shard) {
	if d.pool.Spec.UnreachablePolicy == infrav1.UnreachableHold {
		return
	}
	var fillings []planner.Filling
	for _, s := range listed {
		fillings = append(fillings, planner.Filling{Shard: s, CoolOff: d.shards[s.Name].coolOff, Present: d.present(s.Name)})
	}
	d.plan.lowered = planner.Unfilled(fillings, d.now)
	for _, l := range d.plan.lowered {
		i := slices.IndexFunc(listed, func(s planner.Shard) bool { return s.Name == l.Shard })
		listed[i].Size = l.To
		d.becomes[l.Shard].setSize(l.To)
	}
}

// redirected are the shards that a plan grows others in the stead of.
func (st state) redirected(p plan, now time.Time) map[string]Redirection {
	past := map[string]Redirection{}
	if len(p.sizes.Writes()) > 0 {
		for _, name := range p.sizes.Redirected {
			past[name] = st.shards[name].refusal()
			if st.redirectsGrowth(name, now) {
				past[name] = RedirectedUnreachable
			}
		}
	}
	for _, l := range p.lowered {
		past[l.Shard] = st.shards[l.Shard].refusal()
	}
	return past
}

// resize carries a change into the shard group. A shard group that is only now made is made as it is:
// it can lose something once it is there.
func (d *draft) resize(change planner.Change) {
	w := d.becomes[change.Shard]
	switch {
	case change.To == change.From:
	case change.To > change.From:
		w.setSize(min(change.To, planner.MaxSize))
	case w.create:
	case !d.asMachines:
		w.setSize(change.To)
	default:
		g := planner.Group{Size: change.From, Retiring: w.spec.Retiring}
		choice := planner.Choice{Policy: planner.VictimPolicy(d.pool.Spec.DeletePolicy), Seed: string(d.pool.UID)}
		shrunk := planner.Shrink(g, change, d.candidates(), choice, d.now)
		w.setSize(shrunk.Size)
		w.spec.Retiring, w.victims = shrunk.Retiring, shrunk.Victims
	}
}

// rebalance takes the next step towards the equal split.
func (d *draft) rebalance(pool planner.Pool) {
	b := planner.Balance{
		Pool: pool, Policy: planner.Policy(d.pool.Spec.Rebalance), Busy: d.retiring(),
		BalancedFor: d.pool.Annotations[infrav1.AnnotationRebalanceFor],
		NotBefore:   moment(d.pool.Annotations, infrav1.AnnotationRebalanceNotBefore),
	}
	for _, s := range pool.Shards {
		b.Ready = append(b.Ready, d.readyNodes(s.Name))
		if at, err := time.Parse(time.RFC3339, d.becomes[s.Name].surge); err == nil {
			b.Since = at
		}
	}
	if len(d.becomes) > len(d.listed) && b.Busy == "" {
		b.Busy = "a shard is being removed from the pool"
	}
	m := planner.Rebalance(b, d.now)
	d.plan.move = m
	d.plan.annotations[infrav1.AnnotationRebalanceFor] = m.BalancedFor
	d.plan.annotations[infrav1.AnnotationRebalanceNotBefore] = stamp(m.NotBefore)
	d.at(m.RequeueAt)
	w := d.becomes[m.Shard]
	switch m.Kind {
	case planner.Open:
		w.setSize(w.size() + 1)
		w.surge = stamp(d.now)
	case planner.Close:
		w.surge = ""
	case planner.Abandon:
		w.surge = ""
		d.resize(planner.Change{Shard: m.Shard, From: w.size(), To: w.size() - 1, Pick: 1})
	}
}

// retire decides about the shard groups of shards that left the list, or came back to it.
func (d *draft) retire() {
	ready := 0
	for _, name := range d.listed {
		ready += d.readyNodes(name)
	}
	for _, name := range slices.Sorted(maps.Keys(d.becomes)) {
		until, _ := time.Parse(time.RFC3339, d.becomes[name].retireAfter)
		d.retireOne(name, planner.RetireInput{
			Shard: name, Listed: slices.Contains(d.pool.Spec.Shards, name), Until: until,
			OthersWant: int(*d.machinePool.Spec.Replicas), OthersReady: ready,
		})
	}
}

// retireOne decides about the shard group of a shard that may have left the list, or come back to it.
func (d *draft) retireOne(name string, in planner.RetireInput) {
	w, r := d.becomes[name], planner.Retire(in, d.now)
	switch r.Kind {
	case planner.RetireBegin:
		w.retireAfter = stamp(r.Until)
		d.at(r.Until)
	case planner.RetireWait:
		d.at(r.Until)
	case planner.RetireCancel:
		w.retireAfter = ""
	case planner.RetireRemove:
		d.plan.ends = append(d.plan.ends, end{name, r.Reason})
		delete(d.becomes, name)
	}
}

// finish keeps the writes that change something, those that make a shard group greater first,
// and says when to look again.
func (d *draft) finish() {
	names := slices.Sorted(maps.Keys(d.becomes))
	for _, grows := range []bool{true, false} {
		for _, name := range names {
			w := d.becomes[name]
			shardGroup := d.shardGroups[name]
			if w.grows(shardGroup) == grows && w.changes(shardGroup) {
				d.plan.writes = append(d.plan.writes, *w)
			}
		}
	}
	d.plan.annotations[infrav1.AnnotationRemovedShards] = formatUserRemovedShards(d.currentUserRemovedShards(d.now))
	for _, at := range d.currentUserRemovedShards(d.now) {
		d.at(at.Add(removedShardTTL))
	}
	for _, name := range d.pool.Spec.Shards {
		s := d.shards[name]
		for _, until := range s.held {
			d.at(until)
		}
		if s.configured && !s.reachable() {
			d.at(s.connection.Since.Add(d.redirectAfter))
		}
		if s.coolOff.Refuses(d.now) {
			d.at(s.coolOff.Since.Add(planner.UnfilledTimeout))
			d.at(s.coolOff.Until)
		}
	}
}

// changes is whether the write makes a shard group something else than it is.
func (w write) changes(shardGroup *infrav1.NstanceShardGroup) bool {
	return shardGroup == nil || !equality.Semantic.DeepEqual(w.spec, shardGroup.Spec) ||
		w.surge != shardGroup.Annotations[infrav1.AnnotationSurge] || w.retireAfter != shardGroup.Annotations[infrav1.AnnotationRetireAfter]
}

// grows is whether the write makes a shard group greater than it is.
func (w write) grows(shardGroup *infrav1.NstanceShardGroup) bool {
	return shardGroup == nil || w.size() > int(shardGroup.Spec.SizeOrZero())
}

// size is the size that the shard group gets; 0 where it gets none.
func (w write) size() int { return int(w.spec.SizeOrZero()) }

// setSize gives the shard group a size, at most planner.MaxSize.
func (w *write) setSize(n int) { w.spec.Size = ptr.To(int32(n)) }

// at notes a time at which the plan may be another one.
func (d *draft) at(t time.Time) {
	if t.After(d.now) && (d.plan.again.IsZero() || t.Before(d.plan.again)) {
		d.plan.again = t
	}
}

// String says what becomes of a shard group, for logs and tests.
func (w write) String() string {
	return fmt.Sprintf("%s=%d%v surge=%s retire=%s", w.shard, w.size(), w.spec.Retiring, w.surge, w.retireAfter)
}
