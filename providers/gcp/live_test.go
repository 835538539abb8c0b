//go:build live

package gcp_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

// Environment variables that say where a live test may work, and what it may cost.
const (
	liveProject = "NSTANCE_LIVE_GCP_PROJECT"
	liveZone    = "NSTANCE_LIVE_GCP_ZONE"
	liveSubnet  = "NSTANCE_LIVE_GCP_SUBNET"
	liveImage   = "NSTANCE_LIVE_GCP_IMAGE" // has a default
	liveBudget  = "NSTANCE_LIVE_GCP_MAX_MACHINES"
)

// TestLive runs the contract in a real project, which is charged for it. What it
// makes has the labels of clusters "suite" and "other", and is deleted when a test
// is over.
func TestLive(t *testing.T) {
	for _, name := range []string{liveProject, liveZone, liveSubnet, liveBudget} {
		if os.Getenv(name) == "" {
			t.Errorf("%s is not set; see \"Trying a real account\" in docs/providers/gcp.md", name)
		}
	}
	left, err := strconv.Atoi(cmp.Or(os.Getenv(liveBudget), "0"))
	if err != nil {
		t.Errorf("%s: %v", liveBudget, err)
	}
	if t.Failed() {
		t.FailNow()
	}
	budget := &budget{left: left}
	open := func(t *testing.T) driver.Driver {
		d, err := gcp.New(t.Context(), gcp.Options{Project: os.Getenv(liveProject), Zone: os.Getenv(liveZone)})
		if err != nil {
			t.Fatal(err)
		}
		return &account{Driver: d, Powerer: d, TypeCatalog: d, TypeValidator: d, URIer: d, budget: budget, t: t}
	}
	drivertest.Run(t, drivertest.Harness{
		New:    open,
		Reopen: func(t *testing.T, _ driver.Driver) driver.Driver { return open(t) },
		Request: func(req *driver.CreateRequest) {
			req.Arch, req.InstanceType, req.SubnetID = "amd64", "e2-micro", os.Getenv(liveSubnet)
			req.Args = map[string]any{"SourceImage": cmp.Or(os.Getenv(liveImage), "projects/debian-cloud/global/images/family/debian-13")}
		},
		Patience: 10 * time.Minute,
	})
}

// budget is how many machines may still be made.
type budget struct {
	mu   sync.Mutex
	left int
	made map[identity.ID]bool
}

var errSpent = errors.New("the budget of " + liveBudget + " is spent")

// take pays for a machine, once for each, and reports whether it is a new one.
func (b *budget) take(id identity.ID) (fresh bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.made[id]:
		return false, nil
	case b.left <= 0:
		return false, errSpent
	case b.made == nil:
		b.made = map[identity.ID]bool{}
	}
	b.left--
	b.made[id] = true
	return true, nil
}

// account is a driver that keeps to a budget and deletes its machines with the test.
// It has the abilities that need nothing but an account.
type account struct {
	driver.Driver
	driver.Powerer
	driver.TypeCatalog
	driver.TypeValidator
	driver.URIer
	budget *budget
	t      *testing.T
}

// Create makes a machine if the budget allows it.
func (a *account) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	switch fresh, err := a.budget.take(req.InstanceID); {
	case err != nil:
		return driver.Machine{}, driver.Fail(driver.Quota, "create", err)
	case fresh:
		a.t.Cleanup(func() { a.remove(req.InstanceID) })
	}
	return a.Driver.Create(ctx, req)
}

func (a *account) remove(id identity.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.t.Context()), time.Minute)
	defer cancel()
	if err := a.Delete(ctx, driver.Ref{InstanceID: id}); err != nil {
		a.t.Errorf("%s is left in the project: %v", id, err)
	}
}
