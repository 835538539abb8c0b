package proxmox_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/providers/proxmox"
	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// openWith is a driver with further options over a cluster.
func openWith(t *testing.T, cloud *proxmoxfake.Cloud, change func(*proxmox.Options)) *proxmox.Driver {
	t.Helper()
	opts := proxmox.Options{
		URL: "https://pve.example:8006/api2/json", Shard: "one",
		TokenID: proxmoxfake.DefaultToken.ID, TokenSecret: proxmoxfake.DefaultToken.Secret, Transport: wire.RoundTripper(cloud),
	}
	change(&opts)
	d, err := proxmox.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// uneven is a cluster of one large node and two small ones, all with the template.
func uneven() proxmoxfake.Options {
	return proxmoxfake.Options{Nodes: []proxmoxfake.Node{
		{Name: "pve1", Cores: 64, Memory: 512 * proxmoxfake.GiB},
		{Name: "pve2", Cores: 16, Memory: 64 * proxmoxfake.GiB},
		{Name: "pve3", Cores: 16, Memory: 64 * proxmoxfake.GiB},
	}}
}

func byNode(cloud *proxmoxfake.Cloud) map[string]int {
	count := map[string]int{}
	for _, m := range cloud.Machines() {
		count[m.Node]++
	}
	return count
}

// Machines that are idle use little of the memory that is theirs: no node is promised more
// than it has all the same, and the last machine is refused for want of room.
func TestIdleMachinesAreNotStacked(t *testing.T) {
	for policy, c := range map[string]struct{ machines int }{"committed": {9}, "used": {10}} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := proxmoxfake.New(proxmoxfake.Options{})
				defer cloud.Close()
				d := openWith(t, cloud, func(o *proxmox.Options) {
					if policy != "committed" {
						o.PlacementMemory = policy
					}
				})
				var refused error
				for range 10 {
					req := requestFor(t, onLVM())
					req.InstanceType = "cpu:1,memory:20480"
					if _, err := untilSure(t, d, req); err != nil {
						refused = err
						break
					}
					time.Sleep(2 * time.Minute) // long after the driver has forgotten its reservation
				}
				if got := len(cloud.Machines()); got != c.machines {
					t.Errorf("there are %d machines of 20 GiB on 3 nodes of 64 GiB, want %d", got, c.machines)
				}
				if policy == "committed" && driver.ClassOf(refused) != driver.Capacity {
					t.Errorf("the next one: %v, want %s", refused, driver.Capacity)
				}
			})
		})
	}
}

// The machines of a group are spread over nodes, however different those are, also by a
// server that was started in between; those of another group don't count.
func TestSpreadOfAGroup(t *testing.T) {
	for name, c := range map[string]struct {
		spread any
		want   []map[string]int  // after each create
		last   driver.ErrorClass // of the error of one more; empty: none
	}{
		"by default": {nil, []map[string]int{{"pve1": 1}, {"pve1": 1, "pve2": 1}, {"pve1": 1, "pve2": 1, "pve3": 1}, {"pve1": 2, "pve2": 1, "pve3": 1}}, ""},
		"required":   {"require", []map[string]int{{"pve1": 1}, {"pve1": 1, "pve2": 1}, {"pve1": 1, "pve2": 1, "pve3": 1}}, driver.Capacity},
		"off":        {"off", []map[string]int{{"pve1": 1}, {"pve1": 2}, {"pve1": 3}, {"pve1": 4}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := proxmoxfake.New(uneven())
				defer cloud.Close()
				request := func() driver.CreateRequest {
					req := requestFor(t, onLVM())
					if c.spread != nil {
						req.Args["Spread"] = c.spread
					}
					return req
				}
				for i, want := range c.want {
					made(t, open(t, cloud), request()) // each by a server that knows nothing of the others
					if got := byNode(cloud); !maps.Equal(got, want) {
						t.Fatalf("after machine %d: %v, want %v", i+1, got, want)
					}
				}
				_, err := open(t, cloud).Create(t.Context(), request())
				if driver.ClassOf(err) != c.last && (err != nil || c.last != "") {
					t.Errorf("one more: %v, want %q", err, c.last)
				}
				other := request()
				other.Group = "batch"
				before := byNode(cloud)["pve1"]
				made(t, open(t, cloud), other)
				if byNode(cloud)["pve1"] != before+1 {
					t.Errorf("a machine of another group is not on the node with most room: %v", byNode(cloud))
				}
			})
		})
	}
}

// The same for creates at once, which no list shows yet.
func TestSpreadOfCreatesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := proxmoxfake.New(uneven())
		defer cloud.Close()
		d := open(t, cloud)
		done := make(chan error)
		for range 6 {
			req := requestFor(t, onLVM())
			go func() { _, err := d.Create(t.Context(), req); done <- err }()
		}
		for range 6 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := byNode(cloud); !maps.Equal(got, map[string]int{"pve1": 2, "pve2": 2, "pve3": 2}) {
			t.Errorf("machines by node: %v, want two each", got)
		}
	})
}

func TestNodesOfAGroup(t *testing.T) {
	for name, c := range map[string]struct {
		nodes any
		want  map[string]int
		kind  driver.ErrorClass // of the error; empty: none
		says  string
	}{
		"a list":               {[]any{"pve2", "pve3"}, map[string]int{"pve2": 1, "pve3": 1}, "", ""},
		"a text":               {"pve3", map[string]int{"pve3": 2}, "", ""},
		"one is not there":     {[]any{"pve2", "pve9"}, map[string]int{"pve2": 2}, "", ""},
		"none is there":        {[]any{"pve8", "pve9"}, nil, driver.MissingRef, "the cluster has none of pve8, pve9; it has pve1, pve2, pve3"},
		"the one is away":      {"pve1", nil, driver.Capacity, "Nodes"},
		"a name that can't be": {"a b", nil, driver.Invalid, "Nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := proxmoxfake.New(proxmoxfake.Options{})
				defer cloud.Close()
				cloud.SetOnline("pve1", false)
				time.Sleep(time.Minute)
				for range 2 {
					req := requestFor(t, onLVM())
					req.Args["Nodes"] = c.nodes
					_, err := open(t, cloud).Create(t.Context(), req)
					if (err != nil || c.kind != "") && (driver.ClassOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.says)) {
						t.Errorf("create: %v, want %s", err, c.kind)
					}
				}
				if got := byNode(cloud); !maps.Equal(got, c.want) {
					t.Errorf("machines by node: %v, want %v", got, c.want)
				}
			})
		})
	}
}
