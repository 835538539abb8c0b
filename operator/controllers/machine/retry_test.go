package machine_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"nstance.dev/operator/shards/shardtest"
)

// A shard that fails to delete is asked with growing pauses, whatever else wakes the machine.
func TestO6_AFailingDeletionIsRepeatedWithGrowingPauses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.live(10 * time.Second)
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"DeleteInstance": shardtest.Refusal(codes.Internal, "", "storage refuses writes")}})
		if err := w.client.Delete(t.Context(), w.get()); err != nil {
			t.Fatal(err)
		}
		w.live(10 * time.Minute)
		if n := w.Shard("a").Count("DeleteInstance"); n < 5 || n > 14 {
			t.Errorf("%d calls in ten minutes", n)
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.live(7 * time.Minute)
		if w.get() != nil || len(w.instances("a")) != 0 {
			t.Error("the instance stays after the shard works again")
		}
	})
}
