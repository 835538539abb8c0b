package capacity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// DefaultMemoryShare is how much of a machine's memory is left for Pods, where nothing
// better is known: the rest is for the machine's own system and for kubelet.
const DefaultMemoryShare = 0.925

// Pool is what is known of a pool.
type Pool struct {
	// Group is the key of its group and Shards are those that it is spread over: the
	// operator labels each Node with its own. Empty: it does not.
	Group  string
	Shards []string
	// Template is what a person says of the Nodes; nil: nothing.
	Template *infrav1.NodeTemplate
	// Learned is what was learnt of earlier Nodes; nil: nothing.
	Learned *infrav1.LearnedCapacity
	// Parts are what the shards say, as far as they are known.
	Parts []Part
	// Partial: not every shard of the pool has said what it has.
	Partial bool
	// Nodes are the pool's.
	Nodes []Node
	// MemoryShare is the share of the reported memory that is left for Pods; zero means
	// DefaultMemoryShare.
	MemoryShare float64
}

// Part is what one shard says of its part of the pool.
type Part struct {
	Arch, Zone, Region string
	// InstanceType is the machine type, InstanceTypes those that are tried in its place.
	InstanceType  string
	InstanceTypes []string
	Template      string
	Vars          map[string]string
	// Capacity of one machine by resource, as the server writes it; GPUs are apart.
	Capacity map[string]string
	GPUType  string
	GPUs     int32
}

// Node is a Node of the pool.
type Node struct {
	// InstanceType and Template are those of its instance.
	InstanceType, Template string
	Ready                  bool
	Allocatable            corev1.ResourceList
}

// types are the machine types that a part may have.
func (p Part) types() []string { return append([]string{p.InstanceType}, p.InstanceTypes...) }

// InstanceType returns the machine type of all parts; MixedValue where they differ, empty
// without parts.
func (p Pool) InstanceType() string {
	return same(p.Parts, func(p Part) string { return p.InstanceType }, infrav1.MixedValue)
}

// same returns what all parts have in common, otherwise if they differ.
func same(parts []Part, of func(Part) string, otherwise string) string {
	if len(parts) == 0 {
		return ""
	}
	first := of(parts[0])
	if slices.ContainsFunc(parts, func(p Part) bool { return of(p) != first }) {
		return otherwise
	}
	return first
}

// fingerprint stands for all that Nodes are made from; how many there are does not count.
func (p Pool) fingerprint() string {
	var all []string
	for _, part := range p.Parts {
		text, err := json.Marshal([]any{part.Arch, part.types(), part.Template, part.Vars})
		if err != nil { // strings only
			panic(err)
		}
		all = append(all, string(text))
	}
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(all), "\n")))
	return hex.EncodeToString(sum[:8])
}

// devices are the resources under which Nodes offer accelerators, by words in the names of
// their models. The last one stands for all others.
var devices = []struct {
	words []string
	name  corev1.ResourceName
}{
	{[]string{"radeon", "amd", "instinct", "mi2", "mi3"}, "amd.com/gpu"},
	{[]string{"gaudi", "habana"}, "habana.ai/gaudi"},
	{[]string{""}, "nvidia.com/gpu"},
}

func device(model string) corev1.ResourceName {
	model = strings.ToLower(model)
	for _, d := range devices {
		if slices.ContainsFunc(d.words, func(word string) bool { return strings.HasPrefix(model, word) || strings.Contains(model, " "+word) }) {
			return d.name
		}
	}
	return ""
}

// reported returns what every shard promises of one machine, the least where they differ.
func (p Pool) reported() infrav1.ResourceList {
	share := cmp.Or(p.MemoryShare, DefaultMemoryShare)
	var all []infrav1.ResourceList
	for _, part := range p.Parts {
		list := infrav1.ResourceList{}
		for name, text := range part.Capacity {
			q, err := resource.ParseQuantity(text)
			if err != nil || q.Sign() <= 0 { // a server's word; better nothing than a wrong number
				continue
			}
			if corev1.ResourceName(name) == corev1.ResourceMemory {
				q = *resource.NewQuantity(int64(float64(q.Value())*share)>>20<<20, resource.BinarySI)
			}
			list[corev1.ResourceName(name)] = q
		}
		if part.GPUs > 0 {
			list[device(part.GPUType)] = *resource.NewQuantity(int64(part.GPUs), resource.DecimalSI)
		}
		all = append(all, list)
	}
	return inAll(all)
}

// inAll returns the least of each resource that stands in every list.
func inAll(lists []infrav1.ResourceList) infrav1.ResourceList {
	if len(lists) == 0 {
		return nil
	}
	out := maps.Clone(lists[0])
	for name, q := range out {
		for _, list := range lists[1:] {
			other, ok := list[name]
			if !ok {
				delete(out, name)
				break
			}
			if other.Cmp(q) < 0 {
				q = other
			}
			out[name] = q
		}
	}
	return out
}
