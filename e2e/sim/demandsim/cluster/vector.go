package cluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// GPU is the extended resource that a world has.
const GPU = corev1.ResourceName("nvidia.com/gpu")

// dimensions are the resources that a Pod may ask for, and those of a Node. CPU is in
// milli-units, the others in base units.
var dimensions = [...]corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage, GPU,
}

// Vector is an amount of each dimension.
type Vector [len(dimensions)]int64

// VectorOf reads a list of resources; those that a world does not have are left out.
func VectorOf(list corev1.ResourceList) (v Vector) {
	for d, name := range dimensions {
		q, ok := list[name]
		switch {
		case !ok:
		case name == corev1.ResourceCPU:
			v[d] = q.MilliValue()
		default:
			v[d] = q.Value()
		}
	}
	return v
}

// List is the vector as Kubernetes writes it, without what is zero.
func (v Vector) List() corev1.ResourceList {
	list := corev1.ResourceList{}
	for d, name := range dimensions {
		switch {
		case v[d] == 0:
		case name == corev1.ResourceCPU:
			list[name] = *resource.NewMilliQuantity(v[d], resource.DecimalSI)
		case name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage:
			list[name] = *resource.NewQuantity(v[d], resource.BinarySI)
		default:
			list[name] = *resource.NewQuantity(v[d], resource.DecimalSI)
		}
	}
	return list
}

// fits is true if w is at least v in every dimension.
func (v Vector) fits(w Vector) bool {
	for d := range v {
		if v[d] > w[d] {
			return false
		}
	}
	return true
}

func (v Vector) plus(w Vector) Vector {
	for d := range v {
		v[d] += w[d]
	}
	return v
}

func (v Vector) minus(w Vector) Vector {
	for d := range v {
		v[d] -= w[d]
	}
	return v
}

// requests is what the scheduler reserves for a Pod: the containers and sidecars that run
// together, or the init container that needs most beside the sidecars before it, and the
// overhead.
func requests(spec *corev1.PodSpec) Vector {
	var run, side, peak Vector
	for i := range spec.Containers {
		run = run.plus(VectorOf(spec.Containers[i].Resources.Requests))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		own := VectorOf(c.Resources.Requests)
		stage := side.plus(own)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			run, side = run.plus(own), stage
		}
		for d := range peak {
			peak[d] = max(peak[d], stage[d])
		}
	}
	for d := range run {
		run[d] = max(run[d], peak[d])
	}
	run = run.plus(VectorOf(spec.Overhead))
	for d, name := range dimensions {
		if name == corev1.ResourcePods {
			run[d] = 1
		}
	}
	return run
}

// Amount is one dimension of a vector, by the name of its resource.
type Amount struct {
	Name   string
	Amount int64
}

// Amounts are the dimensions that are not zero, in the order of their names.
func (v Vector) Amounts() (all []Amount) {
	for d, name := range dimensions {
		if v[d] != 0 {
			all = append(all, Amount{string(name), v[d]})
		}
	}
	slices.SortFunc(all, func(a, b Amount) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Plus is the sum of two vectors.
func (v Vector) Plus(w Vector) Vector { return v.plus(w) }

// Fits says whether w is at least v in every dimension.
func (v Vector) Fits(w Vector) bool { return v.fits(w) }
