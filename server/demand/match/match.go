// Package match says whether a machine can serve a workload, by what the scheduler of Kubernetes
// would look at: labels, and taints.
//
// [Terms] are the requirements of a workload; [Terms.Match] evaluates them as kube-scheduler does.
// Amounts of resources, domains of a topology and prices are left to others. All functions are pure
// and safe for concurrent use on values that do not change.
package match

import (
	"fmt"
	"slices"
	"strconv"
)

// Operator relates the label of a machine to the values of a requirement. Its numbers are those of
// the canonical form of a profile.
type Operator uint8

// The operators. Same asks that all machines of a workload have one value; of a single machine it
// asks nothing here, because whether it has a value is known by its domains.
const (
	In Operator = iota
	NotIn
	Exists
	DoesNotExist
	Same
	Gt
	Lt
)

var operatorNames = [...]string{"In", "NotIn", "Exists", "DoesNotExist", "Same", "Gt", "Lt"}

// String is the operator as Kubernetes writes it.
func (o Operator) String() string {
	if int(o) < len(operatorNames) {
		return operatorNames[o]
	}
	return fmt.Sprintf("operator(%d)", uint8(o))
}

// Requirement asks something of one label. In and NotIn have at least one value, Gt and Lt exactly
// one decimal integer, the others none.
type Requirement struct {
	Key    string
	Op     Operator
	Values []string
}

// Match reports whether labels satisfy the requirement. NotIn and DoesNotExist hold where the key
// is absent. Gt and Lt are false where it is, or where either side is no decimal integer.
func (r Requirement) Match(labels map[string]string) bool {
	value, present := labels[r.Key]
	switch r.Op {
	case In:
		return present && slices.Contains(r.Values, value)
	case NotIn:
		return !present || !slices.Contains(r.Values, value)
	case Exists:
		return present
	case DoesNotExist:
		return !present
	case Same:
		return true
	case Gt, Lt:
		return present && len(r.Values) == 1 && compare(r.Op, value, r.Values[0])
	default:
		return false
	}
}

// String is the requirement as people write it: `key In [a b]`.
func (r Requirement) String() string {
	if len(r.Values) == 0 {
		return fmt.Sprintf("%s %s", r.Key, r.Op)
	}
	return fmt.Sprintf("%s %s %v", r.Key, r.Op, r.Values)
}

func compare(op Operator, label, bound string) bool {
	have, err := strconv.ParseInt(label, 10, 64)
	if err != nil {
		return false
	}
	limit, err := strconv.ParseInt(bound, 10, 64)
	if err != nil {
		return false
	}
	if op == Gt {
		return have > limit
	}
	return have < limit
}

// Effect is what a taint does to Pods that do not tolerate it.
type Effect uint8

// The effects. AnyEffect is for tolerations alone: it tolerates every effect.
const (
	AnyEffect Effect = iota
	NoSchedule
	PreferNoSchedule
	NoExecute
)

// Taint keeps Pods off a machine.
type Taint struct {
	Key, Value string
	Effect     Effect
}

var effectNames = [...]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}

// String is the taint as kubectl writes it: `key=value:Effect`.
func (t Taint) String() string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	if int(t.Effect) < len(effectNames) {
		text += ":" + effectNames[t.Effect]
	}
	return text
}

// Toleration lets a Pod run in spite of taints. An empty key that Exists tolerates all of them.
type Toleration struct {
	Key    string
	Exists bool
	Value  string
	Effect Effect
}

// Tolerates reports whether the toleration covers a taint.
func (t Toleration) Tolerates(taint Taint) bool {
	switch {
	case t.Effect != AnyEffect && t.Effect != taint.Effect:
		return false
	case t.Key == "":
		return t.Exists
	case t.Key != taint.Key:
		return false
	default:
		return t.Exists || t.Value == taint.Value
	}
}

// Terms are what a workload asks of a machine: all Requirements, and at least one of the
// Alternatives where there are any. The zero Terms match every machine without taints.
type Terms struct {
	Requirements []Requirement
	Alternatives [][]Requirement
	Tolerations  []Toleration
}

// Match reports whether a machine with these labels and taints can serve the workload. Taints that
// only prefer are not looked at. Startup taints are not to be handed in: they go by themselves.
func (t *Terms) Match(labels map[string]string, taints []Taint) bool {
	return all(t.Requirements, labels) && t.oneOf(labels) && t.tolerates(taints)
}

// Obstacles says in words what of the workload a machine with these labels and taints does not meet; nothing where
// [Terms.Match] holds.
func (t *Terms) Obstacles(labels map[string]string, taints []Taint) (all []string) {
	for _, r := range t.Requirements {
		if r.Match(labels) {
			continue
		}
		if value, ok := labels[r.Key]; ok {
			all = append(all, fmt.Sprintf("its %s is %q, and required is %s", r.Key, value, r))
		} else {
			all = append(all, fmt.Sprintf("it has no label %s, and required is %s", r.Key, r))
		}
	}
	if !t.oneOf(labels) {
		all = append(all, "none of the alternatives holds")
	}
	for _, taint := range taints {
		if !t.tolerates([]Taint{taint}) {
			all = append(all, "its taint "+taint.String()+" is not tolerated")
		}
	}
	return all
}

func all(requirements []Requirement, labels map[string]string) bool {
	for _, r := range requirements {
		if !r.Match(labels) {
			return false
		}
	}
	return true
}

func (t *Terms) oneOf(labels map[string]string) bool {
	if len(t.Alternatives) == 0 {
		return true
	}
	return slices.ContainsFunc(t.Alternatives, func(a []Requirement) bool { return all(a, labels) })
}

func (t *Terms) tolerates(taints []Taint) bool {
	for _, taint := range taints {
		if taint.Effect == PreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(t.Tolerations, func(tol Toleration) bool { return tol.Tolerates(taint) }) {
			return false
		}
	}
	return true
}

// SameKey is the topology key of which all machines must have one value; empty: none.
func (t *Terms) SameKey() string {
	for _, r := range t.Requirements {
		if r.Op == Same {
			return r.Key
		}
	}
	return ""
}
