//go:build live

package aws_test

import (
	"context"
	"os"
	"testing"
	"time"

	"nstance.dev/providers/aws"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/driver/drivertest/live"
)

// Environment variables that say where a live test may work, and what it may cost. The
// credentials are the SDK's own matter.
const (
	liveRegion = "NSTANCE_LIVE_AWS_REGION"
	liveZone   = "NSTANCE_LIVE_AWS_ZONE"
	liveSubnet = "NSTANCE_LIVE_AWS_SUBNET"
	liveImage  = "NSTANCE_LIVE_AWS_IMAGE"
	liveBudget = "NSTANCE_LIVE_AWS_MAX_MACHINES"
)

// TestLive runs the contract in a real account, which is charged for it. What it
// makes has the tags of clusters "suite" and "other", and is ended when a test is over.
func TestLive(t *testing.T) {
	live.Need(t, `"Trying a real account" in docs/providers/aws.md`, liveRegion, liveZone, liveSubnet, liveImage, liveBudget)
	budget := live.NewBudget(t, liveBudget)
	open := func(t *testing.T) driver.Driver {
		d, err := aws.New(t.Context(), aws.Options{Region: os.Getenv(liveRegion), Zone: os.Getenv(liveZone)})
		if err != nil {
			t.Fatal(err)
		}
		return paid{Driver: d, budget: budget, t: t}
	}
	drivertest.Run(t, drivertest.Harness{
		New:    open,
		Reopen: func(t *testing.T, _ driver.Driver) driver.Driver { return open(t) },
		Request: func(req *driver.CreateRequest) {
			req.Arch, req.InstanceType, req.SubnetID = "arm64", "t4g.nano", os.Getenv(liveSubnet)
			req.UserData = []byte("#!/bin/sh\n")
			req.Args = map[string]any{"ImageId": os.Getenv(liveImage), "MetadataOptions": map[string]any{"HttpTokens": "required"}}
		},
		Patience: 10 * time.Minute,
	})
}

// paid is the driver with a budget. Of the optional abilities it has none: they need
// more than an account.
type paid struct {
	driver.Driver
	budget *live.Budget
	t      *testing.T
}

func (p paid) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	return p.budget.Create(ctx, p.t, p.Driver, req)
}
