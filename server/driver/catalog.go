package driver

import "context"

// InstanceType is one type of machine, as the provider describes it.
type InstanceType struct {
	Name      string // in the provider's words, as in CreateRequest.InstanceType
	Arch      string // amd64 or arm64; empty: unknown
	VCPU      int    // virtual processors; 0: unknown
	MemoryMiB int    // 0: unknown
	GPUs      int
	GPUModel  string // in the provider's words; empty without GPUs, or if unknown

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
