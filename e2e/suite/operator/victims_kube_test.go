//go:build kube && operator

package operator_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"nstance.dev/e2e/env/kube"
)

var (
	victims = flag.Int("victims", 15, "machines that O6 takes away in random lots")
	seed    = flag.Uint64("seed", 0, "seed of what is random; 0: another one each time")
)

// O6: a pool that shrinks again and again by a few machines that somebody named loses those, in
// whatever shards they are, each once, while servers come and go.
func TestO6_RandomLotsOfNamedMachines(t *testing.T) {
	s := startSystem(t, kube.ReadAudit)
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed=%d", *seed)
	random := rand.New(rand.NewPCG(*seed, 6))
	s.pool(t, "random", "shards: [a, b, c], rebalance: Never", *victims+2)
	began := time.Now()
	left := s.names(t, "random")
	var named []string
	for len(left) > 2 {
		lot := slices.Clone(left)
		random.Shuffle(len(lot), func(i, j int) { lot[i], lot[j] = lot[j], lot[i] })
		lot = lot[:1+random.IntN(min(4, len(left)-2))]
		for _, name := range lot {
			s.merge(t, "Machine", name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"yes"}}}`, clusterv1.DeleteMachineAnnotation))
		}
		named = append(named, lot...)
		left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(lot, name) })
		s.scale(t, "random", len(left))
		if shard := s.shards.Shards()[random.IntN(3)]; random.IntN(3) == 0 {
			s.shards.Kill(shard)
			s.shards.Start(shard)
		}
		kube.Await(t, fmt.Sprintf("%d are left", len(left)), s.settled("random", len(left)))
		if diff := cmp.Diff(left, s.names(t, "random")); diff != "" {
			t.Fatalf("Machines (-want +got):\n%s", diff)
		}
	}
	gone := s.deletedNodes(t, began)
	slices.Sort(gone)
	slices.Sort(named)
	if diff := cmp.Diff(named, gone); diff != "" {
		t.Errorf("Nodes (-that were named +that were deleted):\n%s", diff)
	}
	s.scale(t, "random", 0) // in its first minute a leader ends no machines of deleted groups
	kube.Await(t, "none is left", s.settled("random", 0))
}
