package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Annotation of a Node: labels and taints that were applied to it last, and the hash of the SSH keys, as JSON. A Node that was built anew has none.
const Annotation = hostsv1.Prefix + "in-place"

// Applied are labels and taints as a template has them.
type Applied struct {
	Labels map[string]hostsv1.LabelValue `json:"labels,omitempty"`
	Taints []hostsv1.Taint               `json:"taints,omitempty"`
	// SSHKeys is the hash of those that were set in place; empty: those of what the machine was built from.
	SSHKeys string `json:"sshKeys,omitempty"`
}

func of(t *hostsv1.Template) Applied {
	return Applied{Labels: t.Kubernetes.NodeLabels, Taints: t.Kubernetes.Taints, SSHKeys: hashOf(keysOf(t))}
}

// Decision is what becomes of a Node.
type Decision struct {
	// Repave are the fields that differ and take one. Nothing else is said where there are any.
	Repave []string
	// Keys are set on the host first; nil: its keys are as they are to be.
	Keys map[string]string
	// Node as it is to be; nil: it is already.
	Node *corev1.Node
	// Changed are the labels and taints that are changed, Kept those that somebody else has set otherwise.
	Changed, Kept []string
}

// group is what the group of an instance sets, whatever a template says: labels and taints by their keys.
type group struct{ labels, taints map[string]bool }

func groupOf(n *nstancev1.NodeSettings) group {
	g := group{map[string]bool{}, map[string]bool{}}
	for key := range n.GetLabels() {
		g.labels[key] = true
	}
	for _, t := range slices.Concat(n.GetTaints(), n.GetStartupTaints()) {
		g.taints[t.GetKey()] = true
	}
	return g
}

// Decide returns how a Node that was built from one template comes to have the labels and taints of another. What
// the group of its instance sets (nil: nothing) wins over both, and stays. Where the host does not set SSH keys in place other keys take a
// repave too.
func Decide(node *corev1.Node, built, wanted *hostsv1.Template, settings *nstancev1.NodeSettings, setsKeys bool) (Decision, error) {
	fields := repaving(built, wanted)
	was := of(built)
	if text, has := node.Annotations[Annotation]; has {
		was = Applied{}
		if err := json.Unmarshal([]byte(text), &was); err != nil && len(fields) == 0 {
			return Decision{}, fmt.Errorf("annotation %s of Node %s: %w", Annotation, node.Name, err)
		}
		if was.SSHKeys == "" {
			was.SSHKeys = of(built).SSHKeys
		}
	}
	next, d := node.DeepCopy(), Decision{}
	if was.SSHKeys != of(wanted).SSHKeys {
		var fit bool
		if d.Keys, fit = parameters(keysOf(wanted)); !fit || !setsKeys {
			fields = append(fields, "host.sshKeys")
			slices.Sort(fields)
		}
		d.Changed = append(d.Changed, "SSH keys")
	}
	if len(fields) > 0 {
		return Decision{Repave: fields}, nil
	}
	g := groupOf(settings)
	d.labels(next, g, was.Labels, wanted.Kubernetes.NodeLabels)
	d.taints(next, g, was.Taints, wanted.Kubernetes.Taints)
	if len(d.Changed) == 0 {
		return d, nil
	}
	text, err := json.Marshal(of(wanted))
	if err != nil {
		return Decision{}, fmt.Errorf("labels and taints: %w", err)
	}
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[Annotation] = string(text)
	d.Node = next
	return d, nil
}

func (d *Decision) labels(node *corev1.Node, g group, was, wanted map[string]hostsv1.LabelValue) {
	keys := maps.Clone(was)
	if keys == nil {
		keys = map[string]hostsv1.LabelValue{}
	}
	maps.Copy(keys, wanted)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		old, had := was[key]
		value, wants := wanted[key]
		is, has := node.Labels[key]
		switch {
		case has == wants && is == string(value):
		case g.labels[key] && !wants:
		case g.labels[key], has != had || is != string(old):
			d.Kept = append(d.Kept, "label "+key)
		case wants:
			if node.Labels == nil {
				node.Labels = map[string]string{}
			}
			node.Labels[key] = string(value)
			d.Changed = append(d.Changed, "label "+key)
		default:
			delete(node.Labels, key)
			d.Changed = append(d.Changed, "label "+key)
		}
	}
}

// taint tells taints of a Node apart: of each key it has one of each effect.
type taint struct {
	key    string
	effect corev1.TaintEffect
}

func (d *Decision) taints(node *corev1.Node, g group, was, wanted []hostsv1.Taint) {
	before, after, all := map[taint]string{}, map[taint]string{}, map[string]taint{}
	note := func(into map[taint]string, some []hostsv1.Taint) {
		for _, t := range some {
			into[taint{t.Key, t.Effect}] = string(t.Value)
			all[t.Key+":"+string(t.Effect)] = taint{t.Key, t.Effect}
		}
	}
	note(before, was)
	note(after, wanted)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := all[name]
		old, had := before[one]
		value, wants := after[one]
		i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == one.key && t.Effect == one.effect })
		has, is := i >= 0, ""
		if has {
			is = node.Spec.Taints[i].Value
		}
		switch {
		case has == wants && is == value:
		case g.taints[one.key] && !wants:
		case g.taints[one.key], has != had || is != old:
			d.Kept = append(d.Kept, "taint "+name)
		case !wants:
			node.Spec.Taints = slices.Delete(node.Spec.Taints, i, i+1)
			d.Changed = append(d.Changed, "taint "+name)
		case has:
			node.Spec.Taints[i].Value = value
			d.Changed = append(d.Changed, "taint "+name)
		default:
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: one.key, Value: value, Effect: one.effect})
			d.Changed = append(d.Changed, "taint "+name)
		}
	}
}

// repaving are the fields in which two templates differ, labels and taints left out.
func repaving(built, wanted *hostsv1.Template) []string {
	a, b := fields(built), fields(wanted)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(merged(a, b))) {
		if !reflect.DeepEqual(a[name], b[name]) {
			all = append(all, name)
		}
	}
	return all
}

func merged(a, b map[string]any) map[string]any {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// fields are those of a template with its defaults, two levels deep, by their names.
func fields(t *hostsv1.Template) map[string]any {
	t = versions.WithDefaults(t)
	t.Kubernetes.NodeLabels, t.Kubernetes.Taints = nil, nil
	if t.Host != nil {
		t.Host.SSHKeys = nil
	}
	text, err := json.Marshal(t)
	if err != nil { // strings, numbers and booleans, in maps with string keys
		panic(fmt.Sprintf("inplace: encode a template: %v", err))
	}
	tree, flat := map[string]any{}, map[string]any{}
	if err := json.Unmarshal(text, &tree); err != nil {
		panic(fmt.Sprintf("inplace: decode a template: %v", err))
	}
	for name, value := range tree {
		inner, deeper := value.(map[string]any)
		if !deeper {
			flat[name] = value
			continue
		}
		for key, value := range inner {
			flat[name+"."+key] = value
		}
	}
	return flat
}
