package rules

import (
	"strings"

	"nstance.dev/server/driver"
)

// Capacity says how machines may be paid for. How often Spot machines are taken back Google Cloud
// does not publish: that a configuration has to say.
func Capacity() *driver.CapacityRules {
	return &driver.CapacityRules{
		Types: []driver.CapacityType{driver.OnDemand, driver.Spot, driver.Reserved}, FixedBy: marketFixedBy, Family: Family,
	}
}

// marketFixedBy names the argument that says how the machine is paid for.
func marketFixedBy(args map[string]any) string {
	for _, name := range []string{"Preemptible", "ProvisioningModel", "ReservationAffinity"} {
		if args[name] != nil {
			return name
		}
	}
	return ""
}

// Family is what stands before the first dash of a type's name, such as n2d.
func Family(instanceType string) string {
	family, _, sized := strings.Cut(instanceType, "-")
	if !sized {
		return ""
	}
	return family
}
