package effective

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
)

// DemandProblems are what is wrong with a group of mode demand when its layers are merged, as far as
// the configuration and the provider's rules tell: capacity types that the provider does not serve,
// arguments that fix the market, spot capacity of which nobody knows how often it is taken back.
// Places begin at the group. Nil for a group of fixed size.
func (c *Config) DemandProblems(g *Group) []document.Problem {
	if g.Demand == nil {
		return nil
	}
	var all []document.Problem
	served := "the provider serves " + strings.Join(c.Rules.Served(), ", ")
	for i, t := range g.Demand.CapacityTypes {
		if !c.Rules.Serves(t) {
			all = append(all, document.Problem{At: []any{"demand", "capacity_types", i}, Message: jsonc.Quoted(t) + " is not served here", Remedy: served})
		}
	}
	if g.Machine != nil && g.Demand.Configure == document.ConfigureUserData {
		all = append(all, document.Problem{
			At: []any{"demand", "configure"}, Message: "the nodes of template " + jsonc.Quoted(g.Template) + " run in node machines, which user data cannot have join a cluster",
			Remedy: "take it out, or machine.enabled of the template",
		})
	}
	if len(g.Demand.Reservations) > 0 && !c.Rules.Serves(document.CapacityReserved) {
		all = append(all, document.Problem{At: []any{"demand", "reservations"}, Message: "the provider has no reserved capacity", Remedy: served})
	}
	if name := c.Rules.MarketFixedBy(g.Args); name != "" {
		all = append(all, document.Problem{
			At: []any{"args", name}, Message: "it fixes how machines are paid for, which demand.capacity_types says in a group of mode demand",
			Remedy: "take it out of the group, its template and defaults, or override it",
		})
	}
	if slices.Contains(g.Demand.CapacityTypes, document.CapacitySpot) && c.Rules.Serves(document.CapacitySpot) {
		for _, name := range g.InstanceTypes {
			if c.InterruptionPPM(name, c.Rules.Family(name), document.CapacitySpot, c.Rules.Interruption(name)) == 0 {
				all = append(all, document.Problem{
					At: []any{"demand", "capacity_types"}, Message: "the interruption probability of spot machines of type " + jsonc.Quoted(name) + " is not known",
					Remedy: "add an entry to server.demand.interruptions, or take spot out",
				})
				break
			}
		}
	}
	return all
}

// InterruptionPPM is the probability that the provider takes a machine back within an hour, in
// millionths: by the first entry of the configuration that matches, else by what the provider says
// of interruptible machines. 0 of spot capacity: nobody knows.
func (c *Config) InterruptionPPM(instanceType, family, capacityType string, provider float64) int64 {
	for _, entry := range c.Server.Demand.Interruptions {
		if matches(entry.InstanceTypes, instanceType) && matches(entry.Families, family) &&
			slices.Contains(orSlice(entry.CapacityTypes, document.CapacitySpot), capacityType) {
			return entry.PPM()
		}
	}
	if capacityType != document.CapacitySpot || !(provider > 0) {
		return 0
	}
	return min(max(int64(math.Round(provider*1e6)), 1), 1e6)
}

// matches says whether a list that may be absent has a word.
func matches(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }

func orSlice(list []string, otherwise ...string) []string {
	if len(list) == 0 {
		return otherwise
	}
	return list
}

// Shape is how big a machine is, as prices count; 0: not known.
type Shape struct{ VCPU, MemoryMiB, GPUs int }

// PriceOf is what an hour of a machine costs by the first entry of the configuration that matches,
// in millionths of a dollar. False: none matches, or the one that does counts what is not known of
// the type. It is never 0.
func (c *Config) PriceOf(instanceType, family, capacityType string, shape Shape) (int64, bool) {
	for _, entry := range c.Server.Demand.Prices {
		if !matches(entry.InstanceTypes, instanceType) || !matches(entry.Families, family) ||
			!slices.Contains(orSlice(entry.CapacityTypes, document.CapacityOnDemand, document.CapacityBareMetal), capacityType) {
			continue
		}
		if entry.Hour != nil {
			return max(int64(*entry.Hour), 1), true
		}
		if entry.VCPUHour != nil && shape.VCPU == 0 || entry.GiBHour != nil && shape.MemoryMiB == 0 {
			return 0, false
		}
		zero := document.USD(0)
		sum := int64(*cmp.Or(entry.VCPUHour, &zero))*int64(shape.VCPU) +
			int64(*cmp.Or(entry.GiBHour, &zero))*int64(shape.MemoryMiB)/1024 +
			int64(*cmp.Or(entry.GPUHour, &zero))*int64(shape.GPUs)
		return max(sum, 1), true
	}
	return 0, false
}
