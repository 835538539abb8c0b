package explain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/protos/identity"
	"nstance.dev/server/explain"
	"nstance.dev/server/fleet"
)

var (
	now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	web = fleet.GroupID{Tenant: "default", Name: "web"}
)

const (
	a = identity.ID("vmx-a")
	b = identity.ID("vmx-b")
)

// plan is one that wants some of everything.
func plan() fleet.Decision {
	return fleet.Decision{
		Actions: []fleet.Action{
			fleet.Delete{ID: a, Reason: fleet.ReasonExpired, Why: "drained"},
			fleet.Condemn{ID: b, Reason: fleet.ReasonScaleDown, Why: "too many"},
			fleet.Create{Group: web, Why: "1 of 4"},
			fleet.Create{Group: web, Why: "1 of 4"},
			fleet.Create{Group: web, Why: "1 of 4"},
		},
		Notes: []fleet.Note{{ID: a, What: "replace", By: fleet.BlockerBound, Why: "one at a time", Until: now.Add(time.Minute)}},
	}
}

func sent(action string, id identity.ID, reason, cause string, count int) explain.Decision {
	return explain.Decision{Group: web, Instance: id, Action: action, Reason: reason, Cause: cause, Count: count, At: now}
}

func held(d explain.Decision, by fleet.Blocker, why string, until time.Time) explain.Decision {
	d.BlockedBy, d.BlockedWhy, d.NotBefore = by, why, until
	return d
}

func TestWeigh(t *testing.T) {
	var (
		remove   = sent("delete", a, "drained", "expired", 1)
		condemn  = sent("condemn", b, "too many", "scale-down", 1)
		create   = sent("create", "", "1 of 4", "size", 3)
		replace  = held(sent("replace", a, "", "", 1), fleet.BlockerBound, "one at a time", now.Add(time.Minute))
		queue    = fleet.Block{By: fleet.BlockerQueue, Why: "a queue"}
		paused   = fleet.Block{By: fleet.BlockerPaused, Why: "the shard is paused: work", Until: now.Add(time.Hour)}
		listing  = fleet.Block{By: fleet.BlockerListing, Why: "half of the machines are missing"}
		actions  = plan().Actions
		one, two = create, create
	)
	one.Count, two.Count = 1, 2
	for _, test := range []struct {
		name  string
		rails explain.Blocks
		want  explain.Evaluation
	}{
		{
			name: "nothing holds", rails: explain.Blocks{Room: 9, Beyond: queue},
			want: explain.Evaluation{Send: actions, Shown: []explain.Decision{remove, condemn, create, replace}},
		},
		{
			name: "the room for creates is used up", rails: explain.Blocks{Room: 1, Beyond: queue},
			want: explain.Evaluation{
				Send:  actions[:3],
				Shown: []explain.Decision{remove, condemn, one, held(two, queue.By, queue.Why, time.Time{}), replace},
			},
		},
		{
			name: "the listing cannot be believed", rails: explain.Blocks{Room: 9, Listing: listing},
			want: explain.Evaluation{
				Send:  actions[1:],
				Shown: []explain.Decision{held(remove, listing.By, listing.Why, time.Time{}), condemn, create, replace},
			},
		},
		{
			name: "a pause holds everything, and ends", rails: explain.Blocks{Room: 9, Pause: paused, Listing: listing},
			want: explain.Evaluation{
				Shown: []explain.Decision{
					held(remove, paused.By, paused.Why, paused.Until), held(condemn, paused.By, paused.Why, paused.Until),
					held(create, paused.By, paused.Why, paused.Until), replace,
				},
				Wake: paused.Until,
			},
		},
	} {
		got := explain.Evaluate(web, plan(), test.rails, now)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestNewsLeavesOutWhatStillStands(t *testing.T) {
	condemn := held(sent("condemn", b, "too many", "scale-down", 1), fleet.BlockerPaused, "paused", now)
	create := held(sent("create", "", "1 of 4", "size", 3), fleet.BlockerPaused, "paused", now)
	before := []explain.Decision{condemn, create, sent("delete", a, "drained", "expired", 1)}
	later := condemn
	later.At, later.NotBefore = now.Add(time.Hour), now.Add(2*time.Hour)
	other := create
	other.Reason = "2 of 4"
	again := sent("delete", a, "drained", "expired", 1)

	got := explain.News(before, []explain.Decision{later, other, again})
	if diff := cmp.Diff([]explain.Decision{other, again}, got); diff != "" {
		t.Errorf("news (-want +got):\n%s", diff)
	}
}

func TestConditions(t *testing.T) {
	until := now.Add(time.Hour)
	pause := fleet.Block{By: fleet.BlockerPaused, Why: "the group is paused: work", Until: until}
	for _, test := range []struct {
		name  string
		facts explain.Facts
		want  []explain.Condition
	}{
		{
			name:  "a group at size",
			facts: explain.Facts{Counts: fleet.Counts{Desired: 2, Running: 2, Live: 2, Actual: 2}},
			want:  []explain.Condition{{Type: "at-size", Message: "2 of 2 run"}},
		},
		{
			name:  "one of mode demand",
			facts: explain.Facts{Group: fleet.Group{Demand: true}, Counts: fleet.Counts{Running: 3, Live: 3, Actual: 3}},
			want:  []explain.Condition{{Type: "at-size", Message: "3 run; mode demand decides how many"}},
		},
		{
			name:  "one of mode demand, whose machines come and go",
			facts: explain.Facts{Group: fleet.Group{Demand: true}, Counts: fleet.Counts{Running: 3, Pending: 1, Live: 4, Leaving: 1, Actual: 5}},
			want:  []explain.Condition{{Type: "scaling", Message: "3 run; mode demand decides how many, 1 starting, 1 leaving"}},
		},
		{
			name: "one that grows, and waits for the provider",
			facts: explain.Facts{
				Counts: fleet.Counts{Desired: 5, Running: 1, Provisioning: 1, Live: 2, Actual: 2},
				Shown: []explain.Decision{
					held(sent("create", "", "", "", 1), fleet.BlockerBackOff, "quota: 2 vCPUs", until),
					held(sent("replace", a, "", "", 1), fleet.BlockerBackOff, "quota: 2 vCPUs", until),
				},
				Instances: []fleet.Instance{{ID: b, State: fleet.Running}, {ID: a, State: fleet.Provisioning}},
			},
			want: []explain.Condition{
				{Type: "back-off", Message: "quota: 2 vCPUs", Until: until},
				{Type: "scaling", Message: "1 of 5 run, 1 starting"},
				{Type: "joining", Instance: a, Message: "the provider has it; its agent has not registered yet"},
			},
		},
		{
			name: "a paused one that is deleted",
			facts: explain.Facts{
				Group: fleet.Group{Deleted: true}, Blocks: []fleet.Block{{}, pause},
				Counts: fleet.Counts{Running: 1, Live: 1, Leaving: 1, Sick: 1, Actual: 2},
				Instances: []fleet.Instance{
					{ID: b, State: fleet.Unhealthy},
					{ID: a, State: fleet.Draining, Removal: fleet.Removal{Reason: fleet.ReasonScaleDown, DeleteAt: until}},
				},
			},
			want: []explain.Condition{
				{Type: "paused", Message: "the group is paused: work", Until: until},
				{Type: "scaling", Message: "1 of 0 run, 1 unhealthy, 1 leaving"},
				{Type: "deleting", Message: "its deletion was asked for; it ends when its last instance is gone"},
				{Type: "sick", Message: "1 found unhealthy and not gone yet"},
				{Type: "draining", Instance: a, Message: "its work gets time to leave (scale-down)", Until: until},
				{Type: "unhealthy", Instance: b, Message: "found unhealthy"},
			},
		},
		{
			name: "one whose machines lack files",
			facts: explain.Facts{
				Counts:      fleet.Counts{Desired: 2, Running: 2, Live: 2, Actual: 2},
				Instances:   []fleet.Instance{{ID: a, State: fleet.Running}, {ID: b, State: fleet.Suspect}},
				Undelivered: []explain.Undelivered{{Instance: b, Why: "file x: no such secret"}, {Instance: a, Why: "file y: disk full"}},
			},
			want: []explain.Condition{
				{Type: "at-size", Message: "2 of 2 run"},
				{Type: "files-undelivered", Message: "2 lack files; vmx-a: file y: disk full"},
				{Type: "files-undelivered", Instance: a, Message: "file y: disk full"},
				{Type: "files-undelivered", Instance: b, Message: "file x: no such secret"},
				{Type: "suspect", Instance: b, Message: "its stream broke or a report is overdue"},
			},
		},
	} {
		if diff := cmp.Diff(test.want, explain.Conditions(test.facts)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Every state of an instance is explained, or is one that explains itself.
func TestEveryStateHasItsCondition(t *testing.T) {
	want := map[fleet.State]string{
		fleet.Pending: "joining", fleet.Provisioning: "joining", fleet.Running: "", fleet.Suspect: "suspect",
		fleet.Unhealthy: "unhealthy", fleet.Condemned: "terminating", fleet.Draining: "draining",
		fleet.Deleting: "terminating", fleet.Deleted: "",
	}
	for _, state := range fleet.States() {
		got, _ := explain.OfInstance(fleet.Instance{ID: a, State: state})
		if got.Type != want[state] {
			t.Errorf("%s: condition %q, want %q", state, got.Type, want[state])
		}
	}
}

func TestS22_ConditionsOfInstancesAreBounded(t *testing.T) {
	instances := make([]fleet.Instance, 5000)
	for i := range instances {
		instances[i] = fleet.Instance{ID: a, State: fleet.Suspect}
	}
	if n := len(explain.Conditions(explain.Facts{Instances: instances})); n > 1001 {
		t.Errorf("S22: %d conditions", n)
	}
}

func TestTrackKeepsTheBeginning(t *testing.T) {
	before := []explain.Condition{{Type: "scaling", Since: now}, {Type: "suspect", Instance: a, Since: now}}
	later := now.Add(time.Minute)
	got := explain.Track(before, []explain.Condition{
		{Type: "scaling", Message: "other words"}, {Type: "suspect", Instance: b},
	}, later)
	want := []explain.Condition{
		{Type: "scaling", Message: "other words", Since: now}, {Type: "suspect", Instance: b, Since: later},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tracked (-want +got):\n%s", diff)
	}
}
