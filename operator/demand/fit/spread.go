package fit

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// spread is one constraint that forbids scheduling.
type spread struct {
	key           string
	selector      labels.Selector
	maxSkew       int
	minDomains    int  // with fewer domains the fewest Pods in one count as none
	anyAffinity   bool // Nodes that the Pod does not select are domains too
	toleratedOnly bool // Nodes whose taints keep the Pod off are not
}

func newSpread(pod *corev1.Pod, c corev1.TopologySpreadConstraint) spread {
	s := spread{key: c.TopologyKey, selector: spreadSelector(pod, c), maxSkew: max(int(c.MaxSkew), 1)}
	if c.MinDomains != nil {
		s.minDomains = int(*c.MinDomains)
	}
	s.anyAffinity = c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore
	s.toleratedOnly = c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	return s
}

// spreadSelector is the selector of a constraint, and of the labels that it takes from the Pod.
func spreadSelector(pod *corev1.Pod, c corev1.TopologySpreadConstraint) labels.Selector {
	s := c.LabelSelector.DeepCopy()
	for _, key := range c.MatchLabelKeys {
		if value, found := pod.Labels[key]; found && s != nil {
			if s.MatchLabels == nil {
				s.MatchLabels = map[string]string{}
			}
			s.MatchLabels[key] = value
		}
	}
	return selector(s)
}

// spreading is one constraint of a Pod with how many Pods like it each domain may have before
// one more is put there.
type spreading struct {
	key    string
	pods   map[string]int // by domain
	atMost int
}

// spreadsOf counts Pods by the domains of each constraint, as kube-scheduler does: a Node counts
// when it has the keys of all constraints. Nodes that are given back count no longer, since with
// the last Node of a domain the domain goes.
func (s *state) spreadsOf(p *Pod) []spreading {
	if len(p.spread) == 0 {
		return nil
	}
	all := make([]spreading, len(p.spread))
	for i, c := range p.spread {
		all[i] = spreading{key: c.key, pods: map[string]int{}}
		for _, n := range s.nodes {
			if n.leaves || !p.spreadsOver(n.object) || !c.anyAffinity && !matches(n.object, p) || c.toleratedOnly && !tolerated(n.object, p) {
				continue
			}
			all[i].pods[n.object.Labels[c.key]] += n.like(p, c.selector)
		}
		fewest := math.MaxInt
		for _, pods := range all[i].pods {
			fewest = min(fewest, pods)
		}
		if len(all[i].pods) == 0 || len(all[i].pods) < c.minDomains {
			fewest = 0
		}
		all[i].atMost = fewest + c.maxSkew
		if c.selector.Matches(p.labels) {
			all[i].atMost--
		}
	}
	return all
}

// spreadsOver says whether a Node has the keys of all constraints.
func (p *Pod) spreadsOver(n *corev1.Node) bool {
	return !slices.ContainsFunc(p.spread, func(c spread) bool { return n.Labels[c.key] == "" })
}

// like counts the Pods of a Node that a constraint of a Pod selects.
func (n *node) like(p *Pod, selector labels.Selector) (all int) {
	for _, other := range n.pods {
		if other.namespace == p.namespace && !other.ending && selector.Matches(other.labels) {
			all++
		}
	}
	return all
}

// allow says whether one Pod more on a Node keeps within the skew of every constraint.
func allow(spreads []spreading, on *corev1.Node) bool {
	return !slices.ContainsFunc(spreads, func(s spreading) bool {
		value := on.Labels[s.key]
		return value == "" || s.pods[value] > s.atMost
	})
}
