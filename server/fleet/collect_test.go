package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

var lagOfAMinute = fleet.CollectOptions{Lag: time.Minute}

func knownRunning(n int) []fleet.Known {
	var all []fleet.Known
	for i := range n {
		all = append(all, fleet.Known{
			ID: poolID(i), State: fleet.Running, Power: fleet.Up, ProviderID: "vm-" + string(poolID(i)), Created: at(-time.Hour),
		})
	}
	return all
}

func vmsOf(known []fleet.Known) []fleet.SeenVM {
	var all []fleet.SeenVM
	for _, k := range known {
		all = append(all, fleet.SeenVM{ID: k.ID, RawID: string(k.ID), ProviderID: "vm-" + string(k.ID), Presence: fleet.PresenceUp})
	}
	return all
}

func matchesOf(known []fleet.Known) []fleet.Match {
	var all []fleet.Match
	for _, k := range known {
		all = append(all, fleet.Match{ID: k.ID, ProviderID: "vm-" + string(k.ID), Presence: fleet.PresenceUp})
	}
	return all
}

// collect runs one pass with the memory of the ones before.
func collect(m *fleet.Memory, l fleet.Listing, known []fleet.Known) fleet.Collection {
	c, next := fleet.Collect(l, known, *m, lagOfAMinute)
	*m = next
	return c
}

func wantCollection(t *testing.T, what string, got, want fleet.Collection) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestCollectQuiet(t *testing.T) {
	known := knownRunning(3)
	got := collect(new(fleet.Memory), fleet.Listing{At: epoch, VMs: vmsOf(known)}, known)
	wantCollection(t, "all there", got, fleet.Collection{Matches: matchesOf(known)})
}

func TestCollectFindsTheVMOfALostCreate(t *testing.T) {
	known := []fleet.Known{{ID: poolID(0), State: fleet.Pending, Created: epoch}}
	got := collect(new(fleet.Memory), fleet.Listing{At: epoch, VMs: vmsOf(known)}, known)
	wantCollection(t, "pending", got, fleet.Collection{Matches: matchesOf(known)})
}

func TestL5_OrphanGoesAtTheSecondSight(t *testing.T) {
	var m fleet.Memory
	vm := fleet.SeenVM{ID: poolID(7), RawID: string(poolID(7)), ProviderID: "vm-7", Presence: fleet.PresenceUp}
	l := fleet.Listing{At: epoch, VMs: []fleet.SeenVM{vm}}
	wantCollection(t, "unknown", collect(&m, l, nil), fleet.Collection{Unread: []identity.ID{poolID(7)}})
	l.Records = map[identity.ID]fleet.Record{poolID(7): fleet.RecordTombstone}
	wantCollection(t, "first sight", collect(&m, l, nil), fleet.Collection{})
	l.VMs[0].Presence = fleet.PresenceDown
	wantCollection(t, "second sight", collect(&m, l, nil), fleet.Collection{Orphans: l.VMs})
	wantCollection(t, "not there", collect(&m, fleet.Listing{At: epoch}, nil), fleet.Collection{})
	wantCollection(t, "first sight again", collect(&m, l, nil), fleet.Collection{})
}

func TestL5_DeletedInstanceWithAVMIsAnOrphan(t *testing.T) {
	var m fleet.Memory
	known := []fleet.Known{{ID: poolID(0), State: fleet.Deleted, Created: at(-time.Hour)}}
	l := fleet.Listing{At: epoch, VMs: vmsOf(known), Records: map[identity.ID]fleet.Record{poolID(0): fleet.RecordTombstone}}
	collect(&m, l, known)
	wantCollection(t, "second sight", collect(&m, l, known), fleet.Collection{Orphans: l.VMs})
}

// TestF29_StrangersAreHeld: what cannot be tied to a record is reported and
// never deleted, however often it is seen.
func TestF29_StrangersAreHeld(t *testing.T) {
	malformed := fleet.SeenVM{RawID: "who?", ProviderID: "vm-x", Presence: fleet.PresenceUp}
	none := fleet.SeenVM{ID: poolID(1), ProviderID: "vm-1"}
	unreadable := fleet.SeenVM{ID: poolID(2), ProviderID: "vm-2"}
	live := fleet.SeenVM{ID: poolID(3), ProviderID: "vm-3"}
	l := fleet.Listing{
		At:  epoch,
		VMs: []fleet.SeenVM{live, unreadable, none, malformed},
		Records: map[identity.ID]fleet.Record{
			poolID(1): fleet.RecordNone, poolID(2): fleet.RecordUnreadable, poolID(3): fleet.RecordLive,
		},
	}
	want := fleet.Collection{
		Restore: []identity.ID{poolID(3)},
		Unmanaged: []fleet.UnmanagedVM{
			{VM: malformed, Cause: fleet.CauseBadID, Why: `its instance id tag "who?" is missing, malformed or copied from another machine`},
			{VM: none, Cause: fleet.CauseNoRecord, Why: "there is no record of its instance"},
			{VM: unreadable, Cause: fleet.CauseUnreadable, Why: "the record of its instance is unreadable"},
		},
	}
	var m fleet.Memory
	for i := range 3 {
		wantCollection(t, fmt.Sprintf("pass %d", i), collect(&m, l, nil), want)
	}
}

func TestS5_SecondVMOfAnInstanceIsHeld(t *testing.T) {
	known := knownRunning(1)
	other := fleet.SeenVM{ID: poolID(0), ProviderID: "a-clone", Presence: fleet.PresenceUp}
	got := collect(new(fleet.Memory), fleet.Listing{At: epoch, VMs: append(vmsOf(known), other)}, known)
	wantCollection(t, "two VMs", got, fleet.Collection{
		Matches:   matchesOf(known),
		Unmanaged: []fleet.UnmanagedVM{{VM: other, Cause: fleet.CauseSecondVM, Why: "instance i00 already has the VM vm-i00"}},
	})
}

func TestF20_LaggingListing(t *testing.T) {
	known := []fleet.Known{
		{ID: poolID(0), State: fleet.Provisioning, Power: fleet.Up, Created: at(-59 * time.Second)},
		{ID: poolID(1), State: fleet.Deleting, Created: at(-59 * time.Second)},
	}
	var m fleet.Memory
	wantCollection(t, "within the lag", collect(&m, fleet.Listing{At: epoch}, known), fleet.Collection{})
	wantCollection(t, "after it", collect(&m, fleet.Listing{At: at(time.Second)}, known), fleet.Collection{
		Absent: []identity.ID{poolID(0)}, Gone: []identity.ID{poolID(1)},
	})
}

// TestF21_EmptyListing: an empty listing deletes nothing and finds nobody gone;
// each loss is believed only after a second listing and its own Get.
func TestF21_EmptyListing(t *testing.T) {
	var m fleet.Memory
	known := append(knownRunning(8), fleet.Known{ID: poolID(9), State: fleet.Deleting, Created: at(-time.Hour)})
	alarm := "the provider's listing lacks 8 of 8 machines that should be there: nothing is deleted until each is confirmed"

	wantCollection(t, "first listing", collect(&m, fleet.Listing{At: epoch}, known), fleet.Collection{Alarm: alarm})
	wantCollection(t, "too soon", collect(&m, fleet.Listing{At: at(29 * time.Second)}, known), fleet.Collection{Alarm: alarm})
	got := collect(&m, fleet.Listing{At: at(30 * time.Second)}, known)
	if got.Alarm != alarm || len(got.Confirm) != 8 || len(got.Absent)+len(got.Gone)+len(got.Orphans) != 0 {
		t.Errorf("second listing: %+v", got)
	}

	// Get finds five of them gone for good; the other three show up again.
	for i := range 5 {
		known[i].State, known[i].Power = fleet.Unhealthy, fleet.Gone
	}
	got = collect(&m, fleet.Listing{At: at(time.Minute), VMs: vmsOf(known[5:8])}, known)
	if got.Alarm != "" || len(got.Matches) != 3 || len(got.Absent) != 5 || len(got.Gone) != 1 {
		t.Errorf("after the proof: %+v", got)
	}
}

// TestS20F21_MachinesThatDrainAreMissedToo: most machines of a shard may be on their way out,
// and a listing without them ends no drain.
func TestS20F21_MachinesThatDrainAreMissedToo(t *testing.T) {
	for _, c := range []struct {
		state fleet.State
		power fleet.Power
	}{
		{fleet.Condemned, fleet.Up},
		{fleet.Draining, fleet.Up},
		{fleet.Draining, fleet.NoVM}, // after a change of leader
	} {
		known := knownRunning(7)
		for i := range 6 {
			known[i].State, known[i].Power = c.state, c.power
		}
		var m fleet.Memory
		for i := range 3 {
			got := collect(&m, fleet.Listing{At: at(time.Duration(i) * 30 * time.Second)}, known)
			if !strings.Contains(got.Alarm, "7 of 7") || len(got.Absent)+len(got.Gone) != 0 || (len(got.Confirm) == 7) != (i > 0) {
				t.Errorf("%s, power %v, listing %d: %+v", c.state, c.power, i, got)
			}
		}
		for i := range 6 {
			known[i].Power = fleet.Gone // as the provider has confirmed of each
		}
		if got := collect(&m, fleet.Listing{At: at(2 * time.Minute), VMs: vmsOf(known[6:])}, known); got.Alarm != "" {
			t.Errorf("%s, power %v: all are confirmed gone, and the alarm stays: %s", c.state, c.power, got.Alarm)
		}
	}
}

func TestF21_BrakeThreshold(t *testing.T) {
	for _, c := range []struct {
		live, missing int
		alarm         bool
	}{
		{3, 3, false}, {4, 4, true}, {10, 3, false}, {12, 3, false}, {12, 4, true},
	} {
		known := knownRunning(c.live)
		got := collect(new(fleet.Memory), fleet.Listing{At: epoch, VMs: vmsOf(known[c.missing:])}, known)
		if (got.Alarm != "") != c.alarm {
			t.Errorf("%d of %d missing: alarm %q", c.missing, c.live, got.Alarm)
		}
		if want := c.missing; !c.alarm && len(got.Absent) != want || c.alarm && len(got.Absent) != 0 {
			t.Errorf("%d of %d missing: absent %v", c.missing, c.live, got.Absent)
		}
	}
}

// TestF21_YoungMachinesAreNotLost: a scale-up that no listing shows yet neither
// raises the alarm nor hides a loss among its numbers.
func TestF21_YoungMachinesAreNotLost(t *testing.T) {
	known := knownRunning(12)
	for i := 4; i < 12; i++ {
		known[i].State, known[i].Created = fleet.Provisioning, epoch
	}
	if got := collect(new(fleet.Memory), fleet.Listing{At: epoch, VMs: vmsOf(known[:4])}, known); got.Alarm != "" {
		t.Errorf("young ones: %q", got.Alarm)
	}
	for i := range 4 {
		known = append(known, fleet.Known{ID: poolID(20 + i), State: fleet.Provisioning, Power: fleet.Up, Created: epoch})
	}
	if got := collect(new(fleet.Memory), fleet.Listing{At: epoch}, known); got.Alarm == "" {
		t.Error("four of four that should show are missing: no alarm")
	}
}

// TestF21_BadStatusIsNoLoss: machines that the listing shows as down are not
// missing.
func TestF21_BadStatusIsNoLoss(t *testing.T) {
	known := knownRunning(8)
	vms := vmsOf(known)
	for i := range vms {
		vms[i].Presence = fleet.PresenceDown
	}
	got := collect(new(fleet.Memory), fleet.Listing{At: epoch, VMs: vms}, known)
	if got.Alarm != "" || len(got.Matches) != 8 {
		t.Errorf("%+v", got)
	}
}

func TestF21_BrakeHoldsOrphans(t *testing.T) {
	var m fleet.Memory
	vm := fleet.SeenVM{ID: poolID(11), ProviderID: "vm-11", Presence: fleet.PresenceUp}
	l := fleet.Listing{At: epoch, VMs: []fleet.SeenVM{vm}, Records: map[identity.ID]fleet.Record{poolID(11): fleet.RecordTombstone}}
	known := knownRunning(8)
	for i := range 3 {
		l.At = at(time.Duration(i) * time.Minute)
		if got := collect(&m, l, known); len(got.Orphans) != 0 || !strings.Contains(got.Alarm, "8 of 8") {
			t.Errorf("pass %d: %+v", i, got)
		}
	}
}

// TestCollectIsPure: neither order nor repetition shows in the answer, nothing
// is both kept and deleted, and an alarm deletes nothing (S4, S8).
func TestCollectIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m fleet.Memory
		for pass := range rapid.IntRange(1, 4).Draw(t, "passes") {
			l := fleet.Listing{At: at(time.Duration(pass) * 20 * time.Second), Records: map[identity.ID]fleet.Record{}}
			var known []fleet.Known
			for i := range poolSize {
				if rapid.Bool().Draw(t, "known") {
					known = append(known, fleet.Known{
						ID: poolID(i), State: rapid.SampledFrom(fleet.States()).Draw(t, "state"),
						Power:   fleet.Power(rapid.IntRange(0, 3).Draw(t, "power")),
						Created: at(-time.Duration(rapid.IntRange(0, 120).Draw(t, "age")) * time.Second),
					})
				}
				for range rapid.IntRange(0, 2).Draw(t, "vms") {
					l.VMs = append(l.VMs, fleet.SeenVM{ID: poolID(i), ProviderID: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "vm"))})
				}
				l.Records[poolID(i)] = fleet.Record(rapid.IntRange(0, 4).Draw(t, "record"))
			}
			want, next := fleet.Collect(l, known, m, lagOfAMinute)
			l.VMs = rapid.Permutation(l.VMs).Draw(t, "order")
			got, _ := fleet.Collect(l, rapid.Permutation(known).Draw(t, "known order"), m, lagOfAMinute)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("order shows:\n%s", diff)
			}
			checkCollection(t, l, known, got)
			m = next
		}
	})
}

func checkCollection(t *rapid.T, l fleet.Listing, known []fleet.Known, c fleet.Collection) {
	for _, vm := range c.Orphans {
		if l.Records[vm.ID] != fleet.RecordTombstone {
			t.Fatalf("S6: %+v is no orphan", vm)
		}
		for _, k := range known {
			if k.ID == vm.ID && k.State != fleet.Deleted {
				t.Fatalf("S6: %+v belongs to an instance that is %s", vm, k.State)
			}
		}
	}
	if c.Alarm != "" && len(c.Orphans)+len(c.Gone)+len(c.Absent) > 0 {
		t.Fatalf("S8: an alarm, and yet %+v", c)
	}
	if c.Alarm == "" && len(c.Confirm) > 0 {
		t.Fatalf("to confirm without an alarm: %v", c.Confirm)
	}
}
