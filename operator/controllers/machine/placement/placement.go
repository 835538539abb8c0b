// Package placement says which shard is to make one instance: for a Machine whose
// NstanceMachine names none, and for a Pod that asks for an instance of its own.
//
// It follows from what the shards are known to have of the group. The package is pure.
package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Shard is a shard as far as it matters for an instance.
type Shard struct {
	Name string
	// Reachable: it answers.
	Reachable bool
	// Group is what it says of the instance's group; nil: it is not known to have it.
	Group *nstancev1.GroupStatus
	// ConfigDigest stands for the shard's configuration; see [shards.Status].
	ConfigDigest string
	// Known: all groups of the shard are known, so one that is not among them is not there.
	Known bool
	// NoRoom is what the provider said against more instances of the group; empty: nothing.
	NoRoom string
	// OnDemand is how many on-demand instances of the group it has.
	OnDemand int
}

// About is what the answer to a request for an instance of the group depends on.
func (s Shard) About() string { return s.Group.GetEtag() + " " + s.ConfigDigest }

// Choice is the answer of Choose: a shard, or why there is none yet.
type Choice struct {
	Shard string
	// Kind is the prefix of the id that an instance there must have.
	Kind string
	// Reason and Message say why there is no shard.
	Reason, Message string
}

// Choose chooses the shard of an instance: the one that is asked for, else among those that
// answer, have the group and have room the one with the fewest on-demand instances of it,
// the first of the configuration where several have. Shards that were tried before are
// left out.
func Choose(group, wanted string, tried []string, all []Shard) Choice {
	if wanted != "" {
		return chooseNamed(group, wanted, all)
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
		return Choice{Shard: best.Name, Kind: best.Group.GetKind()}
	case len(full) > 0:
		return Choice{Reason: infrav1.ReasonCapacityUnavailable, Message: fmt.Sprintf("no room for group %s on %s", group, strings.Join(full, ", "))}
	case len(silent) > 0:
		return Choice{Reason: infrav1.ReasonShardUnreachable, Message: fmt.Sprintf("waiting for %s to say whether they have group %s", strings.Join(silent, ", "), group)}
	case has:
		return Choice{Reason: infrav1.ReasonCapacityUnavailable, Message: fmt.Sprintf("every shard that has group %s was tried", group)}
	default:
		return Choice{Reason: infrav1.ReasonGroupNotFound, Message: fmt.Sprintf("no shard has group %s; make the group, or another machine", group)}
	}
}

// chooseNamed is for a shard that somebody asked for.
func chooseNamed(group, wanted string, all []Shard) Choice {
	i := slices.IndexFunc(all, func(s Shard) bool { return s.Name == wanted })
	if i < 0 {
		return Choice{Reason: infrav1.ReasonShardNotConfigured, Message: fmt.Sprintf("shard %s is not in the operator's configuration", wanted)}
	}
	switch s := all[i]; {
	case !s.Reachable, s.Group == nil && !s.Known:
		return Choice{Reason: infrav1.ReasonShardUnreachable, Message: fmt.Sprintf("shard %s does not answer", wanted)}
	case s.Group == nil, s.Group.GetDeleting():
		return Choice{Reason: infrav1.ReasonGroupNotFound, Message: fmt.Sprintf("shard %s has no group %s; make the group, or another machine", wanted, group)}
	default:
		return Choice{Shard: s.Name, Kind: s.Group.GetKind()}
	}
}
