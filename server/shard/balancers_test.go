package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
)

// balancedGroup is a shard whose static group web stands behind "www".
func balancedGroup(size int) worldOptions {
	return worldOptions{
		Able:      true,
		Balancers: `{"www": {"provider": "local"}, "api": {"provider": "local"}}`,
		Groups:    fmt.Sprintf(`{"default": {"web": {"template": "plain", "size": %d, "load_balancers": ["www"]}}}`, size),
		Cloud:     drivertest.Options{},
	}
}

func inBalancedWorld(t *testing.T, opts worldOptions, test func(*testing.T, *world)) {
	t.Helper()
	opts.Prepare = func(c *drivertest.Cloud) {
		c.AddBalancer("www", "vm-of-others")
		c.AddBalancer("api")
	}
	inWorld(t, opts, test)
}

// behind checks that a load balancer has exactly the running machines of the group
// as members, beside the stranger.
func (w *world) behind(key string, group fleet.GroupID, strangers ...string) {
	w.t.Helper()
	want := strangers
	for _, vm := range w.vms(group) {
		want = append(want, vm.ProviderID)
	}
	slices.Sort(want)
	if got := w.cloud.Behind(key); !slices.Equal(got, want) {
		w.t.Errorf("members of %s: %q, want %q", key, got, want)
	}
}

const stranger = "vm-of-others"

func TestMachinesJoinNotBeforeTheyReport(t *testing.T) {
	opts := balancedGroup(3)
	opts.DeadAgents = true
	inBalancedWorld(t, opts, func(t *testing.T, w *world) {
		w.settle(time.Minute)
		for _, in := range w.members(web) {
			w.term().balancers.Touch(in.ID)
		}
		w.settle(time.Second)
		if got := w.cloud.Behind("www"); len(w.vms(web)) != 3 || len(got) != 1 {
			t.Errorf("members before any agent has reported: %q", got)
		}
	})
}

func TestMachinesJoinOnceTheyReport(t *testing.T) {
	inBalancedWorld(t, balancedGroup(3), func(t *testing.T, w *world) {
		w.settle(time.Minute)
		w.converged(3)
		w.behind("www", web, stranger)
		if n := w.count(drivertest.OpRegister); n != 3 {
			t.Errorf("%d calls to register three machines", n)
		}
		w.settle(time.Hour)
		if n := w.count(drivertest.OpRegister); n != 3 {
			t.Errorf("%d calls to register three machines after an hour", n)
		}
	})
}

// TestS20_MachineLeavesBeforeAnythingElse: no delete is sent while a load balancer
// still sends the machine new connections, if it answers.
func TestS20_MachineLeavesBeforeAnythingElse(t *testing.T) {
	for name, drain := range map[string]string{"at once": "0s", "with a drain": "1m"} {
		t.Run(name, func(t *testing.T) {
			opts := balancedGroup(3)
			opts.Drain = drain
			inBalancedWorld(t, opts, func(t *testing.T, w *world) {
				w.settle(time.Minute)
				w.cloud.SetConditions(drivertest.Conditions{Latency: 500 * time.Millisecond})
				victim := w.vms(web)[0]
				_, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: victim.InstanceID.String()})
				if err != nil {
					t.Fatal(err)
				}
				w.settle(3 * time.Minute)
				w.converged(3)
				w.behind("www", web, stranger)
				left := slices.IndexFunc(w.cloud.Calls(), func(c drivertest.Call) bool { return c.Op == drivertest.OpDeregister && c.ID == victim.InstanceID })
				gone := slices.IndexFunc(w.cloud.Calls(), func(c drivertest.Call) bool { return c.Op == drivertest.OpDelete && c.ID == victim.InstanceID })
				if left < 0 || gone < 0 || left > gone {
					t.Errorf("deregistered in call %d, deleted in call %d", left, gone)
				} else if calls := w.cloud.Calls(); calls[gone].At.Sub(calls[left].At) < 500*time.Millisecond {
					t.Error("deleted before the load balancer had answered")
				}
			})
		})
	}
}

func TestL4_LoadBalancerThatDoesNotAnswerHoldsNoRemovalUp(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{
		"it is slow":  {Latency: time.Hour},
		"it refuses":  drivertest.Fail(driver.Auth),
		"it is away":  drivertest.Fail(driver.Transient),
		"it is gone":  drivertest.Fail(driver.MissingRef),
		"answer lost": drivertest.LostAnswer(),
	} {
		t.Run(name, func(t *testing.T) {
			inBalancedWorld(t, balancedGroup(2), func(t *testing.T, w *world) {
				w.settle(time.Minute)
				w.cloud.SetFaults(drivertest.Always(drivertest.OpDeregister, fault))
				victim := w.vms(web)[0]
				_, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: victim.InstanceID.String()})
				if err != nil {
					t.Fatal(err)
				}
				w.settle(8 * time.Second) // the request time-out is five, and it has a second more
				if _, there := w.cloud.Machine(victim.InstanceID); there {
					t.Error("the machine is still there")
				}
				said := strings.Join(w.said(web), "\n")
				if fault.After == nil && strings.Count(said, `load balancer "www": deregister`) != 1 {
					t.Errorf("said %q, want the load balancer's error once", said)
				}
				w.cloud.SetFaults(nil)
				w.settle(time.Minute)
				w.converged(2)
			})
		})
	}
}

// TestF12_MembersStayThroughAChangeOfLeader: nobody is taken out because a new
// leader has not heard of its agent yet, and what the old one left undone is done.
func TestF12_MembersStayThroughAChangeOfLeader(t *testing.T) {
	opts := balancedGroup(3)
	opts.Drain = "0s"
	inBalancedWorld(t, opts, func(t *testing.T, w *world) {
		w.settle(time.Minute)
		victim := w.vms(web)[0]
		w.stop()
		w.cloud.AddBalancer("www", append(w.cloud.Behind("www"), "vm-gone-long-ago")...)
		w.cloud.AddBalancer("api", victim.ProviderID) // by hand
		registered, deregistered := w.count(drivertest.OpRegister), w.count(drivertest.OpDeregister)
		w.cloud.SetFaults(drivertest.Always(drivertest.OpMembers, drivertest.Fault{Latency: 4 * time.Second})) // agents report first
		w.lead()
		w.settle(time.Minute)
		w.behind("www", web, stranger, "vm-gone-long-ago")
		if n := w.count(drivertest.OpRegister) - registered; n != 0 {
			t.Errorf("%d machines were registered anew", n)
		}
		if n := w.count(drivertest.OpDeregister) - deregistered; n != 1 || len(w.cloud.Behind("api")) != 0 {
			t.Errorf("%d calls to deregister, members of api %q; want the one that should not be there taken out", n, w.cloud.Behind("api"))
		}
	})
}

func TestMembershipIsCompared(t *testing.T) {
	inBalancedWorld(t, balancedGroup(3), func(t *testing.T, w *world) {
		w.settle(time.Minute)
		w.cloud.AddBalancer("www", stranger, w.vms(web)[0].ProviderID) // somebody took two out
		w.settle(6 * time.Minute)
		w.behind("www", web, stranger)
		if n := w.count(drivertest.OpMembers); n > 6 {
			t.Errorf("%d listings of two load balancers in seven minutes", n)
		}
	})
}

func TestGroupMovesToAnotherLoadBalancer(t *testing.T) {
	inBalancedWorld(t, balancedGroup(0), func(t *testing.T, w *world) {
		group := fleet.GroupID{Tenant: "default", Name: "moving"}
		w.scale(group, 3)
		w.settle(time.Minute)
		w.behind("www", web, stranger)
		for _, key := range []string{"www", "api"} {
			_, err := w.term().requests.UpsertGroup(w.ctx, group.Tenant, group.Name, requests.GroupChange{LoadBalancers: []string{key}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.settle(time.Second)
			if key == "www" {
				w.behind("www", group, stranger)
				continue
			}
			w.behind("api", group)
			w.behind("www", web, stranger)
		}
		w.converged(3)
	})
}

func TestOnDemandInstanceHasLoadBalancersOfItsOwn(t *testing.T) {
	inBalancedWorld(t, balancedGroup(0), func(t *testing.T, w *world) {
		_, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{
			Group: web.Name, Overrides: effective.InstanceRequest{LoadBalancers: []string{"api"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.behind("api", web)
		if got := w.cloud.Behind("www"); len(got) != 1 {
			t.Errorf("members of www: %q", got)
		}
	})
}

func TestRegistrationThatFailsIsRepeated(t *testing.T) {
	inBalancedWorld(t, balancedGroup(2), func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Any(
			drivertest.Always(drivertest.OpRegister, drivertest.Fail(driver.Transient)),
			drivertest.Always(drivertest.OpMembers, drivertest.Fail(driver.Transient)),
		))
		w.settle(10 * time.Minute)
		if n := w.count(drivertest.OpRegister); n > 20 {
			t.Errorf("%d calls in ten minutes in which none succeeded", n)
		}
		w.cloud.SetFaults(nil)
		w.settle(6 * time.Minute)
		w.behind("www", web, stranger)
	})
}
