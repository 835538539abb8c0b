//go:build live

package gcp_test

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	"nstance.dev/providers/gcp"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/driver/drivertest/live"
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
	live.Need(t, `"Trying a real account" in docs/providers/gcp.md`, liveProject, liveZone, liveSubnet, liveBudget)
	budget := live.NewBudget(t, liveBudget)
	open := func(t *testing.T) driver.Driver {
		d, err := gcp.New(t.Context(), gcp.Options{Project: os.Getenv(liveProject), Zone: os.Getenv(liveZone)})
		if err != nil {
			t.Fatal(err)
		}
		return paid{Driver: d, Powerer: d, TypeCatalog: d, TypeValidator: d, URIer: d, budget: budget, t: t}
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

// paid is the driver with a budget. It has the abilities that need nothing but an
// account.
type paid struct {
	driver.Driver
	driver.Powerer
	driver.TypeCatalog
	driver.TypeValidator
	driver.URIer
	budget *live.Budget
	t      *testing.T
}

func (p paid) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	return p.budget.Create(ctx, p.t, p.Driver, req)
}
