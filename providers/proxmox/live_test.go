//go:build live

package proxmox_test

import (
	"context"
	"os"
	"testing"
	"time"

	"nstance.dev/providers/proxmox"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/driver/drivertest/live"
)

// Environment variables that say where a live test may work, and how much it may make,
// beside those of the API itself.
const (
	liveTemplate = "NSTANCE_LIVE_PROXMOX_TEMPLATE"
	liveStorage  = "NSTANCE_LIVE_PROXMOX_STORAGE"
	liveBridge   = "NSTANCE_LIVE_PROXMOX_BRIDGE"
	liveBudget   = "NSTANCE_LIVE_PROXMOX_MAX_MACHINES"
	liveCA       = "NSTANCE_LIVE_PROXMOX_CA_FILE"     // may be left out
	liveISO      = "NSTANCE_LIVE_PROXMOX_ISO_STORAGE" // may be left out
)

// TestLive runs the contract on a real cluster. What it makes has the tags of clusters
// "suite" and "other", and is deleted when a test is over.
func TestLive(t *testing.T) {
	live.Need(t, `"Trying a real cluster" in docs/providers/proxmox.md`,
		proxmox.EnvURL, proxmox.EnvTokenID, proxmox.EnvTokenSecret, liveTemplate, liveStorage, liveBridge, liveBudget)
	budget := live.NewBudget(t, liveBudget)
	open := func(t *testing.T) driver.Driver {
		opts := proxmox.Options{CAFile: os.Getenv(liveCA), ISOStorage: os.Getenv(liveISO), Shard: "one"}
		d, err := proxmox.New(opts.Environ(os.Getenv))
		if err != nil {
			t.Fatal(err)
		}
		return paid{Driver: d, budget: budget, t: t}
	}
	drivertest.Run(t, drivertest.Harness{
		New:     open,
		Reopen:  func(t *testing.T, _ driver.Driver) driver.Driver { return open(t) },
		Forgets: true,
		Request: func(req *driver.CreateRequest) {
			req.InstanceType, req.SubnetID = "cpu:1,memory:512", os.Getenv(liveBridge)
			req.UserData = []byte("#!/bin/sh\n")
			req.Args = map[string]any{"TemplateName": os.Getenv(liveTemplate), "StoragePool": os.Getenv(liveStorage)}
		},
		Patience: 10 * time.Minute,
	})
}

// paid is the driver, with all its abilities, and a budget.
type paid struct {
	*proxmox.Driver
	budget *live.Budget
	t      *testing.T
}

func (p paid) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	return p.budget.Create(ctx, p.t, p.Driver, req)
}
