package fleet_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// TestE8_FleetLeavesDemandToDemand: of a group whose machines follow from demand nothing is made,
// nothing goes for the sake of a size, an age or a configuration, and what goes had to go at once.
func TestE8_FleetLeavesDemandToDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.view.Group.Demand, w.view.Group.Deleted, w.view.Group.Retired = true, false, nil
		decision := fleet.Plan(w.view, w.now)
		for _, action := range decision.Actions {
			switch a := action.(type) {
			case fleet.Create:
				t.Fatalf("%+v in a group of mode demand", a)
			case fleet.Condemn:
				i := slices.IndexFunc(w.view.Instances, func(in fleet.Instance) bool { return in.ID == a.ID })
				in := w.view.Instances[i]
				if !in.State.Sick() && !in.Notice.Given() && !in.ReplaceFirst && !in.OnDemand && in.Condemning == "" {
					t.Fatalf("%+v goes: %+v", in, a)
				}
			}
		}
	})
}

func TestPressingInstancesOfADemandGroup(t *testing.T) {
	in := func(id identity.ID, change func(*fleet.Instance)) fleet.Instance {
		one := fleet.Instance{ID: id, Group: web, State: fleet.Running, Power: fleet.Up, Created: epoch.Add(-time.Hour), Reported: true, InfraHash: "old"}
		change(&one)
		return one
	}
	sick := func(power fleet.Power) func(*fleet.Instance) {
		return func(one *fleet.Instance) {
			one.State, one.Power, one.Verdict = fleet.Unhealthy, power, fleet.ReasonUnhealthy
		}
	}
	view := fleet.View{
		Group: fleet.Group{ID: web, Demand: true, InfraHash: "new"}, MaxRepairs: 1,
		Aging: fleet.Aging{Eligible: time.Minute, Forced: 2 * time.Minute},
		Instances: []fleet.Instance{
			in("i01", func(*fleet.Instance) {}), in("i02", sick(fleet.Up)), in("i03", sick(fleet.Up)), in("i04", sick(fleet.Gone)),
			in("i05", func(one *fleet.Instance) { one.Notice = fleet.Notice{Action: "terminate"} }),
		},
	}
	var gone []identity.ID
	for _, action := range fleet.Plan(view, epoch).Actions {
		gone = append(gone, action.(fleet.Condemn).ID)
	}
	if want := []identity.ID{"i04", "i05", "i02"}; !slices.Equal(gone, want) {
		t.Errorf("condemned %v, want %v: what is lost, what is taken back, and one of those that may work", gone, want)
	}
	view.Group.Demand, view.Group.Deleted, view.Deletes = true, true, -1
	condemned := 0
	for _, action := range fleet.Plan(view, epoch).Actions {
		if _, ok := action.(fleet.Condemn); ok {
			condemned++
		}
	}
	if condemned != len(view.Instances) {
		t.Errorf("%d of %d are condemned in a group that is deleted", condemned, len(view.Instances))
	}
}
