package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
)

// Placement is the answer of Place: a shard, or why there is none yet.
type Placement struct {
	Shard string
	// Kind is the prefix of the id that an instance there must have.
	Kind string
	// Reason and Message say why there is no shard.
	Reason, Message string
}

// Place chooses the shard of an instance: the one that is asked for, else among those that
// answer, have the group and have room the one with the fewest on-demand instances of it,
// the first of the configuration where several have. Shards that were tried before are
// left out.
func Place(group, wanted string, tried []string, all []Shard) Placement {
	if wanted != "" {
		return placeAt(group, wanted, all)
	}
	var fit []Shard
	var silent, full []string
	has := false
	for _, s := range all {
		has = has || s.Group != nil && !s.Group.GetDeleting()
		switch {
		case slices.Contains(tried, s.Name):
		case !s.Reachable:
			silent = append(silent, s.Name)
		case s.Group == nil && !s.Known:
			silent = append(silent, s.Name)
		case s.Group == nil, s.Group.GetDeleting():
		case s.NoRoom != "":
			full = append(full, s.Name)
		default:
			fit = append(fit, s)
		}
	}
	switch {
	case len(fit) > 0:
		best := slices.MinFunc(fit, func(a, b Shard) int { return cmp.Compare(a.OnDemand, b.OnDemand) })
		return Placement{Shard: best.Name, Kind: best.Group.GetKind()}
	case len(full) > 0:
		return Placement{Reason: api.ReasonCapacityUnavailable, Message: fmt.Sprintf("no room for group %s on %s", group, strings.Join(full, ", "))}
	case len(silent) > 0:
		return Placement{Reason: api.ReasonShardUnreachable, Message: fmt.Sprintf("waiting for %s to say whether they have group %s", strings.Join(silent, ", "), group)}
	case has:
		return Placement{Reason: api.ReasonCapacityUnavailable, Message: fmt.Sprintf("every shard that has group %s was tried", group)}
	default:
		return Placement{Reason: api.ReasonGroupNotFound, Message: fmt.Sprintf("no shard has group %s; make the group, or another machine", group)}
	}
}

// placeAt is for a shard that somebody asked for.
func placeAt(group, wanted string, all []Shard) Placement {
	i := slices.IndexFunc(all, func(s Shard) bool { return s.Name == wanted })
	if i < 0 {
		return Placement{Reason: api.ReasonShardNotConfigured, Message: fmt.Sprintf("shard %s is not in the operator's configuration", wanted)}
	}
	switch s := all[i]; {
	case !s.Reachable, s.Group == nil && !s.Known:
		return Placement{Reason: api.ReasonShardUnreachable, Message: fmt.Sprintf("shard %s does not answer", wanted)}
	case s.Group == nil, s.Group.GetDeleting():
		return Placement{Reason: api.ReasonGroupNotFound, Message: fmt.Sprintf("shard %s has no group %s; make the group, or another machine", wanted, group)}
	default:
		return Placement{Shard: s.Name, Kind: s.Group.GetKind()}
	}
}
