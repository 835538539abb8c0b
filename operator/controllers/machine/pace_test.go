package machine

import (
	"testing"
	"time"

	"nstance.dev/operator/cooloff"
)

// Of one group at most ten instances, or a quarter of a large one, are asked to end in a
// minute; other groups have their own.
func TestF37_S8_APaceOfDeletionsByName(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	web, db := cooloff.Place{Shard: "a", Group: "web"}, cooloff.Place{Shard: "a", Group: "db"}
	for _, test := range []struct{ there, want int }{{1, 10}, {40, 10}, {100, 25}} {
		var p pace
		took := 0
		for p.take(web, test.there, start) { // the group replaces them
			took++
		}
		if took != test.want {
			t.Errorf("of %d, %d were asked to end at once, want %d", test.there, took, test.want)
		}
		if wait := p.wait(web, test.there, start.Add(20*time.Second)); wait != 40*time.Second {
			t.Errorf("of %d, the next waits for %v, want 40s", test.there, wait)
		}
		if !p.take(db, 1, start) || !p.take(web, test.there, start.Add(time.Minute)) {
			t.Error("another group, or the next minute, waits")
		}
	}
}
