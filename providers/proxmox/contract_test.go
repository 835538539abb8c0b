package proxmox_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/driver/drivertest/wire"
)

func TestContract(t *testing.T) {
	for name, complete := range map[string]func(*driver.CreateRequest){
		"a template on each node": func(r *driver.CreateRequest) {
			r.Args = map[string]any{"StoragePool": "local-lvm", "TemplateName": "debian-13"}
		},
		"one for all, copied": func(r *driver.CreateRequest) {
			r.Args = map[string]any{"StoragePool": "local-lvm", "TemplateVMID": 9001, "DiskSize": "8G"}
		},
		"one for all, on shared storage": func(r *driver.CreateRequest) {
			r.Args = map[string]any{"StoragePool": "ceph", "TemplateName": "debian-13-ceph", "DiskSize": "8G"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			clouds := clouds{of: map[driver.Driver]*proxmoxfake.Cloud{}}
			drivertest.Run(t, drivertest.Harness{
				Wrap:    synctest.Test,
				Forgets: true,
				New: func(t *testing.T) driver.Driver {
					cloud := proxmoxfake.New(proxmoxfake.Options{})
					t.Cleanup(cloud.Close)
					return clouds.open(t, cloud)
				},
				Reopen: func(t *testing.T, d driver.Driver) driver.Driver { return clouds.open(t, clouds.behind(d)) },
				Kill: func(t *testing.T, d driver.Driver, id identity.ID) {
					if !clouds.behind(d).Kill(string(id)) {
						t.Fatalf("%s does not run", id)
					}
				},
				Request: func(r *driver.CreateRequest) {
					r.InstanceType, r.SubnetID, r.UserData = "cpu:2,memory:2048", "vmbr0.100", []byte("#!/bin/sh\n")
					complete(r)
				},
			})
		})
	}
}

// clouds are the clouds behind drivers.
type clouds struct {
	mu sync.Mutex
	of map[driver.Driver]*proxmoxfake.Cloud
}

// open returns a driver over a cloud that knows nothing of earlier ones.
func (c *clouds) open(t *testing.T, cloud *proxmoxfake.Cloud) driver.Driver {
	t.Helper()
	d := open(t, cloud)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[d] = cloud
	return d
}

func (c *clouds) behind(d driver.Driver) *proxmoxfake.Cloud {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[d]
}

func open(t *testing.T, cloud *proxmoxfake.Cloud) *proxmox.Driver {
	t.Helper()
	d, err := proxmox.New(proxmox.Options{
		URL: "https://pve.example:8006/api2/json", Shard: "one", Region: "here",
		TokenID: proxmoxfake.DefaultToken.ID, TokenSecret: proxmoxfake.DefaultToken.Secret,
		Transport: wire.RoundTripper(cloud),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
