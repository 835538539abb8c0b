package selection

import (
	"cmp"
	"slices"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// NameConflicts returns, by the name of a machine, the older machine that has the same node
// name. Only the older one works: by creation, then by UID.
func NameConflicts(machines []hostsv1.HostMachine) map[string]string {
	byNode := map[string][]*hostsv1.HostMachine{}
	for i := range machines {
		m := &machines[i]
		byNode[m.NodeName()] = append(byNode[m.NodeName()], m)
	}
	conflicts := map[string]string{}
	for _, same := range byNode {
		slices.SortFunc(same, func(a, b *hostsv1.HostMachine) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
		})
		for _, m := range same[1:] {
			conflicts[m.Name] = same[0].Name
		}
	}
	return conflicts
}

// Reach is what the selector of a configuration does.
type Reach struct {
	// Matches is the number of machines that it matches.
	Matches int
	// Lost is the number of them that a configuration of higher priority gets.
	Lost int
	// Rivals are the other configurations that have the same priority and match some of the
	// same machines, where no higher one decides: names in order.
	Rivals []string
}

// ReachOf returns what the selector of a configuration does. Machines that name their configuration,
// and those that are being deleted, are left out.
func ReachOf(name string, machines []hostsv1.HostMachine, all []Configuration) Reach {
	var r Reach
	i := slices.IndexFunc(all, func(c Configuration) bool { return c.Name == name })
	if i < 0 || all[i].Deleting {
		return r
	}
	c := all[i]
	for i := range machines {
		m := &machines[i]
		if m.Spec.ConfigurationRef != nil || !m.DeletionTimestamp.IsZero() || !c.Selector.Matches(m) {
			continue
		}
		r.Matches++
		if matching := Matching(m, all); c.Priority < matching[0].Priority {
			r.Lost++
		} else {
			r.Rivals = rivals(r.Rivals, c, matching)
		}
	}
	return r
}

func rivals(known []string, c Configuration, matching []Configuration) []string {
	for _, other := range matching {
		if other.Name != c.Name && other.Priority == c.Priority && !slices.Contains(known, other.Name) {
			known = append(known, other.Name)
		}
	}
	slices.Sort(known)
	return known
}
