package cluster

import (
	"cmp"
	"slices"
)

// Elsewhere returns a Pod that would find no place if a Node were drained, or nil if all would. The
// Pods that wait for a place already take theirs first. Pods that nobody makes again are left out.
func (c *Cluster) Elsewhere(node string) *Pod {
	closed := c.Node(node)
	if closed == nil {
		return nil
	}
	moved := slices.DeleteFunc(c.Evictable(node), func(p *Pod) bool { return p.Owner.Bare || p.Object.DeletionTimestamp != nil })
	slices.SortStableFunc(moved, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(b.need[0], a.need[0]), cmp.Compare(b.need[1], a.need[1]))
	})
	nodes, pods := make([]Node, len(c.nodes)), closed.pods
	for i, n := range c.nodes {
		nodes[i] = *n
		n.pods = slices.Clone(n.pods)
	}
	defer func() {
		for i, n := range c.nodes {
			*n = nodes[i]
		}
		closed.pods = pods
	}()
	closed.pods, closed.free = nil, Vector{}
	for _, p := range c.pods {
		if p.Pending() {
			c.stand(p)
		}
	}
	for _, p := range moved {
		if !c.stand(p) {
			return p
		}
	}
	return nil
}

// stand puts a Pod on a Node for the time of a trial.
func (c *Cluster) stand(p *Pod) bool {
	n := c.place(p)
	if n == nil {
		return false
	}
	n.pods, n.free = append(n.pods, p), n.free.minus(p.need)
	return true
}

// Domains are where the Pods that the first affinity term of a workload selects run and stay: the
// values of the term's key, sorted.
func (c *Cluster) Domains(w *Workload) (all []string) {
	if len(w.shape.affinity) == 0 {
		return nil
	}
	t := w.shape.affinity[0]
	for _, n := range c.nodes {
		value, ok := n.Object.Labels[t.key]
		if ok && !n.Object.Spec.Unschedulable && slices.ContainsFunc(n.pods, func(p *Pod) bool {
			return !p.Ended() && p.Object.DeletionTimestamp == nil && t.selector.Matches(set(p))
		}) {
			all = append(all, value)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
