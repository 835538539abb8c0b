package drivertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

// full is a cloud with every ability.
type full struct {
	*drivertest.Cloud
	drivertest.Subnets
	drivertest.Network
	drivertest.Types
	drivertest.Power
	drivertest.URIs
}

func newFull(opts drivertest.Options) full {
	c := drivertest.New(opts)
	return full{
		Cloud:   c,
		Subnets: drivertest.Subnets{Of: c},
		Network: drivertest.Network{Of: c},
		Power:   drivertest.Power{Of: c},
	}
}

// full's abilities, found as a server finds them.
var _ interface {
	driver.Driver
	driver.SubnetChecker
	driver.LeaderNetwork
	driver.TypeValidator
	driver.Resumer
	driver.URIer
} = full{}

func harness(opts drivertest.Options) drivertest.Harness {
	return drivertest.Harness{
		New:    func(*testing.T) driver.Driver { return newFull(opts) },
		Wrap:   synctest.Test,
		Reopen: func(_ *testing.T, d driver.Driver) driver.Driver { return d },
		Kill:   func(_ *testing.T, d driver.Driver, id identity.ID) { d.(full).Kill(id) },
	}
}

func TestCloudKeepsTheContract(t *testing.T) {
	for name, conditions := range map[string]drivertest.Conditions{
		"perfect": {},
		"slow":    {Latency: 2 * time.Second, BootTime: 10 * time.Second, DeleteTime: 15 * time.Second},
		"lagging": {BootTime: time.Second, DeleteTime: time.Second, ListLag: time.Minute, GetLag: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, harness(drivertest.Options{Conditions: conditions}))
		})
	}
}
