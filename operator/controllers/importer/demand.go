package importer

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/demand/settings"
)

// together reports whether one pool may have a group on all these shards: the group is of the same mode
// everywhere, and of mode demand its settings are the same but for bounds that are the equal parts of their
// sum. Then the pool tells no server anything new. Else each shard gets a pool of its own.
func together(found []onShard) bool {
	first := found[0].group
	var holders []planner.Holder
	for _, f := range found {
		if (f.group.Demand == nil) != (first.Demand == nil) {
			return false
		}
		holders = append(holders, planner.Holder{Shard: f.shard})
	}
	if first.Demand == nil {
		return true
	}
	total := settings.BoundsOf(settings.Sum(demands(found)))
	for i, share := range planner.Divide("", total, holders).Shares {
		group := found[i].group
		if !equality.Semantic.DeepEqual(unbounded(group.Demand), unbounded(first.Demand)) || !equality.Semantic.DeepEqual(group.Requirements, first.Requirements) ||
			!same(share.Bounds, settings.BoundsOf(group.Demand)) {
			return false
		}
	}
	return true
}

func same(a, b planner.Bounds) bool {
	return a.Min == b.Min && a.MinIdle == b.MinIdle && maps.Equal(a.Most, b.Most)
}

// unbounded are settings without what is divided over shards.
func unbounded(d *infrav1.DemandSettings) *infrav1.DemandSettings {
	rest := settings.Share(d, planner.Bounds{})
	rest.Min, rest.MinIdle = nil, nil
	return rest
}

func demands(found []onShard) []*infrav1.DemandSettings {
	var all []*infrav1.DemandSettings
	for _, f := range found {
		all = append(all, f.group.Demand)
	}
	return all
}
