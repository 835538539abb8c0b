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
	drivertest.Balancers
	drivertest.Images
	drivertest.Self
	drivertest.Types
	drivertest.Switches
	drivertest.URIs
	drivertest.Outputs
}

func newFull(opts drivertest.Options) full {
	c := drivertest.New(opts)
	c.AddBalancer("www", "vm-of-another")
	c.AddBalancer("api")
	c.SetImages(
		drivertest.Image{ID: "img-1", Name: "debian-1", Owner: "us"}, drivertest.Image{ID: "img-3", Name: "debian-3", Owner: "us"},
		drivertest.Image{ID: "img-2", Name: "debian-2", Owner: "us"}, drivertest.Image{ID: "img-9", Name: "debian-9", Owner: "them"},
		drivertest.Image{ID: "other", Name: "fedora-1", Owner: "us"},
	)
	c.SetRoom(drivertest.Place{Subnet: "narrow"}, 12)
	return full{
		Cloud:     c,
		Subnets:   drivertest.Subnets{Of: c},
		Balancers: drivertest.Balancers{Of: c},
		Images:    drivertest.Images{Of: c},
		Self:      "vm-of-the-server",
		Types:     drivertest.Types{"small": "amd64", "small-arm": "arm64"},
		Network:   drivertest.Network{Of: c},
		Switches:  drivertest.Switches{Of: c},
		Outputs:   drivertest.Outputs{Of: c},
	}
}

// full's abilities, found as a server finds them.
var _ interface {
	driver.Driver
	driver.SubnetChecker
	driver.LeaderNetwork
	driver.TypeValidator
	driver.Balancer
	driver.ImageResolver
	driver.SelfIdentifier
	driver.Resumer
	driver.Powerer
	driver.Outputter
	driver.TypeCatalog
	driver.URIer
} = full{}

var debian = []driver.ImageFilter{{Name: "name", Values: []string{"debian-*"}}}

func harness(opts drivertest.Options) drivertest.Harness {
	return drivertest.Harness{
		New:  func(*testing.T) driver.Driver { return newFull(opts) },
		Wrap: synctest.Test,
		Request: func(req *driver.CreateRequest) {
			req.InstanceType, req.SubnetID = "small", "narrow"
		},
		Room:      12,
		Many:      10,
		Capacity:  drivertest.Capacity,
		Balancers: []driver.LoadBalancer{{Key: "www"}, {Key: "api"}},
		Images: []drivertest.ImageCase{
			{Query: driver.ImageQuery{Filters: debian, Owners: []string{"us"}, Descending: true}, Want: "img-2"},
			{Query: driver.ImageQuery{Filters: debian, Owners: []string{"us"}}, Want: "img-1"},
			{Query: driver.ImageQuery{Filters: debian, Owners: []string{"us"}, ByName: true, Descending: true}, Want: "img-3"},
			{Query: driver.ImageQuery{Filters: debian, Descending: true}, Want: "img-9"},
			{Query: driver.ImageQuery{Filters: []driver.ImageFilter{{Name: "name", Values: []string{"plan9-*"}}}}, Want: ""},
		},
		Delay: func(_ *testing.T, d driver.Driver, by time.Duration) {
			d.(full).SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: by}))
		},
		Reopen: func(_ *testing.T, d driver.Driver) driver.Driver { return d },
		Kill:   func(_ *testing.T, d driver.Driver, id identity.ID) { d.(full).Kill(id) },
		Write:  func(_ *testing.T, d driver.Driver, id identity.ID, text string) { d.(full).Write(id, text) },
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
