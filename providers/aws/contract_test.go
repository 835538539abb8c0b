package aws_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/providers/aws/rules"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/driver/drivertest/docpage"
	"nstance.dev/server/driver/drivertest/wire"
)

// atlas finds the world of a driver, and remembers all of them.
type atlas struct {
	mu     sync.Mutex
	worlds map[driver.Driver]*world
}

func (a *atlas) open(t *testing.T, w *world) driver.Driver {
	d := w.driver(t, "")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.worlds[d] = w
	return d
}

func (a *atlas) of(d driver.Driver) *world {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.worlds[d]
}

func TestContract(t *testing.T) {
	a := &atlas{worlds: map[driver.Driver]*world{}}
	account := testAccount()
	group := func(key string, arns ...string) driver.LoadBalancer {
		var groups []any
		for _, arn := range arns {
			groups = append(groups, map[string]any{"arn": arn, "target_port": 8443})
		}
		return driver.LoadBalancer{Key: key, Args: map[string]any{"target_groups": groups}}
	}
	image := func(name string, descending bool) driver.ImageQuery {
		return driver.ImageQuery{
			Filters: []driver.ImageFilter{{Name: "name", Values: []string{name}}}, Owners: []string{"136693071363"}, Descending: descending,
		}
	}
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T) driver.Driver {
			w := newWorld(t, slow())
			w.SetRoom(awsfake.Place{Subnet: machines}, 32-5-10)
			return a.open(t, w)
		},
		Wrap:    synctest.Test,
		Request: complete,
		Reopen:  func(t *testing.T, d driver.Driver) driver.Driver { return a.open(t, a.of(d)) },
		Kill:    func(_ *testing.T, d driver.Driver, id identity.ID) { w := a.of(d); w.Kill(w.of(id)) },
		Write: func(_ *testing.T, d driver.Driver, id identity.ID, text string) {
			w := a.of(d)
			w.Write(w.of(id), text)
		},
		Delay: func(_ *testing.T, d driver.Driver, by time.Duration) {
			a.of(d).Gate().SetFaults(wire.Always("RunInstances", wire.Fault{Delay: by}))
		},
		Capacity:    rules.Capacity(),
		Reservation: "cr-0123456789abcdef0",

		Many: 14,          // of pages of five
		Room: 32 - 5 - 10, // addresses, less AWS's and those that the driver keeps back
		Balancers: []driver.LoadBalancer{
			group("api", account.TargetGroups[0].ARN), group("www", account.TargetGroups[1].ARN),
		},
		Images: []drivertest.ImageCase{
			{Query: image("debian-13-arm64-*", true), Want: "ami-0a1100000000000003"},
			{Query: image("debian-13-arm64-*", false), Want: "ami-0a1100000000000001"},
			{Query: image("debian-14-*", true)},
		},
		Patience: 2 * time.Minute,
	})
	var worlds []*world
	var made []string
	for _, w := range a.worlds {
		if !slices.Contains(worlds, w) {
			worlds, made = append(worlds, w), append(made, w.Gate().Ops()...)
		}
	}
	t.Run("DocumentedCalls", func(t *testing.T) {
		listed, _ := docpage.Read(t, page, calls).Calls()
		optional, _ := docpage.Read(t, page, extras).Calls()
		docpage.Same(t, "call", made, append(listed, optional...))
	})
	t.Run("CallsOfTheModel", func(t *testing.T) { checkRecordings(t, worlds, made) })
}
