package machinepool

import (
	"maps"
	"slices"
	"time"

	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/demand/settings"
)

// decideDemand plans for a demand pool: each listed shard gets its share of the bounds, and what shards have
// that are no longer listed is waited for.
func decideDemand(st state, now time.Time) plan {
	d := &draft{state: st, now: now, listed: st.listed(now), becomes: map[string]*write{}}
	d.begin()
	var holders []planner.Holder
	names := slices.Clone(d.listed)
	for _, name := range slices.Sorted(maps.Keys(d.becomes)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	total := settings.BoundsOf(st.pool.Spec.Demand)
	for _, name := range names {
		holders = append(holders, d.holder(name, total))
	}
	division := planner.Divide(st.pool.Name, total, holders)
	d.plan.division = division.Reason
	for _, share := range division.Shares {
		w := d.becomes[share.Shard]
		w.surge, w.spec.Size, w.spec.Retiring = "", nil, nil
		w.spec.Demand, w.spec.InstanceRequirements = settings.Share(st.pool.Spec.Demand, share.Bounds), st.pool.Spec.InstanceRequirements
		if !slices.Contains(d.listed, share.Shard) {
			w.spec.Demand.Min, w.spec.Demand.MinIdle, w.spec.Demand.Max = nil, nil, new(int32) // it buys nothing more
		}
	}
	d.retireDemand()
	d.finish()
	return d.plan
}

// holder is what a shard has of the bounds of a demand pool.
func (d *draft) holder(name string, total planner.Bounds) planner.Holder {
	h := planner.Holder{Shard: name, Retiring: !slices.Contains(d.listed, name)}
	shardGroup, group := d.shardGroups[name], d.shards[name].group
	if shardGroup != nil && shardGroup.Spec.Demand != nil {
		b := settings.BoundsOf(shardGroup.Spec.Demand)
		h.Written, h.InForce = &b, []planner.Bounds{b}
	}
	if group != nil && !group.GetDeleting() {
		h.Used = settings.Used(group.GetDemandUsage(), total)
		if d.hasMode(name, settings.ModeDemand) && (h.Written == nil || !accepted(shardGroup)) {
			h.InForce = append(h.InForce, settings.BoundsOf(settings.FromServer(group.GetDemand())))
		}
	}
	if h.Used == nil {
		h.Used = map[planner.Bound]int64{}
	}
	h.Used[planner.Machines] = max(h.Used[planner.Machines], int64(len(d.shards[name].instances)), int64(group.GetSize()))
	return h
}

// retireDemand decides about the shard groups of shards that are no longer listed, or are again. Others
// buy what is needed, so one is removed when its machines are gone, or its deadline has passed.
func (d *draft) retireDemand() {
	for _, name := range slices.Sorted(maps.Keys(d.becomes)) {
		until, _ := time.Parse(time.RFC3339, d.becomes[name].retireAfter)
		d.retireOne(name, planner.RetireInput{
			Shard: name, Listed: slices.Contains(d.pool.Spec.Shards, name), Until: until, OthersWant: len(d.shards[name].instances),
		})
	}
}

// decideReturn plans for a pool that was a demand pool and is to have a fixed size again. Each shard keeps
// what it has: its server says how many that are when it hears of it, and that number is
// written down. A server that never heard of demand has the size that it had.
func decideReturn(st state, now time.Time) plan {
	d := &draft{state: st, now: now, listed: st.listed(now), becomes: map[string]*write{}}
	d.begin()
	for name, w := range d.becomes {
		shardGroup := d.shardGroups[name]
		switch {
		case shardGroup == nil, shardGroup.Spec.Size != nil:
		case shardGroup.Spec.Demand == nil && accepted(shardGroup) && d.hasMode(name, settings.ModeFixed),
			shardGroup.Spec.Demand != nil && shardGroup.Status.Mode != settings.ModeDemand && d.hasMode(name, settings.ModeFixed):
			w.setSize(int(d.shards[name].group.GetSize()))
		default:
			w.spec.Size = nil
		}
	}
	for _, name := range d.listed { // a shard that has no shard group yet gets one when the sizes are known
		if d.shardGroups[name] == nil {
			delete(d.becomes, name)
		}
	}
	d.plan.division = st.pool.Name + ": a fixed size again; each shard keeps the machines that it has"
	d.finish()
	return d.plan
}
