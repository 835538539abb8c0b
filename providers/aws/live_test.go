//go:build live

package aws_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/aws"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

// TestLive runs the contract in a real account, which is charged for it. What it
// makes has the tags of cluster "suite" and "other", and is ended when it is over.
func TestLive(t *testing.T) {
	env := liveEnvironment(t)
	budget, err := strconv.Atoi(env["NSTANCE_LIVE_AWS_MAX_MACHINES"])
	if err != nil {
		t.Fatalf("NSTANCE_LIVE_AWS_MAX_MACHINES: %v", err)
	}
	purse := &purse{left: budget}
	open := func(t *testing.T) driver.Driver {
		d, err := aws.New(t.Context(), aws.Options{Region: env["NSTANCE_LIVE_AWS_REGION"], Zone: env["NSTANCE_LIVE_AWS_ZONE"]})
		if err != nil {
			t.Fatal(err)
		}
		return &paid{Driver: d, purse: purse, t: t}
	}
	drivertest.Run(t, drivertest.Harness{
		New:    open,
		Reopen: func(t *testing.T, _ driver.Driver) driver.Driver { return open(t) },
		Request: func(req *driver.CreateRequest) {
			req.Arch, req.InstanceType, req.SubnetID = "arm64", "t4g.nano", env["NSTANCE_LIVE_AWS_SUBNET"]
			req.UserData = []byte("#!/bin/sh\n")
			req.Args = map[string]any{"ImageId": env["NSTANCE_LIVE_AWS_IMAGE"], "MetadataOptions": map[string]any{"HttpTokens": "required"}}
		},
		Patience: 10 * time.Minute,
	})
}

// liveEnvironment is what a run needs to know, and ends the test with all that is
// missing. The credentials are the SDK's own matter.
func liveEnvironment(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, name := range []string{
		"NSTANCE_LIVE_AWS_REGION", "NSTANCE_LIVE_AWS_ZONE", "NSTANCE_LIVE_AWS_SUBNET", "NSTANCE_LIVE_AWS_IMAGE", "NSTANCE_LIVE_AWS_MAX_MACHINES",
	} {
		if env[name] = os.Getenv(name); env[name] == "" {
			t.Errorf("%s is not set; see \"Trying a real account\" in docs/providers/aws.md", name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return env
}

// purse is what may still be spent.
type purse struct {
	mu   sync.Mutex
	left int
}

var errSpent = errors.New("the budget of NSTANCE_LIVE_AWS_MAX_MACHINES is spent")

func (p *purse) take() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left < 0 {
		return errSpent
	}
	return nil
}

// paid is the driver with a limit of what it makes. It ends its machines with the
// test. Of the optional abilities it has none: they need more than an account.
type paid struct {
	driver.Driver
	purse *purse
	t     *testing.T

	mu   sync.Mutex
	made map[identity.ID]bool
}

func (d *paid) Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error) {
	if err := d.charge(req.InstanceID); err != nil {
		return driver.Machine{}, driver.Fail(driver.Quota, "create", err)
	}
	return d.Driver.Create(ctx, req)
}

// charge pays for a machine once, and has it ended.
func (d *paid) charge(id identity.ID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made[id] {
		return nil
	}
	if err := d.purse.take(); err != nil {
		return err
	}
	if d.made == nil {
		d.made = map[identity.ID]bool{}
	}
	d.made[id] = true
	d.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.t.Context()), time.Minute)
		defer cancel()
		if err := d.Delete(ctx, driver.Ref{InstanceID: id}); err != nil {
			d.t.Errorf("%s is left behind in the account: %v", id, err)
		}
	})
	return nil
}
