package versions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Versions for tables: locked ones and editable ones, with what they hold.
func locked(number int32, template string) Version {
	return Version{Number: number, Recorded: true, Deployed: true, Template: hostsv1.SHA256(template)}
}

func editable(number int32, template string) Version {
	return Version{Number: number, Recorded: true, Template: hostsv1.SHA256(template)}
}

// created is one that nothing was recorded of.
func created(number int32, template string) Version {
	return Version{Number: number, Template: hostsv1.SHA256(template)}
}

func foreign(number int32) Version { return Version{Number: number, Foreign: true, Template: "x"} }

func deleting(v Version) Version { v.Deleting = true; return v }

func refs(numbers ...int32) map[int32]bool {
	all := map[int32]bool{}
	for _, n := range numbers {
		all[n] = true
	}
	return all
}

func deletes(numbers ...int32) []Step {
	var all []Step
	for _, n := range numbers {
		all = append(all, Step{Action: Delete, Number: n})
	}
	return all
}

func one(action Action, number int32) []Step { return []Step{{Action: action, Number: number}} }

// planCase is a state, with template "t" and a limit of 10 unless it says otherwise, and the
// steps that come next, without their reasons.
type planCase struct {
	name  string
	state State
	limit int // -1: 0
	want  []Step
}

var creation = []planCase{
	{"a new configuration gets number 1", State{}, 0, one(Reserve, 1)},
	{"the reserved number is created", State{Latest: 1, Pending: 1}, 0, one(Create, 1)},
	{"a created version is recorded", State{Latest: 1, Pending: 1, Versions: []Version{created(1, "t")}}, 0, one(Record, 1)},
	{"one that holds another template is recorded too", State{Latest: 1, Pending: 1, Versions: []Version{created(1, "old")}}, 0, one(Record, 1)},
	{"a recorded version clears its reservation", State{Latest: 1, Pending: 1, Versions: []Version{editable(1, "t")}}, 0, one(Clear, 1)},
	{"one that holds another template clears it too", State{Latest: 1, Pending: 1, Versions: []Version{editable(1, "old")}}, 0, one(Clear, 1)},
	{"one that is deleted before it is recorded clears it too", State{Latest: 1, Pending: 1, Versions: []Version{deleting(created(1, "t"))}}, 0, one(Clear, 1)},
	{"one that is being deleted clears it too", State{Latest: 1, Pending: 1, Versions: []Version{deleting(editable(1, "t"))}}, 0, one(Clear, 1)},
	{"a foreign object is not overwritten, and its number is burnt", State{Latest: 1, Pending: 1, Versions: []Version{foreign(1)}}, 0, one(Reserve, 2)},
	{"two foreign objects burn two numbers", State{Latest: 2, Pending: 2, Versions: []Version{foreign(1), foreign(2)}}, 0, one(Reserve, 3)},
	{"a foreign object of a higher number is of no interest", State{Latest: 1, Versions: []Version{editable(1, "t"), foreign(9)}}, 0, nil},
	{"a reservation is finished before anything else", State{Latest: 4, Pending: 4, Versions: []Version{locked(3, "old"), editable(2, "x")}}, 0, one(Create, 4)},
	{"a lost status is raised to the highest version", State{Versions: []Version{locked(3, "t"), locked(2, "u")}}, 0, one(Raise, 3)},
	{"one that is being deleted counts for that", State{Latest: 2, Versions: []Version{locked(2, "t"), deleting(locked(3, "u"))}}, 0, one(Raise, 3)},
	{"one that came too late goes", State{Latest: 3, Versions: []Version{locked(3, "t"), created(2, "t")}}, 0, one(Delete, 2)},
	{"also if it has the highest number", State{Latest: 3, Versions: []Version{locked(2, "t"), created(3, "t")}}, 0, one(Delete, 3)},
	{"also if it is the only one", State{Latest: 3, Versions: []Version{created(2, "t")}}, 0, one(Delete, 2)},
	{"all that came too late go", State{Latest: 4, Versions: []Version{locked(4, "t"), created(3, "t"), created(2, "u")}}, 0, deletes(3, 2)},
	{"before the template is looked at", State{Latest: 3, Versions: []Version{locked(3, "old"), created(2, "t")}}, 0, one(Delete, 2)},
	{"one that came too late and that a machine refers to is neither locked nor deleted", State{Latest: 3, Versions: []Version{locked(3, "t"), created(2, "u")}, Referenced: refs(2)}, 0, nil},
	{"nor does it take an edit", State{Latest: 3, Versions: []Version{created(3, "u")}, Referenced: refs(3)}, 0, one(Reserve, 4)},
	{"nor does it count among the newest", State{Latest: 3, Versions: []Version{locked(2, "t"), locked(1, "u"), created(3, "t")}, Referenced: refs(3)}, 2, nil},
	{"one that came too late and is being deleted is left alone", State{Latest: 3, Versions: []Version{locked(3, "t"), deleting(created(2, "u"))}}, 0, nil},
	{"the status is raised before a reservation is followed", State{Latest: 2, Pending: 2, Versions: []Version{locked(5, "t")}}, 0, one(Raise, 5)},
}

var edits = []planCase{
	{"nothing to do with an editable version", State{Latest: 1, Versions: []Version{editable(1, "t")}}, 0, nil},
	{"nothing to do with a deployed version", State{Latest: 1, Versions: []Version{locked(1, "t")}}, 0, nil},
	{"an edit goes into the editable version", State{Latest: 2, Versions: []Version{locked(1, "t"), editable(2, "old")}}, 0, one(Copy, 2)},
	{"an edit after a deployed version makes the next one", State{Latest: 2, Versions: []Version{locked(1, "t"), locked(2, "old")}}, 0, one(Reserve, 3)},
	{"an edit back to the newest, deployed version makes none", State{Latest: 2, Versions: []Version{locked(1, "old"), locked(2, "t")}}, 0, nil},
	{"an edit back to an older version makes the next one", State{Latest: 3, Versions: []Version{locked(2, "t"), locked(3, "old")}}, 0, one(Reserve, 4)},
	{"an editable version that went back to the one before it is kept", State{Latest: 2, Versions: []Version{locked(1, "t"), editable(2, "t")}}, 0, nil},
	{"a deleted editable version comes back under the next number", State{Latest: 2, Versions: []Version{locked(1, "old")}}, 0, one(Reserve, 3)},
	{"not if the newest one that stays holds the template", State{Latest: 2, Versions: []Version{locked(1, "t")}}, 0, nil},
	{"with all versions deleted the numbers go on", State{Latest: 7}, 0, one(Reserve, 8)},
	{"what is being deleted does not take an edit", State{Latest: 2, Versions: []Version{locked(1, "u"), deleting(editable(2, "old"))}}, 0, one(Reserve, 3)},
	{"a foreign version does not take an edit", State{Latest: 1, Versions: []Version{locked(1, "old"), foreign(2)}}, 0, one(Reserve, 2)},
	{"a reference does not keep an edit out of an editable version", State{Latest: 2, Versions: []Version{editable(2, "old")}, Referenced: refs(2)}, 0, one(Copy, 2)},
	{"a burnt number is skipped", State{Latest: 5, Versions: []Version{locked(2, "old")}}, 0, one(Reserve, 6)},
}

var restored = []planCase{
	{"of two editable versions the lower one goes", State{Latest: 3, Versions: []Version{editable(2, "t"), editable(3, "t")}}, 0, one(Delete, 2)},
	{"unless a machine refers to it", State{Latest: 3, Versions: []Version{editable(2, "t"), editable(3, "t")}, Referenced: refs(2)}, 0, one(Lock, 2)},
	{"of three the next lower one first", State{Latest: 3, Versions: []Version{editable(1, "t"), editable(2, "t"), editable(3, "t")}}, 0, one(Delete, 2)},
	{"an editable version below a deployed one goes", State{Latest: 3, Versions: []Version{editable(2, "t"), locked(3, "t")}}, 0, one(Delete, 2)},
	{"before the template is looked at", State{Latest: 3, Versions: []Version{editable(2, "t"), locked(3, "old")}}, 0, one(Delete, 2)},
	{"a second one that is being deleted is left alone", State{Latest: 3, Versions: []Version{deleting(editable(2, "t")), editable(3, "t")}}, 0, nil},
	{"a second one that is foreign is left alone", State{Latest: 3, Versions: []Version{foreign(2), editable(3, "t")}}, 0, nil},
}

var five = []Version{locked(1, "a"), locked(2, "b"), locked(3, "c"), locked(4, "d"), locked(5, "t")}

var pruning = []planCase{
	{"five versions, limit 2, the first in use", State{Latest: 5, Versions: five, Referenced: refs(1)}, 2, deletes(3, 2)},
	{"five versions, limit 2, none in use", State{Latest: 5, Versions: five}, 2, deletes(3, 2, 1)},
	{"five versions, limit 5", State{Latest: 5, Versions: five}, 5, nil},
	{"five versions, limit 4", State{Latest: 5, Versions: five}, 4, deletes(1)},
	{"five versions, limit 0: the newest stays", State{Latest: 5, Versions: five}, -1, deletes(4, 3, 2, 1)},
	{"five versions, limit 0, the third in use", State{Latest: 5, Versions: five, Referenced: refs(3)}, -1, deletes(4, 2, 1)},
	{"all in use", State{Latest: 5, Versions: five, Referenced: refs(1, 2, 3, 4, 5)}, -1, nil},
	{"an editable version counts", State{Latest: 3, Versions: []Version{locked(1, "a"), locked(2, "b"), editable(3, "t")}}, 2, deletes(1)},
	{"an editable version is not pruned", State{Latest: 3, Versions: []Version{locked(2, "b"), editable(3, "t")}}, -1, deletes(2)},
	{"a foreign version is not pruned and does not count", State{Latest: 5, Versions: []Version{foreign(4), locked(1, "a"), locked(2, "b"), locked(5, "t")}}, 2, deletes(1)},
	{"what is being deleted does not count", State{Latest: 5, Versions: []Version{deleting(locked(4, "d")), locked(3, "a"), locked(5, "t")}}, 2, nil},
	{"nothing is pruned while an edit waits", State{Latest: 5, Versions: five, Template: "new"}, 2, one(Reserve, 6)},
	{"a reference to a version that does not exist changes nothing", State{Latest: 5, Versions: five, Referenced: refs(9)}, 4, deletes(1)},
	{"the order in which versions are listed changes nothing", State{Latest: 5, Versions: []Version{five[2], five[4], five[0], five[3], five[1]}, Referenced: refs(1)}, 2, deletes(3, 2)},
}

func testPlans(t *testing.T, cases []planCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.state
			if s.Template == "" {
				s.Template = "t"
			}
			switch {
			case tt.limit > 0:
				s.HistoryLimit = tt.limit
			case tt.limit == 0:
				s.HistoryLimit = 10
			}
			got := Plan(s)
			for i := range got {
				if got[i].Reason == "" {
					t.Errorf("%s %d has no reason", got[i].Action, got[i].Number)
				}
				switch got[i].Action {
				case Reserve, Create, Copy:
					if got[i].Template != s.Template {
						t.Errorf("%s %d writes the template %s", got[i].Action, got[i].Number, got[i].Template)
					}
				}
				got[i].Reason, got[i].Template = "", ""
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// M18: a new configuration gets version 1. M24: numbers only grow. M25: what a crash left is
// finished, and a foreign object is never overwritten.
func TestM18M24M25_Creation(t *testing.T) { testPlans(t, creation) }

// M19: an edit goes into the editable version, else it makes the next one. M21: an edit back to
// the newest version makes none. M31: a deleted version's number does not come back.
func TestM19M21M31_Edits(t *testing.T) { testPlans(t, edits) }

// M20: at most one version is editable.
func TestM20_OneEditableVersion(t *testing.T) { testPlans(t, restored) }

// M34: the newest versions and those that machines refer to stay.
func TestM34_Pruning(t *testing.T) { testPlans(t, pruning) }

func TestMayLock(t *testing.T) {
	s := State{Latest: 3, Pending: 3, Versions: []Version{locked(1, "a"), foreign(2), editable(3, "t"), deleting(locked(4, "d"))}}
	for number, want := range map[int32]string{
		1: "", 2: "another configuration owns it", 3: "its creation is not recorded yet", 4: "it is being deleted", 5: "it does not exist",
	} {
		if got := MayLock(s, number); got != want {
			t.Errorf("version %d: %q, want %q", number, got, want)
		}
	}
	s.Pending = 0
	if got := MayLock(s, 3); got != "" {
		t.Errorf("an editable version is not locked: %s", got)
	}
	s.Versions = append(s.Versions, created(6, "t"))
	if got := MayLock(s, 6); !strings.Contains(got, "created after its number had been used") {
		t.Errorf("a version that came too late: %q", got)
	}
}

func TestSummary(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state State
		want  Summary
	}{
		{"nothing yet", State{}, Summary{}},
		{"an editable version", State{Versions: []Version{editable(1, "t")}}, Summary{Editable: 1, Synced: true}},
		{"an edit that waits", State{Versions: []Version{editable(1, "old")}}, Summary{Editable: 1}},
		{"a deployed version below it", State{Versions: []Version{locked(1, "a"), editable(2, "t")}}, Summary{Editable: 2, Deployed: 1, Synced: true}},
		{"the highest deployed version", State{Versions: []Version{locked(1, "a"), locked(2, "t")}}, Summary{Deployed: 2, Synced: true}},
		{"one that came too late", State{Versions: []Version{locked(1, "t"), created(2, "u")}}, Summary{Deployed: 1, Synced: true}},
		{"a reservation", State{Pending: 2, Versions: []Version{locked(1, "t")}}, Summary{Deployed: 1}},
		{"a name that is taken", State{Pending: 2, Versions: []Version{locked(1, "t"), foreign(2)}}, Summary{Deployed: 1, Conflict: 2}},
		{"what is being deleted", State{Versions: []Version{deleting(locked(2, "t")), editable(1, "t")}}, Summary{Editable: 1, Synced: true}},
	} {
		tt.state.Template = "t"
		if got := Summarize(tt.state); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
