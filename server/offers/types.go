package offers

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
)

// mostTypes is how many types requirements choose at most.
const mostTypes = 60

// shard is what all groups of a shard share.
type shard struct {
	cfg          *effective.Config
	types        map[string]*driver.InstanceType
	listed       []driver.InstanceType // by name
	hasCatalogue bool
}

func newShard(in Input) shard {
	s := shard{cfg: in.Config, types: make(map[string]*driver.InstanceType, len(in.Types)), hasCatalogue: in.HasCatalogue}
	s.listed = slices.Clone(in.Types)
	slices.SortFunc(s.listed, func(a, b driver.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	for i := range s.listed {
		s.types[s.listed[i].Name] = &s.listed[i]
	}
	return s
}

// kind is what machines of a type of a group are: by the catalogue, else by what the configuration
// says of their size. False: how big they are is not known.
func (s *shard) kind(g *effective.Group, name string) (driver.InstanceType, bool) {
	t := driver.InstanceType{Name: name, Arch: g.Arch, Family: s.cfg.Rules.Family(name)}
	if listed, ok := s.types[name]; ok {
		t = *listed
		t.Arch, t.Family = cmp.Or(t.Arch, g.Arch), cmp.Or(t.Family, s.cfg.Rules.Family(name))
	}
	traits := s.cfg.Rules.Traits([]string{name}, g.Args)
	t.VCPU, t.MemoryMiB = cmp.Or(t.VCPU, traits.VCPU), cmp.Or(t.MemoryMiB, traits.MemoryMiB)
	t.EphemeralGiB = cmp.Or(t.EphemeralGiB, traits.DiskGiB)
	return t, t.VCPU > 0 && t.MemoryMiB > 0
}

// resolved are the types that a group may buy, by name, and how many its requirements choose beyond
// the most that are taken. Why there are none, the error says.
func (s *shard) resolved(g *effective.Group) (names []string, leftOut int, err error) {
	if g.Requirements == nil {
		names = slices.Clone(g.InstanceTypes)
		slices.Sort(names)
		return slices.Compact(names), 0, nil
	}
	switch {
	case !s.hasCatalogue:
		return nil, 0, fmt.Errorf("instance_requirements: the provider does not list its instance types; name them in instance_type")
	case s.listed == nil:
		return nil, 0, fmt.Errorf("instance_requirements: the provider's instance types have not been listed yet")
	}
	left := slices.Clone(s.listed)
	for _, f := range s.filters(g) {
		left = slices.DeleteFunc(left, func(t driver.InstanceType) bool { return !f.holds(&t) })
		if len(left) == 0 {
			return nil, 0, fmt.Errorf("instance_requirements: no instance type is left of those that the provider lists: %s excludes the last ones", f.name)
		}
	}
	if len(left) > mostTypes {
		leftOut = len(left) - mostTypes
		slices.SortStableFunc(left, s.cheaperPerCPU)
		left = left[:mostTypes]
	}
	for _, t := range left {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names, leftOut, nil
}

// filter is one requirement, by its name in the configuration.
type filter struct {
	name  string
	holds func(*driver.InstanceType) bool
}

// filters are those of a group's requirements, in a fixed order.
func (s *shard) filters(g *effective.Group) []filter {
	r := g.Requirements
	gib := func(mib int) int64 { return int64(mib) / 1024 }
	all := []filter{
		{"arch", func(t *driver.InstanceType) bool {
			return t.Arch == g.Arch && (len(r.Arch) == 0 || slices.Contains(r.Arch, t.Arch))
		}},
		{"allowed_instance_types of the template", func(t *driver.InstanceType) bool {
			return g.Static || len(g.AllowedInstanceTypes) == 0 || slices.Contains(g.AllowedInstanceTypes, t.Name)
		}},
		{"families_in", func(t *driver.InstanceType) bool {
			return len(r.FamiliesIn) == 0 || slices.Contains(r.FamiliesIn, s.familyOf(t))
		}},
		{"families_out", func(t *driver.InstanceType) bool { return !slices.Contains(r.FamiliesOut, s.familyOf(t)) }},
		{"vcpu", func(t *driver.InstanceType) bool { return t.VCPU > 0 && r.VCPU.Has(int64(t.VCPU)) }},
		{"memory_gib", func(t *driver.InstanceType) bool { return t.MemoryMiB > 0 && within(r.MemoryGiB, t.MemoryMiB) }},
	}
	if r.GPU == nil {
		return append(all, filter{"gpu, which is not set,", func(t *driver.InstanceType) bool { return t.GPUs == 0 && len(t.Extended) == 0 }})
	}
	return append(all,
		filter{"gpu", func(t *driver.InstanceType) bool { return t.GPUs > 0 }},
		filter{"gpu.names", func(t *driver.InstanceType) bool {
			return len(r.GPU.Names) == 0 || slices.Contains(r.GPU.Names, t.GPUModel)
		}},
		filter{"gpu.count", func(t *driver.InstanceType) bool { return r.GPU.Count.Has(int64(t.GPUs)) }},
		filter{"gpu.memory_gib", func(t *driver.InstanceType) bool {
			return r.GPU.MemoryGiB == nil || t.GPUMemoryMiB > 0 && r.GPU.MemoryGiB.Has(gib(t.GPUMemoryMiB))
		}},
	)
}

// within says whether an amount in MiB is in a range of GiB, exactly: 7.5 GiB are not 8.
func within(r *document.Range, mib int) bool {
	return r == nil || (r.Min == nil || int64(mib) >= saturating(*r.Min, 1024)) && (r.Max == nil || int64(mib) <= saturating(*r.Max, 1024))
}

func (s *shard) familyOf(t *driver.InstanceType) string {
	return cmp.Or(t.Family, s.cfg.Rules.Family(t.Name))
}

// cheaperPerCPU orders types by what a processor costs, on demand, else as spot; those without a
// price are last.
func (s *shard) cheaperPerCPU(a, b driver.InstanceType) int {
	price := func(t *driver.InstanceType) (int64, bool) {
		if p, ok := s.price(*t, driver.OnDemand); ok {
			return p, true
		}
		return s.price(*t, driver.Spot)
	}
	pa, okA := price(&a)
	pb, okB := price(&b)
	switch {
	case okA != okB:
		if okA {
			return -1
		}
		return 1
	case !okA:
		return strings.Compare(a.Name, b.Name)
	}
	return cmp.Or(cmp.Compare(saturating(pa, int64(max(b.VCPU, 1))), saturating(pb, int64(max(a.VCPU, 1)))), strings.Compare(a.Name, b.Name))
}

// price is what an hour of a machine costs, in millionths of a dollar, never 0; false: not known.
func (s *shard) price(t driver.InstanceType, capacity driver.CapacityType) (int64, bool) {
	shape := effective.Shape{VCPU: t.VCPU, MemoryMiB: t.MemoryMiB, GPUs: t.GPUs}
	if p, ok := s.cfg.PriceOf(t.Name, s.familyOf(&t), string(capacity), shape); ok {
		return p, true
	}
	usd := 0.0
	switch capacity {
	case driver.OnDemand:
		usd = t.HourlyUSD
	case driver.Reserved: // what it would cost if it were not
		if p, ok := s.cfg.PriceOf(t.Name, s.familyOf(&t), string(driver.OnDemand), shape); ok {
			return p, true
		}
		usd = t.HourlyUSD
	case driver.Spot:
		usd = t.SpotUSD
	}
	return micro(usd)
}

// micro gives dollars in millionths; false for what is no price.
func micro(usd float64) (int64, bool) {
	if !(usd > 0) || usd > 1e9 {
		return 0, false
	}
	return max(int64(math.Round(usd*1e6)), 1), true
}

// interruption is the probability of an interruption within an hour, in millionths; 0 of spot
// capacity: not known.
func (s *shard) interruption(t driver.InstanceType, capacity driver.CapacityType) int64 {
	return s.cfg.InterruptionPPM(t.Name, s.familyOf(&t), string(capacity), cmp.Or(t.InterruptionPerHour, s.cfg.Rules.Interruption(t.Name)))
}
