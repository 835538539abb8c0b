package live_test

import (
	"errors"
	"testing"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/driver/drivertest/live"
)

// TestBudget: a machine is paid for once, however often it is asked for, one more than
// the budget has is refused, and all end with the test that made them.
func TestBudget(t *testing.T) {
	t.Setenv("TEST_MAX_MACHINES", "2")
	b := live.NewBudget(t, "TEST_MAX_MACHINES")
	cloud := drivertest.New(drivertest.Options{})
	var first, third error
	t.Run("spend", func(t *testing.T) {
		create := func(id identity.ID) error {
			_, err := b.Create(t.Context(), t, cloud, driver.CreateRequest{
				InstanceID: id, Owner: driver.Owner{Cluster: "suite", Shard: "one"}, Tenant: "default", Group: "web", Kind: "knc",
			})
			return err
		}
		one := newID(t)
		first = errors.Join(create(one), create(one), create(newID(t)))
		third = create(newID(t))
		if n := cloud.Created(); n != 2 {
			t.Errorf("%d machines were made, want 2", n)
		}
	})
	if first != nil || !errors.Is(third, live.ErrSpent) || driver.ClassOf(third) != driver.Quota {
		t.Errorf("within the budget: %v; beyond it: %v", first, third)
	}
	for _, vm := range cloud.Machines() {
		if !vm.Status.Down() {
			t.Errorf("%s is %s after the test", vm.InstanceID, vm.Status)
		}
	}
}

func newID(t *testing.T) identity.ID {
	t.Helper()
	id, err := identity.NewID("knc")
	if err != nil {
		t.Fatal(err)
	}
	return id
}
