package instances

import (
	"slices"
	"testing"

	"nstance.dev/protos/identity"
	"nstance.dev/server/layout"
)

func TestPredecessors(t *testing.T) {
	ended := &layout.Deletion{}
	records := map[identity.ID]layout.InstanceRecord{
		"a": {},
		"b": {Replaces: "a", Deletion: ended},
		"c": {Replaces: "b"},
		"d": {Replaces: "c"},
		"e": {Replaces: "f", Deletion: ended},
		"f": {Replaces: "e", Deletion: ended},
		"g": {Replaces: "f"},
		"h": {Replaces: "gone"},
	}
	rs := newArchive(t).term()
	for id, rec := range records {
		rec.ID = id
		rs.records.seed(rec, "etag")
	}
	want := map[identity.ID][]identity.ID{
		"b": {"a"}, "c": {"b", "a"}, "d": {"c"}, "e": {"f"}, "f": {"e"}, "g": {"f", "e"}, "h": {"gone"},
	}
	for id := range records {
		rec, _ := rs.Record(id)
		if got := rs.records.replacedBy(rec); !slices.Equal(got, want[id]) {
			t.Errorf("%s takes the place of %v, want %v", id, got, want[id])
		}
	}
}
