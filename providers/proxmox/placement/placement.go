// Package placement chooses the node for a machine.
//
// A [Search] takes, of the nodes that have the memory, those with the fewest machines of the
// same group, and of these the one with the best of free memory and free processors. It is
// pure: equal arguments give equal answers.
package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// Search is everything that the choice of a node depends on.
type Search struct {
	Nodes  []Node
	From   map[string]api.VM // what a machine can be cloned from, by node
	Taken  map[string]Need   // by creates under way
	Group  map[string]int    // machines of the same group, by node
	Need   Need
	Only   []string // nodes; empty: all
	Spread string   // empty: rules.SpreadPrefer
}

// Choose returns a node. Those to pass over are taken if there is no other one, unless
// they are out altogether.
func (s Search) Choose(passOver, out []string) (string, bool) {
	for _, not := range [][]string{passOver, out} {
		left := slices.DeleteFunc(slices.Clone(s.Nodes), func(n Node) bool {
			_, has := s.From[n.Name]
			return !has || slices.Contains(not, n.Name) || !s.allows(n.Name)
		})
		for _, tier := range s.tiers(left) {
			if chosen, ok := choose(tier, s.Taken, s.Need); ok {
				return chosen, true
			}
		}
	}
	return "", false
}

func (s Search) allows(node string) bool { return len(s.Only) == 0 || slices.Contains(s.Only, node) }

// tiers are nodes in the order in which they are tried: those first with the fewest
// machines of the group.
func (s Search) tiers(nodes []Node) [][]Node {
	if s.Spread == rules.SpreadOff {
		return [][]Node{nodes}
	}
	byCount := map[int][]Node{}
	for _, n := range nodes {
		byCount[s.Group[n.Name]] = append(byCount[s.Group[n.Name]], n)
	}
	if s.Spread == rules.SpreadRequire {
		return [][]Node{byCount[0]}
	}
	var tiers [][]Node
	for _, count := range slices.Sorted(maps.Keys(byCount)) {
		tiers = append(tiers, byCount[count])
	}
	return tiers
}

// NoRoom is the error of a machine that no node takes.
func (s Search) NoRoom(blind bool, avoid []string) error {
	if blind && len(s.Nodes) == 0 {
		return api.Errorf(driver.Auth, "the nodes are listed without their memory; the token needs Sys.Audit on /")
	}
	var says []string
	for _, n := range s.Nodes {
		_, has := s.From[n.Name]
		switch {
		case !s.allows(n.Name):
			says = append(says, n.Name+" is not in Nodes")
		case slices.Contains(avoid, n.Name):
			says = append(says, n.Name+" has failed")
		case !has:
			says = append(says, n.Name+" lacks template or storage")
		case s.Spread == rules.SpreadRequire && s.Group[n.Name] > 0:
			says = append(says, n.Name+" has a machine of the group, and Spread is require")
		default:
			says = append(says, fmt.Sprintf("%s has %d MiB, less %d MiB of creates under way", n.Name, n.Memory>>20, s.Taken[n.Name].Memory>>20))
		}
	}
	return api.Errorf(driver.Capacity, "no node has %d MiB of memory free: %s", s.Need.Memory>>20, strings.Join(says, "; "))
}

// Committed returns nodes with no more free memory than is left if every guest takes all
// that it may.
func Committed(nodes []Node) []Node {
	list := slices.Clone(nodes)
	for i := range list {
		list[i].Memory = min(list[i].Memory, list[i].Uncommitted)
	}
	return list
}
