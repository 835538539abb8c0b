package simulate

import (
	"cmp"
	"fmt"
	"slices"

	"nstance.dev/server/driver"
)

// InstanceType is one type of a provider's catalogue, as a file has it.
type InstanceType struct {
	Name         string           `json:"name"`
	Arch         string           `json:"arch,omitempty"`
	Family       string           `json:"family,omitempty"`
	VCPU         int              `json:"vcpu"`
	MemoryMiB    int              `json:"memory_mib"`
	GPUs         int              `json:"gpus,omitempty"`
	GPUModel     string           `json:"gpu_model,omitempty"`
	GPUMemoryMiB int              `json:"gpu_memory_mib,omitempty"`
	MaxPods      int              `json:"max_pods,omitempty"`
	EphemeralGiB int              `json:"ephemeral_gib,omitempty"`
	Extended     map[string]int64 `json:"extended,omitempty"` // devices, by the names of their resources
	HourlyUSD    float64          `json:"hourly_usd,omitempty"`
	SpotUSD      float64          `json:"spot_usd,omitempty"`
}

// ParseTypes reads a list of instance types, YAML or JSON. Fields that are not known are an error.
func ParseTypes(data []byte) ([]driver.InstanceType, error) {
	var list []InstanceType
	if err := decode(data, &list, "it is a list of types, each with name, arch, vcpu, memory_mib, hourly_usd and so on"); err != nil {
		return nil, err
	}
	types := make([]driver.InstanceType, 0, len(list))
	for i, t := range list {
		if t.Name == "" || t.VCPU < 0 || t.MemoryMiB < 0 || t.GPUs < 0 || t.HourlyUSD < 0 || t.SpotUSD < 0 {
			return nil, fmt.Errorf("instance type %d: it has no name, or less than nothing of something", i)
		}
		made := driver.InstanceType{
			Name: t.Name, Arch: t.Arch, Family: t.Family, VCPU: t.VCPU, MemoryMiB: t.MemoryMiB, GPUs: t.GPUs, GPUModel: t.GPUModel, GPUMemoryMiB: t.GPUMemoryMiB,
			MaxPods: t.MaxPods, EphemeralGiB: t.EphemeralGiB, HourlyUSD: t.HourlyUSD, SpotUSD: t.SpotUSD,
		}
		for name, n := range t.Extended {
			made.Extended = append(made.Extended, driver.Resource{Name: name, Count: n})
		}
		slices.SortFunc(made.Extended, func(a, b driver.Resource) int { return cmp.Compare(a.Name, b.Name) })
		types = append(types, made)
	}
	return types, nil
}
