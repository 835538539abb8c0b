package document

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"nstance.dev/server/config/jsonc"
)

// Node is what the Kubernetes Node of a machine will be.
type Node struct {
	// Labels that the kubelet registers, merged over those of the template.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints that the kubelet registers, and that Pods have to tolerate. Replace those of the template.
	Taints []Taint `json:"taints,omitempty"`
	// Taints that the kubelet registers and that something on the Node removes when it is ready, such as a network plug-in. Pods need not tolerate them. Replace those of the template.
	StartupTaints []Taint `json:"startup_taints,omitempty"`
	// What of the machine's resources Pods cannot have, as Kubernetes quantities by resource name; merged over that of the template. Default: an estimate from processors and Pods.
	Reserved map[string]Quantity `json:"reserved,omitempty"`
	// Most Pods on the Node. Default: what the instance type takes, else 110.
	MaxPods *int `json:"max_pods,omitempty" jsonschema:"minimum=1,maximum=1000"`
}

// Taint keeps Pods off a Node that do not tolerate it.
type Taint struct {
	// Key.
	Key string `json:"key"`
	// Value. Default: empty.
	Value string `json:"value,omitempty"`
	// What it does.
	Effect string `json:"effect" jsonschema:"enum=NoSchedule,enum=PreferNoSchedule,enum=NoExecute"`
}

// TaintEffects are the effects of a [Taint].
var TaintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// IsZero says whether it says nothing.
func (n *Node) IsZero() bool {
	return len(n.Labels)+len(n.Taints)+len(n.StartupTaints)+len(n.Reserved) == 0 && n.MaxPods == nil
}

// Over gives n laid over what a lower layer says. Neither is changed.
func (n *Node) Over(low Node) Node {
	if n == nil {
		return low
	}
	low.Labels, low.Reserved = over(n.Labels, low.Labels), over(n.Reserved, low.Reserved)
	if n.Taints != nil {
		low.Taints = n.Taints
	}
	if n.StartupTaints != nil {
		low.StartupTaints = n.StartupTaints
	}
	if n.MaxPods != nil {
		low.MaxPods = n.MaxPods
	}
	return low
}

func over[V any](high, low map[string]V) map[string]V {
	if len(high) == 0 {
		return low
	}
	merged := maps.Clone(low)
	if merged == nil {
		merged = make(map[string]V, len(high))
	}
	maps.Copy(merged, high)
	return merged
}

// Problem is what is wrong inside of a block: where, what, and what to do about it.
type Problem struct {
	At              []any // names of members and indices of lists, from the block
	Message, Remedy string
}

func at(steps ...any) []any { return steps }

var (
	labelName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelPrefix = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
)

// checkName says why a text can't be the name of a label, a taint or a resource in Kubernetes.
func checkName(name string) error {
	prefix, plain, prefixed := strings.Cut(name, "/")
	if !prefixed {
		plain = name
	}
	if !labelName.MatchString(plain) || prefixed && (len(prefix) > 253 || !labelPrefix.MatchString(prefix)) {
		return errors.New(jsonc.Quoted(name) + " is not a name in Kubernetes")
	}
	return nil
}

const nameRemedy = `letters, digits and . _ -, at most 63 of them, and before a slash a domain: such as "example.com/tier"`

// Labels that the server sets itself; see the page on demand groups.
var ownLabels = []string{
	"kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os",
	"node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
}

// Problems are those of the block by itself.
func (n *Node) Problems() []Problem {
	if n == nil {
		return nil
	}
	var all []Problem
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		value := n.Labels[key]
		switch err := checkName(key); {
		case err != nil:
			all = append(all, Problem{at("labels", key), err.Error(), nameRemedy})
		case slices.Contains(ownLabels, key) || strings.HasPrefix(key, "nstance.dev/"):
			all = append(all, Problem{at("labels", key), jsonc.Quoted(key) + " is set by the server itself", "take it out"})
		case value != "" && !labelName.MatchString(value):
			all = append(all, Problem{at("labels", key), jsonc.Quoted(value) + " is not the value of a label", "letters, digits and . _ -, at most 63 of them"})
		}
	}
	all = append(all, taintProblems("taints", n.Taints)...)
	all = append(all, taintProblems("startup_taints", n.StartupTaints)...)
	for _, name := range slices.Sorted(maps.Keys(n.Reserved)) {
		if err := checkName(name); err != nil {
			all = append(all, Problem{at("reserved", name), err.Error(), nameRemedy})
		}
		if _, err := n.Reserved[name].Amount(name); err != nil {
			all = append(all, Problem{at("reserved", name), err.Error(), QuantityRemedy})
		}
	}
	if m := n.MaxPods; m != nil && (*m < 1 || *m > 1000) {
		all = append(all, Problem{at("max_pods"), "out of range", "from 1 to 1000"})
	}
	return all
}

func taintProblems(field string, taints []Taint) []Problem {
	var all []Problem
	seen := map[[2]string]bool{}
	for i, t := range taints {
		if err := checkName(t.Key); err != nil {
			all = append(all, Problem{at(field, i, "key"), err.Error(), nameRemedy})
		}
		if t.Value != "" && !labelName.MatchString(t.Value) {
			all = append(all, Problem{at(field, i, "value"), jsonc.Quoted(t.Value) + " is not the value of a taint", "letters, digits and . _ -, at most 63 of them"})
		}
		if !slices.Contains(TaintEffects, t.Effect) {
			all = append(all, Problem{at(field, i, "effect"), jsonc.Quoted(t.Effect) + " is not an effect", "must be one of " + strings.Join(TaintEffects, ", ")})
		}
		if seen[[2]string{t.Key, t.Effect}] {
			all = append(all, Problem{at(field, i), jsonc.Quoted(t.Key) + " has this effect twice", "take one of them out"})
		}
		seen[[2]string{t.Key, t.Effect}] = true
	}
	return all
}
