package machinepool

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

func TestL8_GrowthThatGoesElsewhereIsCounted(t *testing.T) {
	for _, test := range []struct {
		name string
		st   state
		want map[string]Redirection
	}{
		{"all shards grow", settled(2, 2).with(replicas(6)), nil},
		{"nothing grows", settled(2, 2).with(full("b", 0)), nil},
		{"one is full", settled(2, 2).with(replicas(6), full("b", 0)), map[string]Redirection{"b": RedirectedCapacity}},
		{"nothing more may be had on one", settled(2, 2).with(replicas(6), full("b", 0), func(st *state) {
			s := st.shards["b"]
			s.coolOff.Quota = true
			st.shards["b"] = s
		}), map[string]Redirection{"b": RedirectedQuota}},
		{"one is away", settled(2, 2).with(replicas(6), unreachable("b", time.Minute)), map[string]Redirection{"b": RedirectedUnreachable}},
		{"it has just gone", settled(2, 2).with(replicas(6), unreachable("b", 0)), nil},
		{"it has only one instance and is full", settled(2, 1).with(
			replicas(4), full("b", 2*time.Minute), func(st *state) { st.shardGroups["b"].Spec.Size = ptr.To[int32](2) },
		), map[string]Redirection{"b": RedirectedCapacity}},
	} {
		t.Run(test.name, func(t *testing.T) {
			heard := map[string]Redirection{}
			for name, why := range test.st.redirected(decide(test.st, start), start) {
				heard[name] = why
			}
			if len(heard) == 0 {
				heard = nil
			}
			if diff := cmp.Diff(test.want, heard); diff != "" {
				t.Error(diff)
			}
		})
	}
}
