package wait_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nstance.dev/admin/wait"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// state makes a state of a group of some size and of instances in the form
// "id status", of which those called od… are on-demand.
func state(size int32, instances ...string) wait.State {
	s := wait.State{Complete: true}
	if size >= 0 {
		s.Groups = []*nstancev1.GroupStatus{{Key: "web", Size: size}}
	}
	for _, text := range instances {
		id, status, _ := strings.Cut(text, " ")
		s.Instances = append(s.Instances, &nstancev1.InstanceStatus{
			InstanceId: id, Group: "web", Status: status, OnDemand: strings.HasPrefix(id, "od"),
		})
	}
	return s
}

const noGroup = -1

func TestSettled(t *testing.T) {
	group := wait.Goal{Group: "web"}
	three := int32(3)
	for _, test := range []struct {
		name  string
		goal  wait.Goal
		state wait.State
		want  wait.Verdict
	}{
		{"as many run as the size says", group, state(2, "a running", "b running"), wait.Verdict{Done: true}},
		{"an empty group", group, state(0), wait.Verdict{Done: true}},
		{
			"instances on their way in", group, state(3, "a running", "b pending", "c provisioning"),
			wait.Verdict{Missing: "group web: 1 of 3 running, 1 pending, 1 provisioning"},
		},
		{
			"enough run, and one is on its way out", group, state(1, "a running", "b draining"),
			wait.Verdict{Missing: "group web: 1 of 1 running, 1 draining"},
		},
		{"the last one is not gone yet", group, state(0, "a terminating"), wait.Verdict{Missing: "group web: 0 of 0 running, 1 terminating"}},
		{"more run than should", group, state(1, "a running", "b running"), wait.Verdict{Missing: "group web: 2 of 1 running"}},
		{"an unhealthy one is to be replaced", group, state(1, "a unhealthy"), wait.Verdict{Missing: "group web: 0 of 1 running, 1 unhealthy"}},
		{"one that has ended does not count", group, state(1, "a running", "b terminated"), wait.Verdict{Done: true}},
		{"on-demand instances do not count", group, state(1, "a running", "od running", "od2 pending"), wait.Verdict{Done: true}},
		{"the group is not there", group, state(noGroup), wait.Verdict{Missing: "group web is not listed"}},
		{
			"somebody else scales too", wait.Goal{Group: "web", Size: &three}, state(1, "a running"),
			wait.Verdict{Missing: "group web has size 1 instead of 3: it was changed meanwhile"},
		},
		{"a new leader is still reading", group, wait.State{}, wait.Verdict{Missing: "the server does not know all instances yet"}},

		{"a group that is gone", wait.Goal{Group: "web", GroupGone: true}, state(noGroup, "od running"), wait.Verdict{Done: true}},
		{"a group without instances that is listed", wait.Goal{Group: "web", GroupGone: true}, state(0), wait.Verdict{Missing: "group web is still listed"}},
		{
			"a group whose instances leave", wait.Goal{Group: "web", GroupGone: true}, state(0, "a running", "b draining", "c draining"),
			wait.Verdict{Missing: "group web still has 1 running, 2 draining"},
		},
		{
			"instances that leave after their group", wait.Goal{Group: "web", GroupGone: true}, state(noGroup, "a draining"),
			wait.Verdict{Missing: "group web still has 1 draining"},
		},

		{"an instance that runs", wait.Goal{Running: []string{"od"}}, state(noGroup, "od running"), wait.Verdict{Done: true}},
		{"an instance that will", wait.Goal{Running: []string{"od"}}, state(noGroup, "od pending"), wait.Verdict{Missing: "instance od is pending"}},
		{
			"an instance that never will", wait.Goal{Running: []string{"od"}}, state(noGroup, "od terminated"),
			wait.Verdict{Missing: "instance od is terminated", Failed: true},
		},
		{"an instance that nobody lists yet", wait.Goal{Running: []string{"od"}}, state(noGroup), wait.Verdict{Missing: "instance od is not listed"}},

		{"an instance that is gone", wait.Goal{Gone: []string{"a"}}, state(noGroup), wait.Verdict{Done: true}},
		{"an instance that has ended", wait.Goal{Gone: []string{"a"}}, state(noGroup, "a terminated"), wait.Verdict{Done: true}},
		{
			"an instance that is gone and not replaced yet", wait.Goal{Group: "web", Gone: []string{"a"}}, state(1, "b pending"),
			wait.Verdict{Missing: "group web: 0 of 1 running, 1 pending"},
		},
		{
			"an instance that waits for its replacement", wait.Goal{Group: "web", Gone: []string{"a"}}, state(1, "a running"),
			wait.Verdict{Missing: "instance a is running"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, wait.Settled(test.goal, test.state)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Whatever the state, a group is settled exactly if its size and the instances
// that are there say so.
func TestSettledAgreesWithTheDefinition(t *testing.T) {
	statuses := []string{"pending", "provisioning", "running", "unhealthy", "draining", "terminating", "terminated", "unknown"}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int32Range(0, 4).Draw(t, "size")
		drawn := rapid.SliceOfN(rapid.SampledFrom(statuses), 0, 5).Draw(t, "statuses")
		var instances []string
		running, other := int32(0), 0
		for i, status := range drawn {
			instances = append(instances, fmt.Sprintf("i%d %s", i, status))
			switch status {
			case "running":
				running++
			case "terminated":
			default:
				other++
			}
		}
		verdict := wait.Settled(wait.Goal{Group: "web"}, state(size, instances...))
		if want := running == size && other == 0; verdict.Done != want {
			t.Errorf("done is %v, want %v", verdict.Done, want)
		}
		if verdict.Done != (verdict.Missing == "") {
			t.Errorf("done is %v and missing is %q", verdict.Done, verdict.Missing)
		}
	})
}
