package rules

import (
	"slices"
	"strings"

	"nstance.dev/server/driver"
)

// Capacity says how machines may be paid for.
func Capacity() *driver.CapacityRules {
	return &driver.CapacityRules{
		Types: []driver.CapacityType{driver.OnDemand, driver.Spot, driver.Reserved}, FixedBy: marketFixedBy, Interruption: Interruption, Family: Family,
	}
}

// marketFixedBy names the argument that says how the machine is paid for. What a launch template says
// of it is not seen here, and what is sent with the call counts before that.
func marketFixedBy(args map[string]any) string {
	for _, name := range []string{"CapacityReservationSpecification", "InstanceMarketOptions"} {
		if args[name] != nil {
			return name
		}
	}
	return ""
}

// Family is what stands before the dot of a type's name, such as m7g.
func Family(instanceType string) string {
	family, _, sized := strings.Cut(instanceType, ".")
	if !sized {
		return ""
	}
	return family
}

// EC2 publishes no probability of interruption by its API. These are assumptions of 24 November 2026,
// within a month: types with accelerators are taken back more often than others. A configuration
// overrides them, by what its own account sees.
const (
	usualPerMonth       = 0.05
	acceleratedPerMonth = 0.20
	hoursOfAMonth       = 730
)

// accelerated are the beginnings of families with accelerators.
var accelerated = []string{"dl", "f", "g", "gr", "inf", "p", "trn", "vt"}

// Interruption is the probability that a spot machine of a type is taken back within an hour.
func Interruption(instanceType string) float64 {
	parts := typeName.FindStringSubmatch(instanceType)
	if parts != nil && slices.Contains(accelerated, parts[1]) {
		return acceleratedPerMonth / hoursOfAMonth
	}
	return usualPerMonth / hoursOfAMonth
}
