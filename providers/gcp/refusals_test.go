package gcp_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/providers/gcp"
	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver"
)

// What a create is refused for decides what the server does about it.
func TestRefusedCreates(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse func(*world)
		want   driver.ErrorClass
	}{
		// A constraint of the organization does not pass by itself.
		"by a constraint": {func(w *world) { w.Forbid("constraints/compute.vmExternalIpAccess") }, driver.Invalid},
		// S21: the same call would get the answer of the same operation for ever.
		"by an operation that was throttled": {func(w *world) { w.Fail("RATE_LIMIT_EXCEEDED") }, driver.Transient},
		"by an operation over a new quota":   {func(w *world) { w.Fail("QUOTA_FOR_SOMETHING") }, driver.Quota},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, w *world, d *gcp.Driver) {
				tt.refuse(w)
				if _, err := d.Create(t.Context(), request(t)); driver.ClassOf(err) != tt.want {
					t.Errorf("create: %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// A role from before disks had labels still makes machines.
func TestDisksWithoutTheirPermission(t *testing.T) {
	old := slices.DeleteFunc(role(t), func(p string) bool { return p == "compute.disks.setLabels" })
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		for range 2 {
			if _, err := d.Create(t.Context(), request(t)); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.Permissions(); slices.Contains(got, "compute.disks.setLabels") {
			t.Errorf("labels were set without the permission: %q", got)
		}
	}, func(o *gcpfake.Options) { o.Permissions = old })
}

// L3: a machine that does not run says why.
func TestL3_MachineThatEndedHasAReason(t *testing.T) {
	within(t, func(t *testing.T, w *world, d *gcp.Driver) {
		req := request(t)
		if m, err := d.Create(t.Context(), req); err != nil || m.Reason != "" {
			t.Fatalf("%+v, %v", m, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		w.Kill(string(req.InstanceID))
		m, err := d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
		if err != nil || m.Reason != "Instance terminated by guest OS shutdown." {
			t.Errorf("%+v, %v", m, err)
		}
	})
}
