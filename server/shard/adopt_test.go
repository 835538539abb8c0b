package shard

import (
	"context"
	"strings"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/refusal"
)

// inWorldWithHeld runs a test in a world with one group of two machines, whose
// records somebody removed while nobody led: both are held, and for now the cloud
// has no room for others.
func inWorldWithHeld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(time.Minute)
		w.stop()
		for _, rec := range w.records() {
			w.remove(rec.Key())
		}
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fail(driver.Capacity)))
		w.lead()
		w.settle(time.Minute)
		if held := w.term().Unmanaged(); len(held) != 2 {
			t.Fatalf("held: %v, want two", held)
		}
		test(t, w)
	})
}

// reconnect lets the agent of a machine knock again, as a real one does without end.
func (w *world) reconnect(id identity.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[id]
	m.off()
	ctx, off := context.WithCancel(w.ctx)
	m.off = off
	w.agents.Go(func() { m.run(ctx) })
}

func TestF11_AdoptedMachineIsAnInstanceAgain(t *testing.T) {
	inWorldWithHeld(t, func(t *testing.T, w *world) {
		for _, held := range w.term().Unmanaged() {
			if held.Machine.Group != "web" || held.Machine.Template != "plain" || held.Since.IsZero() {
				t.Errorf("held: %+v, want it with what its tags say", held)
			}
			status, err := w.term().requests.AdoptVM(w.ctx, held.VM.ProviderID)
			if err != nil {
				t.Fatal(err)
			}
			if status.ID != held.VM.ID || status.Group != web {
				t.Errorf("adopted as %v", status)
			}
			w.reconnect(held.VM.ID)
		}
		w.cloud.SetFaults(nil)
		w.settle(10 * time.Minute)
		w.converged(2)
		w.stop()
		w.lead() // their records are as durable as any
		w.settle(30 * time.Minute)
		w.converged(2)
		if made := w.cloud.Created(); made != 2 {
			t.Errorf("%d machines were made, want the two", made)
		}
	})
}

// TestAdoptedMachineIsRotated: an adopted machine is replaced like any other when what
// machines are made from changes, or has changed while it was nobody's.
func TestAdoptedMachineIsRotated(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after bool // the type of machines changes before, after the adoption
		made          int
	}{
		{"nothing changes", false, false, 2},
		{"the type changes afterwards", false, true, 4},
		{"the type has changed before", true, false, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorldWithHeld(t, func(t *testing.T, w *world) {
				if c.before {
					w.reconfigure(large(w.opts))
				}
				for _, held := range w.term().Unmanaged() {
					if _, err := w.term().requests.AdoptVM(w.ctx, held.VM.ProviderID); err != nil {
						t.Fatal(err)
					}
					w.reconnect(held.VM.ID)
				}
				w.settle(time.Minute) // creates that were on their way before the adoption are refused
				w.cloud.SetFaults(nil)
				w.settle(10 * time.Minute)
				if c.after {
					w.reconfigure(large(w.opts))
				}
				w.settle(time.Hour)
				w.converged(2)
				if made := w.cloud.Created(); made != c.made {
					t.Errorf("%d machines were made, want %d", made, c.made)
				}
			})
		})
	}
}

func TestAdoptTwiceIsAnsweredTwice(t *testing.T) {
	inWorldWithHeld(t, func(t *testing.T, w *world) {
		vm := w.vms(web)[0]
		first, err := w.term().requests.AdoptVM(w.ctx, vm.ProviderID)
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.term().requests.AdoptVM(w.ctx, vm.ProviderID)
		if err != nil || again.ID != first.ID {
			t.Errorf("the repeat is answered %v, %v", again, err)
		}
	})
}

// TestS11_AdoptedInstanceHasOneCertificate: the first that it comes with, across a
// change of leader.
func TestS11_AdoptedInstanceHasOneCertificate(t *testing.T) {
	inWorldWithHeld(t, func(t *testing.T, w *world) {
		id := w.vms(web)[0].InstanceID
		mine, err := w.machine(id).identity()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.term().Agents().Admit(mine); err == nil {
			t.Error("the agent of a held machine was let in")
		}
		if _, err := w.term().requests.AdoptVM(w.ctx, w.vms(web)[0].ProviderID); err != nil {
			t.Fatal(err)
		}
		another := mine
		another.Tenant = "b"
		if err := w.term().Agents().Admit(another); err == nil {
			t.Error("another tenant's certificate was taken")
		}
		if err := w.term().Agents().Admit(mine); err != nil {
			t.Errorf("the machine's own certificate: %v", err)
		}
		w.settle(time.Second)
		another = mine
		another.Serial = "0102"
		for range 2 {
			if err := w.term().Agents().Admit(another); !refusedWith(err, refusal.PermissionDenied) {
				t.Errorf("a second certificate: %v", err)
			}
			w.stop()
			w.lead()
		}
	})
}

// TestAdoptedMachineThatStaysSilentIsReplaced: adoption is no excuse.
func TestAdoptedMachineThatStaysSilentIsReplaced(t *testing.T) {
	inWorldWithHeld(t, func(t *testing.T, w *world) {
		vm := w.vms(web)[0]
		if _, err := w.term().requests.AdoptVM(w.ctx, vm.ProviderID); err != nil {
			t.Fatal(err)
		}
		w.settle(10 * time.Minute)
		if _, there := w.cloud.Machine(vm.InstanceID); !there {
			t.Error("it was deleted while nothing could be made in its place")
		}
		w.cloud.SetFaults(nil)
		w.settle(time.Hour)
		if _, there := w.cloud.Machine(vm.InstanceID); there {
			t.Error("it still runs after an hour without an agent")
		}
	})
}

func TestAdoptRefusals(t *testing.T) {
	inWorldWithHeld(t, func(t *testing.T, w *world) {
		vms := w.vms(web)
		foreign, err := w.ids.NewID("vmx")
		if err != nil {
			t.Fatal(err)
		}
		untagged, malformed := w.cloud.Plant(testOwner, foreign.String()), w.cloud.Plant(testOwner, "not an id")
		w.settle(time.Minute)
		refused := func(providerID string, code refusal.Code, why string) {
			t.Helper()
			_, err := w.term().requests.AdoptVM(w.ctx, providerID)
			if !refusedWith(err, code) || !strings.Contains(err.Error(), why) {
				t.Errorf("%q: %v, want %s with %q", providerID, err, code, why)
			}
		}
		refused("", refusal.InvalidArgument, "provider_instance_id")
		refused("vm-none", refusal.NotFound, "instance list --unmanaged")
		refused(malformed, refusal.FailedPrecondition, `"not an id"`)
		refused(untagged, refusal.FailedPrecondition, "tenant and a group")

		w.cloud.SetStatus(vms[0].InstanceID, driver.Stopped)
		refused(vms[0].ProviderID, refusal.FailedPrecondition, "stopped")

		w.write(layout.InstanceKey(testShard, "default", vms[1].InstanceID), "{")
		w.settle(2 * time.Minute)
		refused(vms[1].ProviderID, refusal.FailedPrecondition, "cannot be read")
		w.cloud.Remove(vms[1].InstanceID)
		w.settle(2 * time.Minute)
		refused(vms[1].ProviderID, refusal.NotFound, "instance list --unmanaged")
	})
}

func TestAdoptNeedsTheGroupOfItsTags(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		vm := w.vms(web)[0]
		w.stop()
		w.remove(w.records()[0].Key())
		w.remove(layout.GroupsKey(testShard)) // dynamic groups are held, whatever they were
		w.lead()
		w.settle(time.Minute)
		if _, err := w.term().requests.AdoptVM(w.ctx, vm.ProviderID); !refusedWith(err, refusal.FailedPrecondition) || !strings.Contains(err.Error(), `group "web"`) {
			t.Errorf("adoption into a group that is gone: %v", err)
		}
	})
}

// write puts an object where none is, as somebody with access to the bucket would.
func (w *world) write(key, text string) {
	w.t.Helper()
	if _, err := w.store.PutIfAbsent(w.ctx, key, []byte(text)); err != nil {
		w.t.Fatal(err)
	}
}
