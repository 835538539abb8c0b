package proxmox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

var owner = driver.Owner{Cluster: "prod", Shard: "rack-1"}

// requestFor is a request for a new machine.
func requestFor(t *testing.T, args map[string]any) driver.CreateRequest {
	t.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		t.Fatal(err)
	}
	return driver.CreateRequest{
		InstanceID: id, Owner: owner, Tenant: "default", Group: "web", Template: "worker", Kind: "knc", Arch: "amd64",
		InstanceType: "cpu:2,memory:2048", SubnetID: "vmbr0", UserData: []byte("#!/bin/sh\n"), CreatedAt: id.CreatedAt(), Args: args,
	}
}

func onLVM() map[string]any {
	return map[string]any{"StoragePool": "local-lvm", "TemplateName": "debian-13", "DiskSize": "4G"}
}

// serverTimeout is request_timeout, as it is by default.
const serverTimeout = 30 * time.Second

// untilSure creates as a server does: again while the outcome is open.
func untilSure(t *testing.T, d *proxmox.Driver, req driver.CreateRequest) (driver.Machine, error) {
	t.Helper()
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), serverTimeout)
		m, err := d.Create(ctx, req)
		cancel()
		if kind := driver.ClassOf(err); err == nil || kind != driver.Ambiguous && kind != driver.Throttled {
			return m, err
		}
		time.Sleep(min(time.Second<<min(i, 5), 30*time.Second))
	}
	t.Fatalf("the outcome of the create of %s stays open", req.InstanceID)
	return driver.Machine{}, nil
}

// untilGone deletes as a server does: again while it fails.
func untilGone(t *testing.T, d *proxmox.Driver, id identity.ID) {
	t.Helper()
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), serverTimeout)
		err := d.Delete(ctx, driver.Ref{InstanceID: id})
		cancel()
		if err == nil {
			return
		}
		time.Sleep(10 * time.Second)
	}
	t.Fatalf("%s cannot be deleted", id)
}

// traces are machines and volumes of a cloud that are no template's.
func traces(cloud *proxmoxfake.Cloud) (machines, volumes []string) {
	for _, m := range cloud.Machines() {
		machines = append(machines, fmt.Sprintf("%d %s on %s, running %t, lock %q", m.VMID, m.Name, m.Node, m.Running, m.Config["lock"]))
	}
	volumes = slices.DeleteFunc(cloud.Volumes(), func(v string) bool { return strings.Contains(v, ":base-") && !strings.Contains(v, "/vm-") })
	return machines, volumes
}

// mistakes are what can go wrong with one call, one of each way in which it is dealt with.
var mistakes = map[string]wire.Fault{
	"lost":             {Lost: true},
	"throttled":        {Kind: driver.Throttled},
	"capacity":         {Kind: driver.Capacity},
	"auth":             {Kind: driver.Auth},
	"not found":        {Kind: driver.NotFound},
	"transient":        {Kind: driver.Transient},
	"ambiguous, after": {Kind: driver.Ambiguous, After: true},
	"slow to answer":   {Linger: 40 * time.Second},
}

// quick is a cluster whose tasks are over after a look or two.
var quick = proxmoxfake.Options{Speed: 200}

// callsOf counts the calls of one create without faults.
func callsOf(t *testing.T, do func(*testing.T, *proxmoxfake.Cloud, *proxmox.Driver)) (n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := proxmoxfake.New(quick)
		do(t, cloud, open(t, cloud))
		n = len(cloud.Gate.Calls())
	})
	return n
}

// Whatever goes wrong with whatever call of a create: in the end there is one machine
// that runs, or an error and nothing at all; and what was made can be deleted.
func TestF19_EveryCallOfACreateGoesWrong(t *testing.T) {
	calls := callsOf(t, func(t *testing.T, _ *proxmoxfake.Cloud, d *proxmox.Driver) {
		if _, err := d.Create(t.Context(), requestFor(t, onLVM())); err != nil {
			t.Fatal(err)
		}
	})
	for name, fault := range mistakes {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= calls; n++ {
				synctest.Test(t, func(t *testing.T) { failedCreate(t, n, fault) })
			}
		})
	}
}

func failedCreate(t *testing.T, n int, fault wire.Fault) {
	cloud := proxmoxfake.New(quick)
	defer cloud.Close()
	d := open(t, cloud)
	req := requestFor(t, onLVM())
	failed := "none"
	cloud.Gate.SetFaults(wire.Only(func(c wire.Call) bool {
		if c.N == n {
			failed = c.Op
		}
		return c.N == n
	}, wire.Always("", fault)))
	m, err := untilSure(t, d, req)
	machines, volumes := traces(cloud)
	switch {
	case err == nil && (len(machines) != 1 || !strings.Contains(machines[0], "running true") || !strings.HasPrefix(machines[0], m.ProviderID+" "+string(req.InstanceID))):
		t.Errorf("call %d, %s: %+v is created, and there is %q", n, failed, m, machines)
	case err != nil && (len(machines) > 0 || len(volumes) > 0):
		t.Errorf("call %d, %s: the create failed, %v; it left %q, %q", n, failed, err, machines, volumes)
	case err != nil && !isDriverError(err):
		t.Errorf("call %d, %s: %v", n, failed, err)
	}
	untilGone(t, d, req.InstanceID)
	if machines, volumes := traces(cloud); len(machines) > 0 || len(volumes) > 0 {
		t.Errorf("call %d, %s: after the delete there is %q, %q", n, failed, machines, volumes)
	}
}

// gateway is a proxy before the API that loses patience with the first clone.
type gateway struct {
	http.RoundTripper
	status int
	tired  *bool
}

func (g gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := g.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/clone") && !*g.tired {
		*g.tired = true
		res.StatusCode, res.Status = g.status, fmt.Sprintf("%d The proxy gave up", g.status)
	}
	return res, err
}

// F19: what a proxy says is no word on what became of the clone behind it.
func TestF19_ProxyThatGivesUpLeavesACreateOpen(t *testing.T) {
	for _, status := range []int{http.StatusBadGateway, http.StatusGatewayTimeout, 599} {
		synctest.Test(t, func(t *testing.T) {
			cloud := proxmoxfake.New(quick)
			defer cloud.Close()
			d := openThrough(t, gateway{wire.RoundTripper(cloud), status, new(bool)})
			req := requestFor(t, onLVM())
			if _, err := d.Create(t.Context(), req); driver.ClassOf(err) != driver.Ambiguous {
				t.Errorf("%d: the first create: %v, want %s", status, err, driver.Ambiguous)
			}
			m, err := untilSure(t, d, req)
			if machines, _ := traces(cloud); err != nil || len(machines) != 1 || !strings.HasPrefix(machines[0], m.ProviderID+" ") {
				t.Errorf("%d: the second: %+v, %v; there is %q", status, m, err, machines)
			}
		})
	}
}

func isDriverError(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Op == "create"
}

// The same for the calls of a delete: it comes to its end, and takes nothing else.
func TestF27_EveryCallOfADeleteGoesWrong(t *testing.T) {
	var before int
	calls := callsOf(t, func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver) {
		req := requestFor(t, onLVM())
		if _, err := d.Create(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		before = len(cloud.Gate.Calls())
		if err := d.Delete(t.Context(), driver.Ref{InstanceID: req.InstanceID}); err != nil {
			t.Fatal(err)
		}
	})
	for name, fault := range mistakes {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= calls-before; n++ {
				synctest.Test(t, func(t *testing.T) { failedDelete(t, n, fault) })
			}
		})
	}
}

func failedDelete(t *testing.T, n int, fault wire.Fault) {
	cloud := proxmoxfake.New(quick)
	defer cloud.Close()
	d, req, other := open(t, cloud), requestFor(t, onLVM()), requestFor(t, onLVM())
	cloud.Plant(proxmoxfake.Machine{VMID: 20_000, Name: string(other.InstanceID), Node: "pve1", Running: true, Config: map[string]string{"tags": "nstance;prod;rack-1"}})
	if _, err := d.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	n += len(cloud.Gate.Calls())
	cloud.Gate.SetFaults(wire.Only(func(c wire.Call) bool { return c.N == n }, wire.Always("", fault)))
	untilGone(t, d, req.InstanceID)
	machines, volumes := traces(cloud)
	if len(machines) != 1 || !strings.Contains(machines[0], string(other.InstanceID)) || len(volumes) > 0 {
		t.Errorf("call %d: there is %q, %q", n, machines, volumes)
	}
}

// A process that dies at any call leaves a machine that its successor sees and can
// delete, once the clone is done that was under way.
func TestF12_ProcessDiesAtEveryCallOfACreate(t *testing.T) {
	calls := callsOf(t, func(t *testing.T, _ *proxmoxfake.Cloud, d *proxmox.Driver) {
		if _, err := d.Create(t.Context(), requestFor(t, onLVM())); err != nil {
			t.Fatal(err)
		}
	})
	for n := 1; n <= calls; n++ {
		synctest.Test(t, func(t *testing.T) { diedCreate(t, n) })
	}
}

func diedCreate(t *testing.T, n int) {
	cloud := proxmoxfake.New(quick)
	defer cloud.Close()
	req := requestFor(t, onLVM())
	ctx, die := context.WithCancel(t.Context())
	cloud.Gate.SetFaults(func(c wire.Call) wire.Fault {
		if c.N == n {
			die()
		}
		return wire.Fault{}
	})
	if _, err := open(t, cloud).Create(ctx, req); !errors.Is(err, context.Canceled) && err != nil {
		t.Errorf("call %d: %v", n, err)
	}
	cloud.Gate.SetFaults(nil)

	next := open(t, cloud)
	time.Sleep(next.Lag())
	machines, _ := traces(cloud)
	list, err := next.List(t.Context(), owner)
	if err != nil || len(list) != len(machines) || len(list) > 1 {
		t.Fatalf("call %d: there is %q, the successor sees %+v, %v", n, machines, list, err)
	}
	for _, m := range list {
		if m.InstanceID != req.InstanceID {
			t.Errorf("call %d: %s is taken for %+v", n, req.InstanceID, m)
		}
	}
	untilGone(t, next, req.InstanceID)
	if machines, volumes := traces(cloud); len(machines) > 0 || len(volumes) > 0 {
		t.Errorf("call %d: after the delete there is %q, %q", n, machines, volumes)
	}
}

// The answer to a clone is lost, and its number turns out to be taken when it is asked for
// again: by the very machine that is being copied, which has no name until it is done. It
// is waited for, and there is one machine.
func TestF30_NumberIsTakenByAnOwnCloneThatIsUnderWay(t *testing.T) {
	for name, fault := range map[string]wire.Fault{"no answer": {Lost: true}, "a proxy gives up": {Kind: driver.Ambiguous, After: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := proxmoxfake.New(proxmoxfake.Options{Durations: map[string]time.Duration{"qmclone:full": 2 * time.Minute}})
				defer cloud.Close()
				d, req := open(t, cloud), requestFor(t, map[string]any{"StoragePool": "ceph", "TemplateVMID": 9001})
				const clone = "POST /nodes/{node}/qemu/{vmid}/clone"
				cloud.Gate.SetFaults(wire.Times(1, clone, fault))
				if _, err := d.Create(t.Context(), req); driver.ClassOf(err) != driver.Ambiguous {
					t.Fatalf("the first create: %v, want %s", err, driver.Ambiguous)
				}
				m, err := untilSure(t, d, req)
				if err != nil {
					t.Fatal(err)
				}
				machines, volumes := traces(cloud)
				if len(machines) != 1 || len(volumes) != 2 || !strings.HasPrefix(machines[0], m.ProviderID+" "+string(req.InstanceID)) {
					t.Errorf("%s was made, there is %q, %q", m.ProviderID, machines, volumes)
				}
			})
		})
	}
}

// Somebody has given a machine the last number there is: others are made all the same.
func TestF30_TheLastNumberIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, cloud *proxmoxfake.Cloud, d *proxmox.Driver) {
		cloud.Plant(proxmoxfake.Machine{VMID: 999_999_999, Name: "pet", Node: "pve1"})
		for _, want := range []string{"10000", "10001"} {
			if m := made(t, d, requestFor(t, onLVM())); m.ProviderID != want {
				t.Errorf("a machine has the number %s, want %s", m.ProviderID, want)
			}
		}
	})
}
