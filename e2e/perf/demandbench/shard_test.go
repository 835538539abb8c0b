package demandbench

import (
	"testing"

	"nstance.dev/server/demand"
)

// small is a shard in which everything of a large one is.
var small = shard{clusters: 2, machines: 2000, needs: 260}

// A shard that is measured has what its clusters ask for, and a cycle that takes a few Pods less or
// more in changes no machine.
func TestAShardIsAtRest(t *testing.T) {
	for _, s := range []shard{small, {clusters: 2, machines: 1800, needs: 776, same: 93}} {
		r, err := s.start(2)
		if err != nil {
			t.Fatal(err)
		}
		rows, bought := 0, r.ids
		for _, up := range r.rollups {
			rows += len(up.Rows)
		}
		if rows < s.needs*9/10 || rows > s.needs*11/10 {
			t.Errorf("%+v: %d rows", s, rows)
		}
		if bought > s.machines/10 {
			t.Errorf("%+v: %d machines were bought: it was not made to measure", s, bought)
		}
		var result demand.Result
		for range 10 {
			_, result = r.cycle(s.clusters)
			for _, a := range result.Actions {
				t.Errorf("%+v: %s", s, a)
			}
		}
		if result.Short > rows/20+rows*s.same/200 { // a rack whose machines have little left each counts as one with room
			t.Errorf("%+v: %d of %d rows are short: %+v", s, result.Short, rows, result.Shortfalls[0])
		}
		t.Logf("%+v: %d rows, %d machines bought, %d rows short", s, rows, bought, result.Short)
	}
}
