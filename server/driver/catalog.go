package driver

import (
	"context"
	"slices"
)

// InstanceType is one type of machine, as the provider describes it.
type InstanceType struct {
	Name      string // in the provider's words, as in CreateRequest.InstanceType
	Arch      string // amd64 or arm64; empty: unknown
	VCPU      int    // virtual processors; 0: unknown
	MemoryMiB int    // 0: unknown
	GPUs      int
	GPUModel  string // in the provider's words; empty without GPUs, or if unknown

	Family       string // of types that differ in size alone; empty: unknown
	GPUMemoryMiB int    // of all GPUs together; 0: unknown
	MaxPods      int    // most Pods that its network can address; 0: no limit of its own, or unknown
	EphemeralGiB int    // of local disks that machines are made with; 0: none, or unknown
	// Extended are the devices that its machines advertise as extended resources of Kubernetes, sorted
	// by name, such as nvidia.com/gpu.
	Extended []Resource
	// InterruptionPerHour is the probability that a machine of the type is taken back within an hour
	// when it is interruptible, 0 to 1; 0: not known.
	InterruptionPerHour float64

	// HourlyUSD and SpotUSD are the prices of an hour, on demand and interruptible,
	// in the region or zone of the driver. 0: the provider's API gives none.
	HourlyUSD float64
	SpotUSD   float64
}

// TypeCatalog is implemented by drivers that can list their instance types.
type TypeCatalog interface {
	// InstanceTypes returns the types that machines can be made of where this
	// driver makes them, each once, in order of name. A partial listing is an
	// error; a price that cannot be had is not.
	InstanceTypes(ctx context.Context) ([]InstanceType, error)
}

// Resource is so many of a device.
type Resource struct {
	Name  string
	Count int64
}

// Equal reports whether two types are the same in everything but their prices.
func (t *InstanceType) Equal(other *InstanceType) bool {
	return t.Name == other.Name && t.Arch == other.Arch && t.VCPU == other.VCPU && t.MemoryMiB == other.MemoryMiB &&
		t.GPUs == other.GPUs && t.GPUModel == other.GPUModel && t.Family == other.Family && t.GPUMemoryMiB == other.GPUMemoryMiB &&
		t.MaxPods == other.MaxPods && t.EphemeralGiB == other.EphemeralGiB && slices.Equal(t.Extended, other.Extended)
}
