package rules

import (
	"strconv"
	"strings"

	"nstance.dev/server/driver"
)

// Capacity says how local machines are paid for: they are the box's own, and whatever a group calls
// them.
func Capacity() *driver.CapacityRules {
	return &driver.CapacityRules{Types: []driver.CapacityType{driver.OnDemand, driver.BareMetal}}
}

// traits says how big a machine of a type is taken for, where the type is written as "cpu:2,memory:4096":
// processors, and MiB of memory. Nothing keeps the machine's processes within that.
func traits(instanceType string, _ map[string]any) driver.Traits {
	var made driver.Traits
	for part := range strings.SplitSeq(instanceType, ",") {
		name, value, _ := strings.Cut(part, ":")
		n, err := strconv.ParseUint(value, 10, 24)
		if err != nil {
			return driver.Traits{}
		}
		switch name {
		case "cpu":
			made.VCPU = int(n)
		case "memory":
			made.MemoryMiB = int(n)
		default:
			return driver.Traits{}
		}
	}
	return made
}
