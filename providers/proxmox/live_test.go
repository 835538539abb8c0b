//go:build live

package proxmox_test

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
	"nstance.dev/providers/proxmox"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
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
	for _, name := range []string{
		proxmox.EnvURL, proxmox.EnvTokenID, proxmox.EnvTokenSecret, liveTemplate, liveStorage, liveBridge, liveBudget,
	} {
		if os.Getenv(name) == "" {
			t.Errorf("%s is not set; see \"Trying a real cluster\" in docs/providers/proxmox.md", name)
		}
	}
	left, err := strconv.Atoi(cmp.Or(os.Getenv(liveBudget), "0"))
	if err != nil {
		t.Errorf("%s: %v", liveBudget, err)
	}
	if t.Failed() {
		t.FailNow()
	}
	budget := &budget{left: left, made: map[identity.ID]bool{}}
	open := func(t *testing.T) driver.Driver {
		opts := proxmox.Options{CAFile: os.Getenv(liveCA), ISOStorage: os.Getenv(liveISO), Shard: "one"}
		d, err := proxmox.New(opts.Environ(os.Getenv))
		if err != nil {
			t.Fatal(err)
		}
		return &paid{Driver: d, budget: budget, t: t}
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
	}
	b.left--
	b.made[id] = true
	return true, nil
}

// paid is the driver with a limit of what it makes. It deletes its machines with the
// test.
type paid struct {
	*proxmox.Driver
	budget *budget
	t      *testing.T
}

// Create makes a machine if the budget allows it.
func (p *paid) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	switch fresh, err := p.budget.take(req.InstanceID); {
	case err != nil:
		return driver.Machine{}, driver.Fail(driver.Quota, "create", err)
	case fresh:
		p.t.Cleanup(func() { p.remove(req.InstanceID) })
	}
	return p.Driver.Create(ctx, req)
}

func (p *paid) remove(id identity.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), 2*time.Minute)
	defer cancel()
	if err := p.Delete(ctx, driver.Ref{InstanceID: id}); err != nil {
		p.t.Errorf("%s is left in the cluster: %v", id, err)
	}
}
