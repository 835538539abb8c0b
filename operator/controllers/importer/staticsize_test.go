package importer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestO3_AnEditedStaticSizeIsTold(t *testing.T) {
	file := func(size, static int) Group {
		return Group{Key: "workers", Size: size, Static: true, StaticSize: &static}
	}
	imported := Pool{Name: "workers", Group: "workers", Shards: []string{"a", "b"}, ImportedFrom: "a=3,b=2", Complete: true}
	byPerson := Pool{Name: "mine", Group: "workers", Shards: []string{"a", "b"}, Complete: true}
	told := func(pool, sizes string) []Step {
		return []Step{ReportStaticSize{pool, "the configuration of the servers gives group workers the size " + sizes +
			"; that is not followed, for the size is the MachinePool's"}}
	}
	for _, tt := range []struct {
		name   string
		shards []Shard
		pool   Pool
		want   []Step
	}{
		{"as it was imported", []Shard{listed("a", file(3, 3)), listed("b", file(2, 2))}, imported, nil},
		{"scaled since", []Shard{listed("a", file(5, 3)), listed("b", file(4, 2))}, imported, nil},
		{"edited on one", []Shard{listed("a", file(3, 7)), listed("b", file(2, 2))}, imported, told("workers", "7 on a")},
		{"edited on both", []Shard{listed("a", file(3, 7)), listed("b", file(2, 1))}, imported, told("workers", "7 on a, 1 on b")},
		{"edited to what there is", []Shard{listed("a", file(5, 5)), listed("b", file(4, 4))}, imported, nil},
		{"nothing said in the file", []Shard{listed("a", workers(3)), listed("b", workers(2))}, imported, nil},
		{"a person's pool came first", []Shard{listed("a", file(3, 5))}, byPerson, told("mine", "5 on a")},
		{"not on this pool's shards", []Shard{listed("c", file(3, 5))}, Pool{Name: "mine", Group: "workers", Shards: []string{"a"}, Deleting: true}, nil},
		{"on its way out", []Shard{listed("a", file(3, 7))}, Pool{Name: "mine", Group: "workers", Shards: []string{"a"}, Deleting: true}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Plan(Input{Shards: tt.shards, Pools: []Pool{tt.pool}}) // also where nothing is imported
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
