package shard

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/groups"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/memory"
)

// TestS15_AcknowledgedIsDurable: the server dies with the answer to each kind of
// change, every cache is lost, and the next leader knows of it.
func TestS15_AcknowledgedIsDurable(t *testing.T) {
	for name, change := range map[string]func(*world) (check func() error, err error){
		"a group's size": func(w *world) (func() error, error) {
			return func() error { return w.wantSize(5) }, w.tryScale(web, 5)
		},
		"a deleted group": func(w *world) (func() error, error) {
			err := w.term().requests.DeleteGroup(w.ctx, "default", "web", groups.Manager{})
			return func() error {
				w.settle(time.Hour) // its machines go a few at a time
				return w.wantNo(w.vms(web))
			}, err
		},
		"an on-demand instance": func(w *world) (func() error, error) {
			res, err := w.term().requests.CreateInstance(w.ctx, "default", InstanceRequest{Group: "web"})
			return func() error {
				_, err := w.term().planner.status.GetInstance("default", res.ID.String())
				return err
			}, err
		},
		"a deleted instance": func(w *world) (func() error, error) {
			id := w.vms(web)[0].InstanceID
			_, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: id.String()})
			return func() error {
				if _, there := w.cloud.Machine(id); there {
					return fmt.Errorf("%s still runs", id)
				}
				return nil
			}, err
		},
		"an instance deleted with its place": func(w *world) (func() error, error) {
			id := w.vms(web)[0].InstanceID
			_, err := w.term().requests.DeleteInstance(w.ctx, "default", RemovalRequest{ID: id.String(), DecrementSize: true})
			return func() error {
				if _, there := w.cloud.Machine(id); there {
					return fmt.Errorf("%s still runs", id)
				}
				return w.wantSize(2)
			}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 3)
				w.settle(time.Minute)
				check, err := change(w)
				if err != nil {
					t.Fatal(err)
				}
				w.stop() // before anything else happens, and with its cache
				w.lead()
				w.settle(5 * time.Minute)
				if err := check(); err != nil {
					t.Errorf("it was acknowledged, and after a crash: %v", err)
				}
			})
		})
	}
}

// TestS15_RegistrationIsDurable: the certificate is good at a server that has
// never seen it.
func TestS15_RegistrationIsDurable(t *testing.T) {
	withMachine(t, func(t *testing.T, w *world, _ identity.ID, nonce string) {
		peer, err := register(w.term(), nonce, newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.lead()
		if err := w.term().Agents().Admit(peer); err != nil {
			t.Errorf("after a crash: %v", err)
		}
	})
}

func (w *world) wantSize(want int) error {
	for _, g := range w.term().planner.status.ListGroups("default") {
		if g.Key == web.Name && g.Size == want && len(w.vms(web)) >= want {
			return nil
		}
	}
	return fmt.Errorf("groups %v with %d machines, want size %d", w.term().planner.status.ListGroups("default"), len(w.vms(web)), want)
}

func (w *world) wantNo(vms []drivertest.VM) error {
	if len(vms) > 0 {
		return fmt.Errorf("%d machines still run", len(vms))
	}
	return nil
}

// TestS18_NoIDIsGivenOutTwice: across groups, kinds of instances, replacements,
// refused creates and leaders.
func TestS18_NoIDIsGivenOutTwice(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		other := fleet.GroupID{Tenant: "b", Name: "web"}
		for round := range 5 {
			w.cloud.SetFaults(drivertest.Times(2, drivertest.OpCreate, drivertest.Fail(driver.Capacity)))
			w.scale(web, 6+round)
			w.scale(other, 4)
			w.settle(time.Minute)
			w.cloud.Kill(w.vms(web)[0].InstanceID)
			w.settle(time.Minute)
			w.scale(other, 0)
			w.settle(time.Minute)
			w.stop()
			w.lead()
		}
		owner := map[identity.ID]string{}
		for _, call := range w.cloud.Calls() {
			if call.Op != drivertest.OpCreate {
				continue
			}
			asked := fmt.Sprint(call.Request.Tenant, call.Request.Group, call.Request.CreatedAt)
			if before, used := owner[call.ID]; used && before != asked {
				t.Errorf("%s stands for two instances", call.ID)
			}
			owner[call.ID] = asked
		}
		if len(owner) < 40 {
			t.Errorf("only %d instances were made: the test shows little", len(owner))
		}
	})
}

// TestF2_NoGroupWaitsBehindAnothersCall: every write for one group takes 30 s.
func TestF2_NoGroupWaitsBehindAnothersCall(t *testing.T) {
	other := fleet.GroupID{Tenant: "b", Name: "other"}
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 0)
		w.scale(other, 0)
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			// The cloud of the world looks at records too, and is not to be late.
			if c.Op == memory.OpPut && strings.HasPrefix(c.Key, layout.InstancePrefix(testShard)+"default.") {
				return memory.Fault{Latency: 30 * time.Second}
			}
			return memory.Fault{}
		})
		w.scale(web, 50)
		w.settle(time.Second)
		w.scale(other, 5)
		w.settle(time.Second)
		if n := len(w.vms(other)); n != 5 {
			t.Errorf("%d machines of the other group after a second, want 5", n)
		}
		w.settle(30 * time.Minute)
		if n := len(w.vms(web)); n != 50 {
			t.Errorf("%d machines of the group with slow storage, want 50", n)
		}
	})
}

// TestF5_BusyStorageIsNoLostLease: writes in progress and requests to slow down are
// tried again, a bounded number of times and never at once, and nobody steps down.
func TestF5_BusyStorageIsNoLostLease(t *testing.T) {
	for _, busy := range []error{objectstore.ErrConflict, objectstore.ErrThrottled} {
		t.Run(busy.Error(), func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				before := w.term()
				tries := map[string][]time.Time{}
				w.store.SetFaults(func(c memory.Call) memory.Fault {
					if c.Op != memory.OpPut && c.Op != memory.OpDelete {
						return memory.Fault{}
					}
					tries[c.Key] = append(tries[c.Key], time.Now())
					if len(tries[c.Key])%3 == 0 {
						return memory.Fault{}
					}
					return memory.Fault{Before: busy}
				})
				w.scale(web, 4)
				w.settle(5 * time.Minute)
				w.scale(web, 2)
				w.settle(5 * time.Minute)
				w.store.SetFaults(nil)
				w.converged(2)
				if w.term() != before {
					t.Error("the leader stepped down")
				}
				for key, at := range tries {
					for i := 1; i < len(at); i++ {
						if i%3 != 0 && !at[i].After(at[i-1]) {
							t.Errorf("%s was tried again without a pause", key)
						}
					}
				}
			})
		})
	}
}

// TestF49_FloodOfGroupNames: metrics forget the groups that are gone.
func TestF49_FloodOfGroupNames(t *testing.T) {
	reg := prometheus.NewRegistry()
	inWorld(t, worldOptions{registry: reg}, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fail(driver.Quota)))
		r := w.term()
		for i := range 100 {
			id := fleet.GroupID{Tenant: "b", Name: fmt.Sprintf("flood-%d", i)}
			w.scale(id, 1)
			w.settle(time.Second)
			if err := r.requests.DeleteGroup(t.Context(), "b", id.Name, groups.Manager{}); err != nil {
				t.Fatal(err)
			}
		}
		w.settle(time.Hour)
		synctest.Wait()
		if n, err := testutil.GatherAndCount(reg, "nstance_instance_create_failures_total"); n != 0 || err != nil {
			t.Errorf("%d series for groups that are gone (%v)", n, err)
		}
	})
}

// TestF49_GroupsOfATenantAreLimited: a tenant that has all it may have changes what
// it has, and gets no more; the others don't notice.
func TestF49_GroupsOfATenantAreLimited(t *testing.T) {
	file := &groupfile.File{}
	for i := range document.MaxTenantGroups {
		file.Set("b", fmt.Sprintf("g-%d", i), groupfile.Entry{Template: "plain"})
	}
	cfg := testConfig(t, worldOptions{})
	change := requests.GroupChange{Template: "plain"}
	if _, err := requests.CheckUpsert(cfg, file, "b", "one-more", change); err == nil || !strings.Contains(err.Error(), "delete one first") {
		t.Errorf("one more group: %v", err)
	}
	if _, err := requests.CheckUpsert(cfg, file, "b", "g-7", change); err != nil {
		t.Errorf("a group that is there: %v", err)
	}
	if _, err := requests.CheckUpsert(cfg, file, "default", "one-more", change); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// TestS3_RecordBeforeCreate: at every create that the provider hears of, the record
// with the instance's tenant, group and nonce already stands in storage; while none
// can be written, nothing is asked for.
func TestS3_RecordBeforeCreate(t *testing.T) {
	var w *world
	var asked atomic.Int64
	check := func(c drivertest.Call) {
		if c.Op != drivertest.OpCreate {
			return
		}
		asked.Add(1)
		key := layout.InstanceKey(testShard, c.Request.Tenant, c.ID)
		obj, err := w.store.Get(w.ctx, key)
		if err != nil {
			t.Errorf("create of %s without a record: %v", c.ID, err)
			return
		}
		rec, err := layout.DecodeInstanceRecord(key, obj.Data)
		if err != nil || rec.Group != c.Request.Group || rec.Kind != c.Request.Kind || rec.InfraHash == "" || rec.NonceSHA256 == "" || rec.Term == 0 {
			t.Errorf("create of %s with the record %+v, %v", c.ID, rec, err)
		}
	}
	inWorld(t, worldOptions{Cloud: drivertest.Options{OnCall: check}}, func(t *testing.T, in *world) {
		w = in
		slow := func(memory.Call) memory.Fault { return memory.Fault{Latency: time.Second, Linger: time.Second} }
		w.store.SetFaults(slow)
		w.scale(web, 5)
		w.settle(time.Minute)
		if n := asked.Load(); n != 5 {
			t.Errorf("%d creates, want 5", n)
		}
		w.store.SetFaults(func(c memory.Call) memory.Fault {
			if c.Op == memory.OpPut && strings.HasPrefix(c.Key, layout.InstancePrefix(testShard)) {
				return memory.Fault{Before: objectstore.ErrUnavailable}
			}
			return memory.Fault{}
		})
		w.scale(web, 9)
		w.settle(2 * time.Minute)
		if n := asked.Load(); n != 5 {
			t.Errorf("%d creates while no record could be written", n-5)
		}
		w.store.SetFaults(nil)
		w.settle(10 * time.Minute)
		w.converged(9)
	})
}
