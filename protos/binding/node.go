package binding

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Taint is a taint of a Node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"` // NoSchedule, PreferNoSchedule or NoExecute
}

// Node is how the Node of a machine registers.
type Node struct {
	Labels        map[string]string `json:"labels,omitempty"`
	Taints        []Taint           `json:"taints,omitempty"`
	StartupTaints []Taint           `json:"startup_taints,omitempty"` // removed by something in the cluster
}

// ErrNode is matched by every error of [Node.Check].
var ErrNode = errors.New("invalid node")

var (
	namePattern   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	domainPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

// Check finds what no Node can have, by the rules of Kubernetes. Text that passes holds
// letters, digits, ".", "_", "-" and "/" alone, so it needs no quotes anywhere.
func (n Node) Check() error {
	if len(n.Labels) > MaxLabels {
		return fmt.Errorf("%w: %d labels, at most %d are allowed", ErrNode, len(n.Labels), MaxLabels)
	}
	if count := len(n.Taints) + len(n.StartupTaints); count > MaxTaints {
		return fmt.Errorf("%w: %d taints, at most %d are allowed", ErrNode, count, MaxTaints)
	}
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		if !validKey(key) || !validValue(n.Labels[key]) {
			return fmt.Errorf("%w: label %.300q=%.80q is not valid", ErrNode, key, n.Labels[key])
		}
	}
	for _, t := range n.allTaints() {
		if !validKey(t.Key) || !validValue(t.Value) || !slices.Contains(effects, t.Effect) {
			return fmt.Errorf("%w: taint %.300q=%.80q:%.80q is not valid", ErrNode, t.Key, t.Value, t.Effect)
		}
	}
	return nil
}

var effects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

func validKey(key string) bool {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		return namePattern.MatchString(key)
	}
	return len(prefix) <= 253 && domainPattern.MatchString(prefix) && namePattern.MatchString(name)
}

func validValue(value string) bool { return value == "" || namePattern.MatchString(value) }

func (n Node) allTaints() []Taint { return slices.Concat(n.Taints, n.StartupTaints) }

// LabelFlag returns the labels as the kubelet's flag --node-labels has them, sorted.
func (n Node) LabelFlag() string {
	parts := make([]string, 0, len(n.Labels))
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		parts = append(parts, key+"="+n.Labels[key])
	}
	return strings.Join(parts, ",")
}

// TaintFlag returns the taints of both kinds as the kubelet's flag --register-with-taints has
// them, sorted and each once.
func (n Node) TaintFlag() string {
	var parts []string
	for _, t := range n.allTaints() {
		parts = append(parts, t.Key+"="+t.Value+":"+t.Effect)
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ",")
}
