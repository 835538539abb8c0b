package readback

import (
	"fmt"
	"log/slog"
	"testing"

	"nstance.dev/operator/demand/readback"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Profiles come and go with what people run: of one that no shard speaks of any longer nothing is kept.
func TestProfilesThatAreGoneTakeNoMemory(t *testing.T) {
	w := New(Options{Log: slog.New(slog.DiscardHandler)})
	close(w.ready)
	w.said["stays"] = map[string]readback.Said{"a": {Shard: "a"}, "b": {Shard: "b"}}
	for _, fingerprint := range []string{"f0", "f1", "f2", "stays"} {
		u := &demandpb.AvailableCapacityUpdate{Fingerprint: fingerprint, Withdrawn: true}
		if fingerprint == "stays" {
			w.mu.Lock()
			w.unsay(fingerprint, "a")
			w.mu.Unlock()
			continue
		}
		if err := w.Capacity(t.Context(), "a", u); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.said) != 1 || len(w.said["stays"]) != 1 {
		t.Errorf("kept are %s", fmt.Sprint(w.said))
	}
}
