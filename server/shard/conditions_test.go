package shard

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/secrets"
	"nstance.dev/server/status"
)

// standing are the types of the conditions of a group as of its last pass, sorted.
func (w *world) standing(group fleet.GroupID) []string {
	var all []string
	for _, c := range status.OfGroup(w.term().planner.status.Summaries.Of(group).Conditions) {
		all = append(all, c.Type)
	}
	slices.Sort(all)
	return all
}

// What keeps creates back has its own name, while the group waits and while one
// create shows whether the cause is gone, and none once it is.
func TestWhatTheProviderRefusesIsACondition(t *testing.T) {
	throttled := drivertest.Fault{Before: &driver.Error{Class: driver.Throttled, Op: "create", RetryAfter: 5 * time.Second}}
	for _, c := range []struct {
		name  string
		opts  worldOptions
		fault drivertest.Faults
		want  string
	}{
		{"no room", worldOptions{}, drivertest.Always(drivertest.OpCreate, drivertest.Fail(driver.Capacity)), "no-capacity"},
		{"no quota", worldOptions{}, drivertest.Always(drivertest.OpCreate, drivertest.Fail(driver.Quota)), "back-off"},
		{"too many calls", worldOptions{}, drivertest.Always(drivertest.OpCreate, throttled), "throttled"},
		{"no image", withImages(""), drivertest.Always(drivertest.OpImage, drivertest.Fail(driver.Auth)), "image-unresolved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, c.opts, func(t *testing.T, w *world) {
				w.cloud.SetImages(drivertest.Image{ID: "img-1", Name: "debian-1"})
				w.cloud.SetFaults(c.fault)
				_ = w.stop()
				w.lead()
				w.scale(web, 3)
				w.settle(time.Second)
				for range 60 {
					w.settle(5 * time.Second)
					for _, other := range []string{"back-off", "no-capacity", "throttled", "image-unresolved"} {
						if got := w.standing(web); slices.Contains(got, other) != (other == c.want) {
							t.Fatalf("conditions %v, want %s and none like it", got, c.want)
						}
					}
				}
				w.cloud.SetFaults(nil)
				w.settle(31 * time.Minute)
				w.converged(3)
				if got := w.standing(web); !slices.Equal(got, []string{"at-size"}) {
					t.Errorf("conditions %v when the cause is gone", got)
				}
			})
		})
	}
}

// What the provider says against an instance type is a condition as soon as it is
// learnt, whatever becomes of the creates.
func TestTypeThatDoesNotFitIsACondition(t *testing.T) {
	var learnt atomic.Bool
	archMismatch := func(instanceType, arch string) error {
		if !learnt.Load() {
			return nil
		}
		return fmt.Errorf("machines of type %q are not %s", instanceType, arch)
	}
	inWorld(t, worldOptions{ArchMismatch: archMismatch}, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		if got := w.standing(web); !slices.Equal(got, []string{"at-size"}) {
			t.Errorf("conditions %v before anything is known", got)
		}
		learnt.Store(true)
		w.shard().Reevaluate()
		w.settle(time.Second)
		if got := w.standing(web); !slices.Equal(got, []string{"at-size", "type-mismatch"}) {
			t.Errorf("conditions %v", got)
		}
		if text := w.conditions(web); !strings.Contains(text, `machines of type "small" are not amd64`) {
			t.Errorf("conditions: %s", text)
		}
	})
}

// A file that cannot be made is a condition of the machine and of its group, until it
// can be made or the machine goes.
func TestFilesThatAreNotDeliveredAreACondition(t *testing.T) {
	supplied(t, func(t *testing.T, w *world, peer identity.Peer) {
		w.remove("secret/token")
		k := w.keep(peer)
		defer k.cut()
		k.report()
		w.settle(time.Second)
		if got := w.standing(web); !slices.Contains(got, "files-undelivered") {
			t.Fatalf("conditions %v", got)
		}
		var texts []string
		for _, c := range w.asked(web).Conditions {
			if c.Type == "files-undelivered" {
				texts = append(texts, c.Instance.String()+"/"+c.Message)
			}
		}
		slices.Sort(texts)
		id := peer.ID.String()
		if len(texts) != 2 || !strings.HasPrefix(texts[0], "/1 lack files; "+id+": file token, on the server: ") ||
			!strings.HasPrefix(texts[1], id+"/file token, on the server: ") {
			t.Errorf("explained as %q", texts)
		}
		if err := w.secrets.Put(t.Context(), "token", secrets.Secret("t2"), secrets.Overwrite); err != nil {
			t.Fatal(err)
		}
		w.settle(10 * time.Minute)
		k.report()
		w.settle(time.Second)
		if got := w.standing(web); slices.Contains(got, "files-undelivered") {
			t.Errorf("conditions %v when the secret is there", got)
		}
	})
}

// So is one that the machine cannot put in place.
func TestFilesThatTheMachineRefusesAreACondition(t *testing.T) {
	supplied(t, func(t *testing.T, w *world, peer identity.Peer) {
		k := w.keep(peer)
		defer k.cut()
		r := report(peer.ID, 1)
		r.GetReport().Files = map[string]*nstancev1.FileStatus{
			"token": {State: &nstancev1.FileStatus_Error{Error: "disk full"}},
		}
		k.say(r)
		w.settle(time.Second)
		if text := w.conditions(web); !strings.Contains(text, "file token, on the machine: disk full") {
			t.Errorf("conditions: %s", text)
		}
		w.deleteInstance(peer.ID.String(), false)
		w.settle(time.Minute)
		if got := w.standing(web); slices.Contains(got, "files-undelivered") {
			t.Errorf("conditions %v when the machine is gone", got)
		}
	})
}
