package machine

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Of one group at most ten instances, or a quarter of a large one, are asked to end in a
// minute; other groups have their own.
func TestF37_S8_APaceOfDeletionsByName(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	web, db := inventory.ShardGroup{Shard: "a", Group: "web"}, inventory.ShardGroup{Shard: "a", Group: "db"}
	for _, test := range []struct{ there, want int }{{1, 10}, {40, 10}, {100, 25}} {
		var p pace
		took := 0
		for p.take(web, test.there, nil, start) { // the group replaces them
			took++
		}
		if took != test.want {
			t.Errorf("of %d, %d were asked to end at once, want %d", test.there, took, test.want)
		}
		if wait := p.wait(web, test.there, nil, start.Add(20*time.Second)); wait != 40*time.Second {
			t.Errorf("of %d, the next waits for %v, want 40s", test.there, wait)
		}
		if !p.take(db, 1, nil, start) || !p.take(web, test.there, nil, start.Add(time.Minute)) {
			t.Error("another group, or the next minute, waits")
		}
	}
}

// A process that begins again counts what an earlier one has asked for: a crash loop must not
// end a whole group, ten instances at a time.
func TestF37_S8_ThePaceOutlivesTheProcess(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	store := inventory.NewStore("default", nil)
	store.Configure([]string{"a"})
	m := &infrav1.NstanceMachine{}
	m.Spec.Shard, m.Spec.GroupRef.Name = "a", "web"
	restart := func(now time.Time) *Reconciler {
		return New(Options{Inventory: store, Now: func() time.Time { return now }})
	}
	if restart(start).take(m) {
		t.Error("an instance ends before it is known what an earlier process has asked for")
	}
	list := inventory.InstanceList{Complete: true, Asked: start}
	for i := range 40 {
		in := &nstancev1.InstanceStatus{InstanceId: fmt.Sprint(i), Tenant: "default", Group: "web", CreatedAt: timestamppb.New(start.Add(-time.Hour))}
		switch {
		case i < 4: // asked for
			in.Condemned = &nstancev1.Condemned{Reason: "requested", DeleteAt: timestamppb.New(start.Add(-10 * time.Second))}
		case i < 7: // made for what is gone
			in.CreatedAt = timestamppb.New(start.Add(-20 * time.Second))
		case i < 9:
			in.CreatedAt, in.OnDemand = timestamppb.New(start.Add(-20*time.Second)), true
		}
		list.Instances = append(list.Instances, in)
	}
	store.Update("a", func(s *inventory.Shard) []inventory.Change {
		return append(s.Connected(1, start), s.ListedInstances(list, start)...)
	})
	for name, c := range map[string]struct {
		at   time.Time
		want int
	}{"at once": {start, 3}, "when what made up for the first is a minute old": {start.Add(45 * time.Second), 6}, "after a minute": {start.Add(time.Minute), 10}} {
		r, took := restart(c.at), 0
		for r.take(m) {
			took++
		}
		if took != c.want {
			t.Errorf("%s: %d more are asked to end, want %d", name, took, c.want)
		}
	}
}

// What a shard ends because the group was deleted counts too, also after this process began, and as of now while it is drained.
func TestF37_S8_ThePaceCountsWhatTheDeletionOfTheGroupEnds(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	store := inventory.NewStore("default", nil)
	store.Configure([]string{"a"})
	list := inventory.InstanceList{Complete: true, Asked: start}
	for i := range 20 {
		in := &nstancev1.InstanceStatus{InstanceId: fmt.Sprint(i), Tenant: "default", Group: "web", CreatedAt: timestamppb.New(start.Add(-time.Hour))}
		if i < 7 {
			in.Condemned = &nstancev1.Condemned{Reason: reasonGroupDeleted, DeleteAt: timestamppb.New(start.Add(time.Duration(10*i) * time.Second))}
		}
		list.Instances = append(list.Instances, in)
	}
	store.Update("a", func(s *inventory.Shard) []inventory.Change {
		return append(s.Connected(1, start), s.ListedInstances(list, start)...)
	})
	m := &infrav1.NstanceMachine{}
	m.Spec.Shard, m.Spec.GroupRef.Name = "a", "web"
	r, took := New(Options{Inventory: store, Now: func() time.Time { return start.Add(time.Second) }}), 0
	for r.take(m) {
		took++
	}
	if took != 3 {
		t.Errorf("%d more are asked to end beside 7 that go with their group, want 3", took)
	}
}
