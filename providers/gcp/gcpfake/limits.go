package gcpfake

import (
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// perMinute is the documented quota of each group of methods, in calls a minute.
const perMinute = 1500

// DocumentedLimits are the rates that the service grants a project in a region by
// default: 1,500 calls a minute in each of four groups of methods. The service counts
// minutes; the buckets that stand for that here are full at first and fill up evenly.
// https://docs.cloud.google.com/compute/api-quota
func DocumentedLimits() wire.Limits {
	bucket := driver.Bucket{Rate: perMinute / 60.0, Burst: perMinute}
	l := wire.Limits{
		Buckets: map[string]driver.Bucket{"queries": bucket, "reads": bucket, "lists": bucket, "operation reads": bucket},
		Of:      map[string][]string{},
		Default: []string{"queries"},
	}
	for _, v := range verbs() {
		switch {
		case v.service == "ZoneOperations":
			l.Of[v.op] = []string{"operation reads"}
		case v.method == "Get":
			l.Of[v.op] = []string{"reads"}
		case v.method == "List":
			l.Of[v.op] = []string{"lists"}
		}
	}
	return l
}
