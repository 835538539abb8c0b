package importer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/shards/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// A group of mode demand becomes a pool with its bounds together, without a MachinePool; and it stays one pass
// after another.
func TestDemand_AGroupBecomesADemandPool(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for shard, most := range map[string]int32{"b": 3, "c": 2} {
			w.Shard(shard).AddGroup(tenant, shardtest.Group{Key: "batch", Size: 2, Demand: &nstancev1.DemandSettings{Max: proto.Int32(most), Configure: proto.String("agent")}})
		}
		w.After(time.Minute)
		for range 3 {
			w.mustPass()
		}
		made := slices.DeleteFunc(w.made(), func(text string) bool {
			return text != `pool batch [b c] "base" b=0,c=0` && text != "machinepool batch 0"
		})
		if diff := cmp.Diff([]string{`pool batch [b c] "base" b=0,c=0`}, made); diff != "" {
			t.Error(diff)
		}
		pool := &infrav1.NstanceMachinePool{}
		w.Get("batch", pool)
		if d := pool.Spec.Demand; d == nil || *d.Max != 5 || d.Configure != infrav1.ConfigureAgent || d.Min != nil {
			t.Errorf("spec.demand is %+v", d)
		}
		if n := len(w.Shard("b").Instances(tenant, "batch")); n != 2 {
			t.Errorf("%d machines, want the 2 that there were", n)
		}
	})
}
