package shard

import (
	"strings"
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// TestL3_FailedLaunchSaysWhy: whoever looks at a group whose launches fail
// finds the provider's own reason, until a machine lasts.
func TestL3_FailedLaunchSaysWhy(t *testing.T) {
	const reason = "Client.InternalError: Client error on launch"
	for name, end := range map[string]func(*world, driver.Machine) bool{
		"the machine is shown as failed":     func(w *world, m driver.Machine) bool { return w.cloud.Break(m.InstanceID, reason+"\n") },
		"the machine is remembered as ended": func(w *world, m driver.Machine) bool { return w.cloud.Abort(m.InstanceID, reason) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
				w.scale(web, 1)
				w.settle(30 * time.Second)
				for _, vm := range w.vms(web) {
					if !end(w, vm.Machine) {
						t.Fatal("there is no machine")
					}
				}
				w.settle(time.Minute)
				if text := w.conditions(web); !strings.Contains(text, "failed-launch: ") || !strings.Contains(text, reason) {
					t.Errorf("after one failure the conditions are %s", text)
				}
				if errs := w.errors(web); !strings.Contains(errs, "failed-launch: the machine does not run: "+reason) {
					t.Errorf("the errors are %s", errs)
				}
				for range 120 {
					for _, vm := range w.vms(web) {
						end(w, vm.Machine)
					}
					w.settle(30 * time.Second)
					if strings.Contains(w.conditions(web), "crash-looping") {
						break
					}
				}
				if text := w.conditions(web); !holdsBoth(text, "crash-looping: ", reason) {
					t.Errorf("the group that gave up says %s", text)
				}
				if errs := w.errors(web); !holdsBoth(errs, "crash-looping: ", "the last one: ") {
					t.Errorf("the errors are %s", errs)
				}
				w.settle(75 * time.Minute) // a machine lasts
				w.converged(1)
				if text := w.conditions(web); strings.Contains(text, reason) {
					t.Errorf("after a machine has lasted the conditions are %s", text)
				}
			})
		})
	}
}

// holdsBoth reports whether one entry of a joined text has both words.
func holdsBoth(text, one, other string) bool {
	for entry := range strings.SplitSeq(text, "\n") {
		for part := range strings.SplitSeq(entry, "; failed-launch") {
			if strings.Contains(part, one) && strings.Contains(part, other) {
				return true
			}
		}
	}
	return false
}

// errors are those that the tenant of a group can read, one a line.
func (w *world) errors(group fleet.GroupID) string {
	var all []string
	for _, e := range w.term().planner.cache.Errors(group.Tenant) {
		all = append(all, e.Error)
	}
	return strings.Join(all, "\n")
}
