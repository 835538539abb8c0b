package proxmox_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/driver/drivertest/docpage"
	"nstance.dev/server/driver/drivertest/wire"
)

// The contract, with a token that has the role of the documentation and no other
// privilege. It makes the calls that the documentation lists, together with what
// happens in trouble only.
func TestContract(t *testing.T) {
	cabinet := &cabinet{clouds: map[driver.Driver]*proxmoxfake.Cloud{}}
	for name, args := range map[string]map[string]any{
		"a template on each node":        {"StoragePool": "local-lvm", "TemplateName": "debian-13"},
		"one for all, on shared storage": {"StoragePool": "ceph", "TemplateVMID": 9100, "DiskSize": "8G"},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, drivertest.Harness{
				Wrap:    synctest.Test,
				New:     func(t *testing.T) driver.Driver { return cabinet.open(t, newCloud(t)) },
				Reopen:  func(t *testing.T, d driver.Driver) driver.Driver { return cabinet.open(t, cabinet.behind(d)) },
				Forgets: true,
				Many:    24,
				Kill: func(t *testing.T, d driver.Driver, id identity.ID) {
					if !cabinet.behind(d).Kill(string(id)) {
						t.Fatalf("%s does not run", id)
					}
				},
				Delay: func(_ *testing.T, d driver.Driver, by time.Duration) {
					cabinet.behind(d).Gate.SetFaults(wire.Always("POST /nodes/{node}/qemu/{vmid}/clone", wire.Fault{Delay: by}))
				},
				Capacity: rules.Capacity(),
				Request: func(r *driver.CreateRequest) {
					r.InstanceType, r.SubnetID, r.UserData = "cpu:2,memory:2048", "vmbr0.100", []byte("#!/bin/sh\n")
					r.Args = maps.Clone(args)
				},
			})
		})
	}
	for name, trouble := range map[string]func(*testing.T, *proxmoxfake.Cloud, driver.Driver){
		"a full storage":              fullStorage,
		"no time for a gentle ending": hurriedEnd,
		"a server starts": func(t *testing.T, _ *proxmoxfake.Cloud, d driver.Driver) {
			if err := d.(*proxmox.Driver).Check(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newCloud(t)
				trouble(t, cloud, cabinet.open(t, cloud))
			})
		})
	}
	listed, _ := docpage.Read(t, page, calls).Calls()
	docpage.Same(t, "call", cabinet.calls(), listed)
}

func fullStorage(t *testing.T, cloud *proxmoxfake.Cloud, d driver.Driver) {
	cloud.SetRoom("ceph", "", 0)
	_, err := d.Create(t.Context(), requestFor(t, map[string]any{"StoragePool": "ceph", "TemplateVMID": 9001}))
	if driver.ClassOf(err) != driver.Capacity || !strings.Contains(err.Error(), "pace") {
		t.Errorf("create on a full storage: %v", err)
	}
	if machines, volumes := traces(cloud); len(machines)+len(volumes) > 0 {
		t.Errorf("it left %q, %q", machines, volumes)
	}
}

func hurriedEnd(t *testing.T, cloud *proxmoxfake.Cloud, d driver.Driver) {
	req := requestFor(t, onLVM())
	if _, err := d.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 1900*time.Millisecond)
		err := d.Delete(ctx, driver.Ref{InstanceID: req.InstanceID})
		cancel()
		if err == nil {
			break
		}
	}
	if machines, volumes := traces(cloud); len(machines)+len(volumes) > 0 {
		t.Errorf("it left %q, %q", machines, volumes)
	}
}

// newCloud is a cluster as the documentation has it set up.
func newCloud(t *testing.T) *proxmoxfake.Cloud {
	t.Helper()
	token := proxmoxfake.DefaultToken
	token.Privileges = role(t)
	cloud := proxmoxfake.New(proxmoxfake.Options{Tokens: []proxmoxfake.Token{token}})
	t.Cleanup(cloud.Close)
	return cloud
}

// cabinet holds the clouds behind drivers.
type cabinet struct {
	mu     sync.Mutex
	clouds map[driver.Driver]*proxmoxfake.Cloud
}

// open returns a driver over a cloud that knows nothing of earlier ones.
func (c *cabinet) open(t *testing.T, cloud *proxmoxfake.Cloud) driver.Driver {
	t.Helper()
	d := open(t, cloud)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clouds[d] = cloud
	return d
}

func (c *cabinet) behind(d driver.Driver) *proxmoxfake.Cloud {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clouds[d]
}

// calls are those that were made of any of the clouds.
func (c *cabinet) calls() (made []string) {
	for _, cloud := range c.clouds {
		made = append(made, cloud.Gate.Ops()...)
	}
	return made
}

func open(t *testing.T, cloud *proxmoxfake.Cloud) *proxmox.Driver {
	t.Helper()
	return openThrough(t, wire.RoundTripper(cloud))
}

func openThrough(t *testing.T, transport http.RoundTripper) *proxmox.Driver {
	t.Helper()
	d, err := proxmox.New(proxmox.Options{
		URL: "https://pve.example:8006/api2/json", Shard: "one", Region: "here",
		TokenID: proxmoxfake.DefaultToken.ID, TokenSecret: proxmoxfake.DefaultToken.Secret,
		Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
