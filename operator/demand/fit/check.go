package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// Cluster is what a check is about.
type Cluster struct {
	Nodes []*corev1.Node
	// Draining are the Nodes, by name, whose work is being moved away already.
	Draining map[string]bool
	// Pods are all Pods that have not ended, pending ones too; nil ones are left out.
	Pods []*Pod
	// Namespaces are the labels of each, for terms that select namespaces.
	Namespaces map[string]map[string]string
}

// Reasons of a refusal.
const (
	DoNotReclaim = "DoNotReclaim" // the Node's author says so
	DoNotEvict   = "DoNotEvict"   // the author of one of its Pods says so
	DoesNotFit   = "DoesNotFit"   // a Pod finds no room elsewhere
)

// Answer is what becomes of one Node.
type Answer struct {
	Node string
	// Refused is a reason; empty: the Node may go.
	Refused string
	Message string // for people: which annotation, or which Pod
}

// Check says which of the Nodes may be given back together, in the order in which they are
// asked for: what one Node's Pods take is gone for the next. A Node that does not exist may go.
func Check(c Cluster, targets []string, o Options) []Answer {
	s := newState(c, targets)
	// What waits already comes first: Pods without a Node, and those that are about to lose
	// theirs. Where they find no room that is nobody's fault here.
	var waiting []*Pod
	for _, p := range s.pods {
		if p.node == "" && !p.ending && !p.stays || s.draining[p.node] && p.moves() {
			waiting = append(waiting, p)
		}
	}
	s.place(waiting, false)
	answers := make([]Answer, 0, len(targets))
	for _, name := range targets {
		answers = append(answers, s.answer(name, o))
	}
	return answers
}

// state is where everything is while Pods are moved about.
type state struct {
	nodes      []*node // sorted by name
	byName     map[string]*node
	pods       []*Pod
	draining   map[string]bool
	namespaces map[string]map[string]string
}

// node is a Node with what runs on it.
type node struct {
	object *corev1.Node
	free   map[corev1.ResourceName]int64
	pods   []*Pod
	open   bool // ready and schedulable, and not asked for
	leaves bool // its Pods are moved away, or will be
}

func newState(c Cluster, targets []string) *state {
	s := &state{byName: map[string]*node{}, draining: c.Draining, namespaces: c.Namespaces}
	for _, object := range c.Nodes {
		n := &node{object: object, free: map[corev1.ResourceName]int64{}}
		for name, q := range object.Status.Allocatable {
			n.free[name] = amount(name, q)
		}
		n.leaves = c.Draining[object.Name]
		n.open = !n.leaves && !object.Spec.Unschedulable && ready(object) && !slices.Contains(targets, object.Name)
		s.nodes = append(s.nodes, n)
		s.byName[object.Name] = n
	}
	slices.SortFunc(s.nodes, func(a, b *node) int { return cmp.Compare(a.object.Name, b.object.Name) })
	for _, p := range c.Pods {
		if p == nil {
			continue
		}
		s.pods = append(s.pods, p)
		if n := s.byName[p.node]; n != nil && !(n.leaves && !p.stays) {
			n.take(p)
		}
	}
	return s
}

func (n *node) take(p *Pod) {
	n.pods = append(n.pods, p)
	for name, a := range p.requests {
		n.free[name] -= a
	}
}

// answer says whether one Node may go, and moves its Pods if so.
func (s *state) answer(name string, o Options) Answer {
	n := s.byName[name]
	if n == nil || n.leaves {
		return Answer{Node: name}
	}
	if by := mark(n.object.Annotations, nodeMarks, o); by != "" {
		return Answer{name, DoNotReclaim, "annotation " + by}
	}
	var moved, stay []*Pod
	for _, p := range n.pods {
		if p.stays {
			stay = append(stay, p)
			continue
		}
		if p.doNotEvict != "" {
			return Answer{name, DoNotEvict, fmt.Sprintf("annotation %s of Pod %s/%s", p.doNotEvict, p.namespace, p.name)}
		}
		if p.moves() {
			moved = append(moved, p)
		}
	}
	if o.AnnotationsAlone {
		return Answer{Node: name}
	}
	before := n.pods
	n.pods = stay // those that move are no neighbours of anything any longer
	n.leaves = true
	if left := s.place(moved, true); left != nil {
		n.pods, n.leaves = before, false
		return Answer{name, DoesNotFit, fmt.Sprintf("no other Node takes Pod %s/%s", left.namespace, left.name)}
	}
	return Answer{Node: name}
}

// place puts Pods on Nodes, the largest first. all: either every one of them is placed, or
// none and the first that was not is returned. Else as many as possible are.
func (s *state) place(pods []*Pod, all bool) *Pod {
	s.sort(pods)
	var placed []*node
	for _, p := range pods {
		n := s.first(p)
		if n != nil {
			n.take(p)
			placed = append(placed, n)
			continue
		}
		if !all {
			continue
		}
		for i, n := range placed {
			n.giveBack(pods[i])
		}
		return p
	}
	return nil
}

func (n *node) giveBack(p *Pod) {
	n.pods = slices.DeleteFunc(n.pods, func(other *Pod) bool { return other == p })
	for name, a := range p.requests {
		n.free[name] += a
	}
}

// sort orders Pods by their largest share of the largest Node, the largest first.
func (s *state) sort(pods []*Pod) {
	largest := map[corev1.ResourceName]int64{}
	for _, n := range s.nodes {
		for name, q := range n.object.Status.Allocatable {
			largest[name] = max(largest[name], amount(name, q))
		}
	}
	share := func(p *Pod) (largestShare float64) {
		for name, a := range p.requests {
			if of := largest[name]; of > 0 {
				largestShare = max(largestShare, float64(a)/float64(of))
			}
		}
		return largestShare
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Or(cmp.Compare(share(b), share(a)), cmp.Compare(a.uid, b.uid)) })
}

// first returns the first Node that takes a Pod; nil: none does.
func (s *state) first(p *Pod) *node {
	domains, spreads := s.domainsOf(p), s.spreadsOf(p)
	for _, n := range s.nodes {
		if n.open && n.hasRoom(p) && tolerated(n.object, p) && matches(n.object, p) && domains.allow(n.object) && allow(spreads, n.object) {
			return n
		}
	}
	return nil
}

func (n *node) hasRoom(p *Pod) bool {
	for name, a := range p.requests {
		if n.free[name] < a {
			return false
		}
	}
	return true
}

func matches(n *corev1.Node, p *Pod) bool {
	ok, err := p.affinity.Match(n)
	return ok && err == nil
}

// tolerated says whether no taint keeps the Pod off the Node.
func tolerated(n *corev1.Node, p *Pod) bool {
	for i := range n.Spec.Taints {
		taint := &n.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(p.tolerations, func(t corev1.Toleration) bool { return tolerates(&t, taint) }) {
			return false
		}
	}
	return true
}

// tolerates compares one toleration with one taint. One that compares numbers tolerates nothing
// here: refusing costs less than moving a Pod to nowhere.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return t.Key != "" && t.Value == taint.Value
	default:
		return false
	}
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// most is more than any Node has, and fits into milli-units.
var most = *resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)

// amount returns a quantity in milli-units for cpu and whole units for the rest.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if q.Cmp(most) > 0 {
		q = most
	}
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// domain is a value of a label of Nodes.
type domain struct{ key, value string }

// domains are where a Pod may and must not be, by the Pods that are there.
type domains struct {
	forbidden map[domain]bool
	demanded  []demanded
}

// demanded is one term of affinity: one of the values of a key, or any if the Pod is the first
// of its kind.
type demanded struct {
	key    string
	values map[string]bool
	first  bool
}

func (s *state) domainsOf(p *Pod) domains {
	d := domains{forbidden: map[domain]bool{}}
	for _, t := range p.near {
		d.demanded = append(d.demanded, demanded{t.key, map[string]bool{}, s.selects(t, p)})
	}
	for _, n := range s.nodes {
		for _, other := range n.pods {
			for _, t := range other.apart {
				if value, found := n.object.Labels[t.key]; found && s.selects(t, p) {
					d.forbidden[domain{t.key, value}] = true
				}
			}
			for _, t := range p.apart {
				if value, found := n.object.Labels[t.key]; found && s.selects(t, other) {
					d.forbidden[domain{t.key, value}] = true
				}
			}
			for i, t := range p.near {
				if value, found := n.object.Labels[t.key]; found && s.selects(t, other) {
					d.demanded[i].values[value] = true
				}
			}
		}
	}
	return d
}

func (d domains) allow(n *corev1.Node) bool {
	for key, value := range n.Labels {
		if d.forbidden[domain{key, value}] {
			return false
		}
	}
	for _, one := range d.demanded {
		value, found := n.Labels[one.key]
		if !found || !one.values[value] && (len(one.values) > 0 || !one.first) {
			return false
		}
	}
	return true
}

// selects says whether a term is about a Pod.
func (s *state) selects(t term, p *Pod) bool {
	if !t.namespaces[p.namespace] && (t.nsSelector == nil || !t.nsSelector.Matches(labels.Set(s.namespaces[p.namespace]))) {
		return false
	}
	return t.selector.Matches(p.labels)
}
