package inventory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// story is a shard that a test carries through time, a second each step.
type story struct {
	*Shard
	t   *testing.T
	now time.Time
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{Shard: NewShard("acme"), t: t, now: start}
	s.Connected(1, s.now)
	return s
}

func (s *story) after(d time.Duration) *story { s.now = s.now.Add(d); return s }

func running(id string, revision int64) *nstancev1.InstanceStatus {
	return &nstancev1.InstanceStatus{InstanceId: id, Tenant: "acme", Group: "g", Status: StatusRunning, Revision: revision}
}

func eventOf(status, id string, revision int64) *nstancev1.InstanceEvent {
	return &nstancev1.InstanceEvent{InstanceId: id, Tenant: "acme", Group: "g", Status: status, Revision: revision}
}

// lists is a complete listing that is asked for and answered now.
func (s *story) lists(ids ...string) []Change { return s.listsAsked(s.now, ids...) }

func (s *story) listsAsked(asked time.Time, ids ...string) []Change {
	list := InstanceList{Complete: true, Asked: asked}
	for _, id := range ids {
		list.Instances = append(list.Instances, running(id, 1))
	}
	return s.ListedInstances(list, s.now)
}

// expect compares the instances that count.
func (s *story) expect(what string, ids ...string) {
	s.t.Helper()
	var got []string
	for _, i := range s.Instances("") {
		got = append(got, i.GetInstanceId())
	}
	if diff := cmp.Diff(ids, got); diff != "" {
		s.t.Errorf("%s: %s", what, diff)
	}
}

func wantChanges(t *testing.T, what string, got []Change, want ...Change) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func changed(id string) Change { return Change{Kind: InstanceChanged, Group: "g", Instance: id} }

func gone(id, why string) Change {
	return Change{Kind: InstanceGone, Group: "g", Instance: id, Why: why}
}

var shardChanged = Change{Kind: ShardChanged}

const lacks = Unlisted

func TestAbsenceFromACompleteListing(t *testing.T) {
	s := newStory(t)
	wantChanges(t, "the first listing", s.lists("i1", "i2"), changed("i1"), changed("i2"), shardChanged)
	s.after(time.Second)
	wantChanges(t, "one is missing", s.lists("i2"), gone("i1", lacks))
	if got := s.Presence("i1"); got != Gone {
		t.Errorf("presence %s", got)
	}
	s.after(time.Second)
	wantChanges(t, "it was an error: it is listed again", s.lists("i1", "i2"), changed("i1"))
}

func TestAbsenceProvesNothing(t *testing.T) {
	s := newStory(t)
	s.lists("i1", "i2")
	s.after(time.Second).ListedInstances(InstanceList{Instances: []*nstancev1.InstanceStatus{running("i3", 1)}, Asked: s.now}, s.now)
	s.expect("an incomplete listing only adds", "i1", "i2", "i3")

	asked := s.now
	s.after(time.Second).InstanceEvent(eventOf("created", "i4", 2), s.now)
	s.after(time.Second).listsAsked(asked, "i1", "i2", "i3")
	s.expect("what was heard of after the question is not missing", "i1", "i2", "i3", "i4")

	asked = s.now
	s.after(time.Second).Connected(2, s.now)
	s.after(time.Second).listsAsked(asked, "i1")
	s.expect("the answer is for an earlier connection", "i1", "i2", "i3", "i4")
	if s.State().Synced() || s.State().InstancesSynced {
		t.Error("synced by the answer for an earlier connection")
	}
}

// What a shard had counts as before while nobody can see it.
func TestO7_OutOfSightIsNotGone(t *testing.T) {
	s := newStory(t)
	s.ListedGroups(GroupList{Groups: []*nstancev1.GroupStatus{{Key: "g", Tenant: "acme"}}, Asked: s.now}, s.now)
	s.lists("i1")
	s.after(time.Minute).Lost()
	s.expect("lost", "i1")
	for id, want := range map[string]Presence{"i1": Present, "other": Unknown} {
		if got := s.Presence(id); got != want {
			t.Errorf("lost: %s is %s, want %s", id, got, want)
		}
	}
	for key, want := range map[string]Presence{"g": Present, "other": Unknown} {
		if got := s.GroupPresence(key); got != want {
			t.Errorf("lost: group %s is %s, want %s", key, got, want)
		}
	}
	want := State{Term: 1, GroupsAt: start, InstancesAt: start}
	if diff := cmp.Diff(want, s.State()); diff != "" {
		t.Error(diff)
	}
	asked := s.now
	s.after(time.Second).ListedGroups(GroupList{Asked: asked}, s.now)
	s.lists()
	s.expect("lost, and answers that were on their way", "i1")
	if diff := cmp.Diff(want, s.State()); diff != "" || s.Presence("other") != Unknown || s.GroupPresence("g") != Present {
		t.Error("answers that were on their way count after the loss:", diff)
	}
	s.Connected(2, s.now)
	s.ListedInstances(InstanceList{Asked: s.now}, s.now) // the new leader rebuilds its cache
	s.expect("a new leader with an empty cache", "i1")
	if got := s.Presence("other"); got != Unknown {
		t.Errorf("a new leader with an empty cache: an unheard-of instance is %s", got)
	}
	s.after(time.Second).lists("i1")
	if got := s.Presence("other"); got != Gone {
		t.Errorf("listed anew: an unheard-of instance is %s", got)
	}
}

// A leader that has just begun, and whose provider has listed nothing yet, knows a machine by
// its record alone.
func TestS6_ALeaderThatDoesNotKnowAProviderIDTakesNoneAway(t *testing.T) {
	named := func(id, uri, provider string, revision int64) *nstancev1.InstanceStatus {
		in := running(id, revision)
		in.ProviderUri, in.ProviderInstanceId = uri, provider
		return in
	}
	whole := func(in *nstancev1.InstanceStatus) *nstancev1.InstanceEvent {
		e := eventOf("running", in.GetInstanceId(), in.GetRevision())
		e.Instance = in
		return e
	}
	s := newStory(t)
	s.Expect("i2", "g", "p:///2") // a machine remembers it from before
	list := func(all ...*nstancev1.InstanceStatus) {
		s.after(time.Second).ListedInstances(InstanceList{Instances: all, Complete: true, Asked: s.now}, s.now)
	}
	check := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, in := range s.Instances("") {
			got = append(got, in.GetProviderUri()+" "+in.GetProviderInstanceId())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	list(named("i1", "p:///1", "vm-1", 1), running("i2", 1), running("i3", 1))
	check("listed", "p:///1 vm-1", "p:///2 ", " ")
	s.Connected(2, s.now)
	list(running("i1", 2), running("i2", 2), running("i3", 2))
	check("by a leader that does not know", "p:///1 vm-1", "p:///2 ", " ")
	said := running("i1", 3)
	s.InstanceEvent(whole(said), s.now)
	check("its event", "p:///1 vm-1", "p:///2 ", " ")
	if said.GetProviderUri() != "" {
		t.Error("a message was changed that belongs to others")
	}
	s.InstanceEvent(whole(named("i1", "q:///1", "vm-one", 4)), s.now)
	list(named("i1", "q:///1", "vm-one", 4), named("i2", "p:///2", "vm-2", 4), named("i3", "p:///3", "vm-3", 4))
	check("by one that does", "q:///1 vm-one", "p:///2 vm-2", "p:///3 vm-3")
}

func many(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("i%03d", i))
	}
	return ids
}

func TestS8_TooManyAbsencesHaveToBeConfirmed(t *testing.T) {
	all := many(20)
	s := newStory(t)
	s.lists(all...)
	wantChanges(t, "six of twenty are missing", s.after(time.Minute).lists(all[6:]...),
		Change{Kind: Shrunken, Why: "6 of 20 instances are missing at once; they count until a listing 30s later lacks them too"}, shardChanged)
	s.expect("held", all...)
	if n := s.State().UnconfirmedMissing; n != 6 || s.Presence(all[0]) != Present {
		t.Errorf("%d are missing, the first is %s", n, s.Presence(all[0]))
	}
	wantChanges(t, "too early to agree", s.after(BrakeWait-1).lists(all[6:]...))
	wantChanges(t, "one is back, one more is missing", s.after(1).lists(append([]string{all[0]}, all[7:]...)...),
		gone(all[1], lacks), gone(all[2], lacks), gone(all[3], lacks), gone(all[4], lacks), gone(all[5], lacks),
		Change{Kind: Shrunken, Why: "6 of 20 instances are missing at once; they count until a listing 30s later lacks them too"}, shardChanged)
	s.expect("confirmed, save the new one", append([]string{all[0]}, all[6:]...)...)
	wantChanges(t, "the one alone is not too much", s.after(time.Second).lists(append([]string{all[0]}, all[7:]...)...),
		gone(all[6], lacks), shardChanged)
}

// An event of a missing instance lowers the number of missing ones, which every shard group of the shard shows.
func TestS8_AnEventOfAMissingInstanceChangesTheState(t *testing.T) {
	all := many(20)
	s := newStory(t)
	s.lists(all...)
	s.after(time.Minute).lists(all[6:]...)
	wantChanges(t, "one that is missing is deleted", s.after(time.Second).InstanceEvent(eventOf(eventDeleted, all[0], 2), s.now),
		gone(all[0], deletedWhy("")), shardChanged)
	if n := s.State().UnconfirmedMissing; n != 5 {
		t.Errorf("%d are missing, want 5", n)
	}
	wantChanges(t, "one that is there is deleted", s.after(time.Second).InstanceEvent(eventOf(eventDeleted, all[19], 2), s.now),
		gone(all[19], deletedWhy("")))
}

func TestF21_AnEmptyListingRemovesNothing(t *testing.T) {
	all := many(5)
	s := newStory(t)
	s.lists(all...)
	for range 10 {
		s.after(BrakeWait / 10).lists()
	}
	s.expect("for thirty seconds", all...)
	s.after(time.Second).lists(all...)
	s.after(time.Minute).lists()
	s.expect("empty once more, after all were there again", all...)
	s.Connected(2, s.now)
	s.after(time.Minute).lists()
	s.expect("the second word is another leader's", all...)
	s.after(time.Minute).lists()
	s.expect("confirmed")
}

func TestBrake(t *testing.T) {
	for _, tt := range []struct {
		absent, known int
		want          bool
	}{{3, 3, false}, {4, 4, true}, {4, 16, false}, {5, 19, true}, {25, 100, false}, {26, 100, true}} {
		if got := Brake(tt.absent, tt.known); got != tt.want {
			t.Errorf("%d of %d: %t", tt.absent, tt.known, got)
		}
	}
}

// After a restart the first listing is compared with what Kubernetes remembers.
func TestS8_ExpectedInstancesCount(t *testing.T) {
	s := &story{Shard: NewShard("acme"), t: t, now: start}
	for _, id := range many(5) {
		s.Expect(id, "g", "nstance://a/"+id)
	}
	s.after(time.Second).Connected(1, s.now)
	s.lists("i000")
	s.expect("four of five are missing", many(5)...)
	if got := s.Instance("i004").GetProviderUri(); got != "nstance://a/i004" {
		t.Errorf("the held one's URI is %q", got)
	}
	s.InstanceEvent(eventOf("deleted", "i001", 2), s.now)
	s.Expect("i001", "g", "")
	s.Expect("i000", "g", "")
	s.expect("a deleted one is not expected", "i000", "i002", "i003", "i004")
	if got := s.Instance("i000").GetStatus(); got != StatusRunning {
		t.Errorf("what is known was overwritten by what was expected: %s", got)
	}
}

func TestO11_TheProviderIDOfADeletedInstanceIsRemembered(t *testing.T) {
	s := newStory(t)
	s.Expect("i1", "web", "aws:///zone/i-1")
	if s.Deleted("aws:///zone/i-1") {
		t.Error("it lives")
	}
	s.InstanceEvent(eventOf("deleted", "i1", 0), s.now)
	s.InstanceEvent(eventOf("deleted", "i2", 0), s.now) // of which no more is known
	got := []bool{s.Deleted("aws:///zone/i-1"), s.Deleted("nstance://a/i2"), s.Deleted("nstance://a/i3"), s.Deleted("")}
	if !slices.Equal(got, []bool{true, true, false, false}) {
		t.Errorf("deleted by its provider id, by its id, and not: %v", got)
	}
	s.after(TombstoneLife + time.Second).lists("i3")
	if s.Deleted("aws:///zone/i-1") {
		t.Error("it is remembered for ever")
	}
}

// Whoever has missed the event of a deletion still knows why an instance is gone.
func TestO11_TheReasonOfAnInstanceThatIsNotListedAnyMore(t *testing.T) {
	s := newStory(t)
	s.lists("i1", "i2", "i3")
	condemned := eventOf("pending_deletion", "i1", 2)
	condemned.Reason = "expired"
	s.InstanceEvent(condemned, s.now)
	s.after(time.Minute).lists("i3")
	if why := [3]string{s.WhyDeleted("i1"), s.WhyDeleted("i2"), s.WhyDeleted("i3")}; why != [3]string{"expired", Unlisted, ""} {
		t.Errorf("condemned, missing, there: %q", why)
	}
	late := eventOf("deleted", "i2", 3)
	late.Reason = "unhealthy"
	s.InstanceEvent(late, s.now)
	s.after(time.Second).listsAsked(s.now, "i1", "i3")
	if why := [2]string{s.WhyDeleted("i1"), s.WhyDeleted("i2")}; why != [2]string{"", "unhealthy"} {
		t.Errorf("listed again, told of after all: %q", why)
	}
	s.after(time.Second).lists("i3")
	s.after(TombstoneLife + time.Second).lists("i3")
	if why := s.WhyDeleted("i1"); why != "" {
		t.Errorf("%q is remembered for ever", why)
	}
}

func TestS17_DeletedStaysDeleted(t *testing.T) {
	s := newStory(t)
	s.lists("i1")
	e := eventOf("deleted", "i1", 0) // of whatever revision
	e.Reason = "expired"
	wantChanges(t, "deleted", s.InstanceEvent(e, s.now), gone("i1", "its shard deleted it: expired"))
	wantChanges(t, "again", s.InstanceEvent(e, s.now))
	s.InstanceEvent(eventOf("running", "i1", 9), s.now)
	s.lists("i1")
	s.expect("a late event and a late listing")
	s.Lost()
	if got := s.Presence("i1"); got != Gone {
		t.Errorf("out of sight: %s", got)
	}
	s.after(TombstoneLife).lists("i1")
	s.expect("for an hour")
	wantChanges(t, "unheard of", s.InstanceEvent(eventOf("deleted", "i2", 1), s.now))
	s.after(time.Second).lists("i2")
	s.expect("deleted before it was heard of")
}

func TestS17_OlderNewsAreDropped(t *testing.T) {
	s := newStory(t)
	s.ListedInstances(InstanceList{Instances: []*nstancev1.InstanceStatus{running("i1", 7)}, Complete: true, Asked: s.now}, s.now)
	s.after(time.Second)
	wantChanges(t, "an older event", s.InstanceEvent(eventOf("pending_deletion", "i1", 6), s.now))
	wantChanges(t, "an event that the listing knew", s.InstanceEvent(eventOf("pending_deletion", "i1", 7), s.now))
	wantChanges(t, "a newer event", s.InstanceEvent(eventOf("pending_deletion", "i1", 8), s.now), changed("i1"))
	wantChanges(t, "an older listing", s.lists("i1"))
	if got := s.Instance("i1").GetStatus(); got != StatusDraining {
		t.Errorf("status %s", got)
	}

	group := func(revision int64, size int32) *nstancev1.GroupEvent {
		return &nstancev1.GroupEvent{Type: "UPSERT", Group: &nstancev1.GroupStatus{Key: "g", Tenant: "acme", Revision: revision, Size: size}}
	}
	groupChanged := Change{Kind: GroupChanged, Group: "g"}
	wantChanges(t, "a group", s.GroupEvent(group(5, 1), s.now), groupChanged)
	wantChanges(t, "the same", s.GroupEvent(group(5, 1), s.now))
	wantChanges(t, "an older one", s.GroupEvent(group(4, 2), s.now))
	wantChanges(t, "a newer one", s.GroupEvent(group(6, 3), s.now), groupChanged)
	wantChanges(t, "the same, described anew", s.GroupEvent(group(7, 3), s.now))
	wantChanges(t, "one that is older than that", s.GroupEvent(group(6, 4), s.now))
	if got := s.Group("g").GetSize(); got != 3 {
		t.Errorf("size %d", got)
	}
}

// An answer that was long on its way does not bring back what a newer one lacks.
func TestS17_OlderListingsBringNothingBack(t *testing.T) {
	s := newStory(t)
	asked := s.now
	s.lists("i1", "i2")
	s.after(time.Second).lists("i2")
	s.after(time.Second)
	wantChanges(t, "the older answer comes last", s.listsAsked(asked, "i1", "i2"))
	s.expect("the older answer comes last", "i2")
	wantChanges(t, "a newer one", s.after(time.Second).lists("i1", "i2"), changed("i1"))
}

// What an event brings is what a listing would say: the next one changes nothing.
func TestS17_AnEventBringsTheWholeInstance(t *testing.T) {
	s := newStory(t)
	whole := running("i1", 2)
	whole.CreatedAt, whole.ProviderUri = timestamppb.New(start), "p:///1"
	e := eventOf("running", "i1", 2)
	e.Instance = whole
	wantChanges(t, "the event", s.InstanceEvent(e, s.now), changed("i1"))
	if got := s.Instance("i1"); !HasDetails(got) || got.GetProviderUri() != "p:///1" {
		t.Errorf("after the event %v", got)
	}
	s.after(time.Second)
	wantChanges(t, "a listing", s.ListedInstances(InstanceList{Instances: []*nstancev1.InstanceStatus{whole}, Asked: s.now}, s.now))

	late := eventOf("created", "i1", 1)
	late.Instance = running("i1", 1)
	wantChanges(t, "one that is late", s.InstanceEvent(late, s.now))
	foreign := eventOf("created", "i3", 1)
	foreign.Instance = running("i3", 1)
	foreign.Instance.Tenant = "other"
	if s.InstanceEvent(foreign, s.now); s.Instance("i3") != nil {
		t.Error("an instance of another tenant is taken in")
	}
	other := eventOf("running", "i4", 1)
	other.Instance = running("i5", 1)
	if s.InstanceEvent(other, s.now); s.Instance("i5") != nil || HasDetails(s.Instance("i4")) {
		t.Error("an event describes another instance")
	}
	unknown := eventOf("hibernating", "i1", 3)
	unknown.Instance = running("i1", 3)
	unknown.Instance.Hostname = "n1"
	if s.InstanceEvent(unknown, s.now); s.Instance("i1").GetHostname() != "n1" {
		t.Error("what an event with a new word says of its instance is not taken in")
	}
	deleted := eventOf("deleted", "i1", 4)
	s.InstanceEvent(deleted, s.now)
	again := eventOf("running", "i1", 5)
	again.Instance = running("i1", 5)
	if s.InstanceEvent(again, s.now); s.Instance("i1") != nil {
		t.Error("an instance that was deleted comes back")
	}
}

func TestHasDetails(t *testing.T) {
	s := newStory(t)
	s.Expect("i1", "g", "nstance://a/i1")
	s.InstanceEvent(eventOf("created", "i2", 1), s.now)
	for _, id := range []string{"i1", "i2"} {
		if HasDetails(s.Instance(id)) {
			t.Errorf("%s is described, and nobody did", id)
		}
	}
	whole := running("i2", 2)
	whole.CreatedAt = timestamppb.New(start)
	s.after(time.Second).ListedInstances(InstanceList{Instances: []*nstancev1.InstanceStatus{whole}, Asked: s.now}, s.now)
	s.InstanceEvent(eventOf("pending_deletion", "i2", 3), s.now)
	if !HasDetails(s.Instance("i2")) {
		t.Error("listed, and not described")
	}
}

func TestGroupsComeAndGo(t *testing.T) {
	s := newStory(t)
	group := func(key string) *nstancev1.GroupStatus { return &nstancev1.GroupStatus{Key: key, Tenant: "acme"} }
	list := func(keys ...string) []Change {
		l := GroupList{Asked: s.now}
		for _, key := range keys {
			l.Groups = append(l.Groups, group(key))
		}
		return s.ListedGroups(l, s.now)
	}
	wantChanges(t, "listed", list("a", "b"), Change{Kind: GroupChanged, Group: "a"}, Change{Kind: GroupChanged, Group: "b"}, shardChanged)
	s.after(time.Second)
	wantChanges(t, "one is missing", list("b"), Change{Kind: GroupGone, Group: "a"})
	asked := s.after(time.Second).now
	s.after(time.Second)
	s.GroupEvent(&nstancev1.GroupEvent{Type: "UPSERT", Group: group("c")}, s.now)
	s.ListedGroups(GroupList{Asked: asked}, s.now)
	if s.GroupPresence("b") != Gone || s.GroupPresence("c") != Present {
		t.Error("b is missing and c was made after the question")
	}
	s.after(-3 * time.Second)
	wantChanges(t, "an older answer comes late", list("a", "b"))
	s.after(3 * time.Second)
	deleted := &nstancev1.GroupEvent{Type: "DELETE", Group: &nstancev1.GroupStatus{Key: "c"}}
	wantChanges(t, "deleted", s.GroupEvent(deleted, s.now), Change{Kind: GroupGone, Group: "c"})
	wantChanges(t, "again", s.GroupEvent(deleted, s.now))
	wantChanges(t, "a listing that was asked for before", s.ListedGroups(GroupList{Groups: []*nstancev1.GroupStatus{group("c")}, Asked: asked}, s.now))
	s.after(time.Second)
	wantChanges(t, "made again", list("c"), Change{Kind: GroupChanged, Group: "c"})
	var keys []string
	for _, g := range s.Groups() {
		keys = append(keys, g.GetKey())
	}
	if diff := cmp.Diff([]string{"c"}, keys); diff != "" {
		t.Error(diff)
	}
}

func TestEventsTellALife(t *testing.T) {
	s := newStory(t)
	deadline := timestamppb.New(start.Add(time.Hour))
	registered := eventOf("registered", "i1", 3)
	registered.ProviderInstanceId = "vm-1"
	condemned := eventOf("pending_deletion", "i1", 5)
	condemned.Reason, condemned.DeleteAt = "expired", deadline
	for _, e := range []*nstancev1.InstanceEvent{eventOf("created", "i1", 2), registered, eventOf("running", "i1", 4), condemned} {
		wantChanges(t, e.GetStatus(), s.InstanceEvent(e, s.now), changed("i1"))
	}
	for _, e := range []*nstancev1.InstanceEvent{eventOf("heartbeat", "", 0), eventOf("snapshot_end", "", 0), eventOf("a new word", "i1", 6), eventOf("a new word", "i2", 6)} {
		wantChanges(t, e.GetStatus(), s.InstanceEvent(e, s.now))
	}
	want := []*nstancev1.InstanceStatus{{
		InstanceId: "i1", Tenant: "acme", Group: "g", Status: StatusDraining, Revision: 5, ProviderInstanceId: "vm-1",
		RegisteredAt: timestamppb.New(start), Condemned: &nstancev1.Condemned{Reason: "expired", DeleteAt: deadline},
	}}
	if diff := cmp.Diff(want, s.Instances("g"), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	s.InstanceEvent(eventOf("deleting", "i1", 7), s.now)
	want[0].Status, want[0].Revision = StatusTerminating, 7
	if diff := cmp.Diff(want, s.Instances("g"), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if got := s.Instances("other"); got != nil {
		t.Errorf("another group has %v", got)
	}
}

func TestS12_ForeignTenantsAreDropped(t *testing.T) {
	s := newStory(t)
	i, g, e := running("i1", 1), &nstancev1.GroupStatus{Key: "g", Tenant: "other"}, eventOf("created", "i1", 1)
	i.Tenant, e.Tenant = "other", "other"
	foreign := func(what string) Change { return Change{Kind: Foreign, Why: what} }
	wantChanges(t, "listed", s.ListedInstances(InstanceList{Instances: []*nstancev1.InstanceStatus{i}, Asked: s.now}, s.now), foreign("an instance of another tenant"))
	wantChanges(t, "event", s.InstanceEvent(e, s.now), foreign("an event of another tenant"))
	wantChanges(t, "group", s.GroupEvent(&nstancev1.GroupEvent{Type: "UPSERT", Group: g}, s.now), foreign("a group of another tenant"))
	s.GroupEvent(&nstancev1.GroupEvent{Type: "UPSERT", Group: &nstancev1.GroupStatus{Key: "g", Tenant: "acme"}}, s.now)
	wantChanges(t, "deleted group", s.GroupEvent(&nstancev1.GroupEvent{Type: "DELETE", Group: g}, s.now), foreign("a group of another tenant"))
	if s.Group("g") == nil {
		t.Error("another tenant's group took ours with it")
	}
	s.GroupEvent(&nstancev1.GroupEvent{Type: "DELETE", Group: &nstancev1.GroupStatus{Key: "g", Tenant: "acme"}}, s.now)
	if len(s.Instances("")) > 0 || len(s.Groups()) > 0 {
		t.Error("and yet they are known")
	}
}
