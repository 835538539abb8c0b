package inventory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Whatever comes, goes and moves to another group: what each group has is what all have of that group, in
// the order of ids, and a group without instances leaves nothing behind.
func TestInstancesOfAGroup(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	s := newStory(t)
	groups := []string{"g", "h", "i"}
	for step := range 2000 {
		id := fmt.Sprint("i-", random.IntN(20))
		switch random.IntN(10) {
		case 0:
			s.listsAsked(s.now)
		case 1, 2:
			e := eventOf(eventDeleted, id, int64(step))
			s.InstanceEvent(e, s.now)
			delete(s.tombstones, id) // an id that comes back costs this test less than two thousand of them
		default:
			i := running(id, int64(step))
			i.Group = groups[random.IntN(len(groups))]
			s.instance(i, s.now)
		}
		s.after(1)
		all := s.Instances("")
		for _, group := range groups {
			want := slices.Clone(all)
			want = slices.DeleteFunc(want, func(i *nstancev1.InstanceStatus) bool { return i.GetGroup() != group })
			if got := s.Instances(group); !slices.Equal(got, want) {
				t.Fatalf("step %d, group %s: %s", step, group, cmp.Diff(want, got, protocmp.Transform()))
			}
		}
	}
	for _, i := range s.Instances("") {
		s.remove(i.GetInstanceId(), "")
	}
	if left := len(s.instances.byGroup); left != 0 {
		t.Errorf("%d groups without instances are kept", left)
	}
}
