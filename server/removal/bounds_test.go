package removal

import (
	"testing"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
)

var web = fleet.GroupID{Tenant: "default", Name: "web"}

func TestWindow(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &window{span: time.Minute}
	if room, next := w.room(2, start); room != 2 || !next.IsZero() {
		t.Errorf("an empty window: %d, %v", room, next)
	}
	w.add(start)
	w.add(start.Add(10 * time.Second))
	w.add(start.Add(20 * time.Second)) // beyond the bound, and counted
	if room, next := w.room(2, start.Add(30*time.Second)); room != 0 || !next.Equal(start.Add(time.Minute)) {
		t.Errorf("a full window: %d, %v", room, next)
	}
	if room, _ := w.room(2, start.Add(time.Minute)); room != 0 {
		t.Errorf("room %d with two of two counted", room)
	}
	if room, _ := w.room(2, start.Add(75*time.Second)); room != 1 {
		t.Errorf("room %d with one of two counted", room)
	}
}

// TestS8_NewLeaderBeginsWithoutRoom: what the last one did in its last minute counts
// too, and nobody knows it.
func TestS8_NewLeaderBeginsWithoutRoom(t *testing.T) {
	w := &window{span: time.Minute}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.shutFor(now)
	if room, next := w.room(5, now.Add(59*time.Second)); room != 0 || !next.Equal(now.Add(time.Minute)) {
		t.Errorf("room for %d, more at %v", room, next)
	}
	if w.take(5, now.Add(59*time.Second)) {
		t.Error("something began within the minute")
	}
	if room, _ := w.room(5, now.Add(time.Minute)); room != 5 {
		t.Errorf("room for %d after the minute, want 5", room)
	}
	w.take(5, now.Add(time.Minute))
	w.ended(now.Add(time.Minute), now.Add(70*time.Second))
	if room, next := w.room(5, now.Add(125*time.Second)); room != 4 || !next.Equal(now.Add(130*time.Second)) {
		t.Errorf("room for %d, more at %v: a minute counts from the end", room, next)
	}
}

// TestS8_DeletionsOfTheShardAndOfGroups: what goes counts for both, and what one of the
// two has no room for counts for neither.
func TestS8_DeletionsOfTheShardAndOfGroups(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	other := fleet.GroupID{Tenant: "default", Name: "db"}
	d := newDeletions()
	took := func(want bool, group fleet.GroupID, shard, own int) {
		t.Helper()
		if got := d.take(group, shard, own, now); got != want {
			t.Errorf("%s: taken is %t, want %t (bounds %d and %d)", group.Name, got, want, shard, own)
		}
	}
	took(true, web, 4, 2)
	took(true, web, 4, 2)
	took(false, web, 4, 2)
	took(true, other, 4, -1)
	took(true, other, 4, 2)
	took(false, other, 4, 9)
	took(false, web, 9, 2)
	d.ended(web, now, now.Add(time.Second))
	if left, next, own := d.room(web, 4, 2, now.Add(time.Second)); left != 0 || !own.Limited || own.Left != 0 || !next.Equal(own.Next) || !own.Next.Equal(now.Add(time.Minute)) {
		t.Errorf("left %d, next %v, own %+v", left, next, own)
	}
	if left, _, own := d.room(web, 4, 2, now.Add(time.Minute)); left != 3 || own.Left != 1 {
		t.Errorf("a minute later: left %d, own %+v; one removal ended a second after the first", left, own)
	}
	if left, next, own := d.room(web, 4, -1, now.Add(time.Hour)); left != 4 || !next.IsZero() || own.Limited {
		t.Errorf("an hour later: left %d, next %v, own %+v", left, next, own)
	}
	if _, _, own := d.room(other, 4, 1, now.Add(time.Hour)); own.Left != 1 || len(d.own) != 1 {
		t.Errorf("own %+v, counts of %d groups are kept, want that of the one that is asked for", own, len(d.own))
	}
}

// TestS8_F37_NamedMachinesLeaveLessRoomToTheirGroup: those of a deleted group go beside those that were named, not on top of
// them; other groups have the shard's whole bound.
func TestS8_F37_NamedMachinesLeaveLessRoomToTheirGroup(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	other := fleet.GroupID{Tenant: "default", Name: "db"}
	d := newDeletions()
	for range 3 {
		d.name(web, now)
	}
	if left, next, _ := d.room(web, 4, -1, now.Add(time.Second)); left != 1 || !next.Equal(now.Add(time.Minute)) {
		t.Errorf("left %d, next %v", left, next)
	}
	if !d.take(web, 4, -1, now) {
		t.Error("the one that is left is not taken")
	}
	d.name(web, now.Add(30*time.Second))
	if left, _, _ := d.room(web, 4, -1, now.Add(31*time.Second)); left != 0 || d.take(web, 4, -1, now.Add(31*time.Second)) {
		t.Errorf("left %d, want none, and none is taken", left)
	}
	if left, _, _ := d.room(other, 4, -1, now.Add(31*time.Second)); left != 3 || !d.take(other, 4, -1, now.Add(31*time.Second)) {
		t.Errorf("another group: left %d", left)
	}
	if left, _, _ := d.room(web, 4, -1, now.Add(60*time.Second)); left != 3 {
		t.Errorf("when the first are a minute old: left %d", left)
	}
}

// TestS8_OwnBoundOfAGroup: a share of its machines, of which those that leave still are and
// those on demand are not, and one machine at the least.
func TestS8_OwnBoundOfAGroup(t *testing.T) {
	with := func(share document.Percent) *effective.Group {
		return &effective.Group{Dynamic: &groupfile.Entry{Rails: &document.GroupRails{MaxDeleteShare: &share}}}
	}
	members := []fleet.Instance{
		{State: fleet.Running, Power: fleet.Up, OnDemand: true}, {State: fleet.Running, Power: fleet.Up}, {State: fleet.Pending},
		{State: fleet.Draining, Power: fleet.Up}, {State: fleet.Deleting, Power: fleet.Up}, {State: fleet.Deleting, Power: fleet.Gone},
	}
	for name, c := range map[string]struct {
		group *effective.Group
		want  int
	}{
		"a group that is gone":       {nil, -1},
		"a group without a share":    {&effective.Group{}, -1},
		"half of four":               {with(50), 2},
		"a share of less than one":   {with(1), 1},
		"all of them, and no others": {with(100), 4},
	} {
		if got := ownDeletionBound(c.group, members); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
