package gcp_test

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp"
	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// The project of the tests: the servers have a subnet, and so have the machines.
const (
	zone     = "europe-west1-b"
	machines = "machines"
	servers  = "servers"
	server   = "server-1"
	leaderIP = "10.0.0.100"

	// room is what of the machines' subnet may be used: it has 32 addresses, of
	// which the cloud keeps 4 and the driver 10.
	room = 32 - 4 - 10
)

// world is a project and the drivers that were opened over it.
type world struct {
	*gcpfake.Cloud
	log *slog.Logger
}

func newWorld(t *testing.T, change ...func(*gcpfake.Options)) *world {
	t.Helper()
	opts := gcpfake.Options{
		Conditions: gcpfake.Conditions{Boot: 20 * time.Second, End: 40 * time.Second, Work: 2 * time.Second},
		PageSize:   2,
		Subnets: []gcpfake.Subnet{
			{Name: servers, Network: "nstance", Range: "10.0.0.0/24"},
			{Name: machines, Network: "nstance", Range: "10.0.1.0/27"},
		},
	}
	for _, c := range change {
		c(&opts)
	}
	w := &world{Cloud: gcpfake.New(opts), log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	t.Cleanup(w.Close)
	for _, name := range []string{server, "server-2"} {
		if err := w.Plant(zone, name, nil); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// driver opens a driver on the first server.
func (w *world) driver(t *testing.T) *gcp.Driver { return w.driverOn(t, server) }

func (w *world) driverOn(t *testing.T, name string) *gcp.Driver {
	t.Helper()
	d, err := gcp.New(t.Context(), gcp.Options{
		Project: w.Project(), Zone: zone, Endpoint: gcpfake.Endpoint, LeaderIP: netip.MustParseAddr(leaderIP),
		HTTPClient: w.Client(), Metadata: &http.Client{Transport: wire.RoundTripper(w.Metadata(name))}, Log: w.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// complete makes a request one that the project understands.
func complete(req *driver.CreateRequest) {
	req.InstanceType, req.SubnetID = "e2-medium", machines
	req.Args = map[string]any{
		"SourceImage":    "projects/debian-cloud/global/images/family/debian-12",
		"ServiceAccount": "nstance-agent@nstance-fake.iam.gserviceaccount.com",
		"NetworkTags":    []any{"worker"},
		"AccessConfig":   map[string]any{},
		"BootDisk":       map[string]any{"SizeGb": 20},
	}
	req.UserData = []byte("#!/bin/sh\n")
}

var owner = driver.Owner{Cluster: "prod", Shard: "one"}

// request asks for a new machine.
func request(t *testing.T) driver.CreateRequest {
	t.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		t.Fatal(err)
	}
	req := driver.CreateRequest{
		InstanceID: id, Owner: owner, Tenant: "default", Group: "web", Template: "worker", Kind: "knc", Arch: "amd64",
		CreatedAt: id.CreatedAt(),
	}
	complete(&req)
	return req
}

// atlas finds the world of a driver, and remembers all of them.
type atlas struct {
	mu     sync.Mutex
	worlds map[driver.Driver]*world
}

func (a *atlas) open(t *testing.T, w *world) driver.Driver {
	d := w.driver(t)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.worlds == nil {
		a.worlds = map[driver.Driver]*world{}
	}
	a.worlds[d] = w
	return d
}

func (a *atlas) of(d driver.Driver) *world {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.worlds[d]
}

// taken are the names of all calls that were made in any of the worlds, and the
// permissions that they took.
func (a *atlas) taken() (calls, permissions []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.worlds {
		calls = append(calls, w.Gate().Ops()...)
		permissions = append(permissions, w.Permissions()...)
	}
	return calls, permissions
}
