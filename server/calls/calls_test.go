package calls

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestABookTellsHowCallsWent(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name string
		note func(*Book)
		want []Stat
	}{
		{"nothing was called", func(*Book) {}, nil},
		{"one call is all of them", func(b *Book) { b.Note("get", 3*ms, Answered) },
			[]Stat{{Operation: "get", Calls: 1, Mean: 3 * ms, P50: 3 * ms, P99: 3 * ms}}},
		{"the slowest of a hundred is not among the 99", func(b *Book) {
			for i := range 100 {
				b.Note("get", time.Duration(i+1)*ms, Answered)
			}
		}, []Stat{{Operation: "get", Calls: 100, Mean: 50*ms + 500*time.Microsecond, P50: 50 * ms, P99: 99 * ms}}},
		{"a throttled call is an error as well", func(b *Book) {
			b.Note("put", ms, Failed)
			b.Note("put", ms, Throttled)
			b.Note("put", ms, Answered)
		}, []Stat{{Operation: "put", Calls: 3, Errors: 2, Throttled: 1, Mean: ms, P50: ms, P99: ms}}},
		{"operations are apart, in the order of their names", func(b *Book) {
			b.Note("list", 2*ms, Answered)
			b.Note("get", ms, Answered)
		}, []Stat{
			{Operation: "get", Calls: 1, Mean: ms, P50: ms, P99: ms},
			{Operation: "list", Calls: 1, Mean: 2 * ms, P50: 2 * ms, P99: 2 * ms},
		}},
		{"times are those of the last calls, counts of all", func(b *Book) {
			for range 100 {
				b.Note("get", time.Hour, Failed)
			}
			for range kept {
				b.Note("get", ms, Answered)
			}
		}, []Stat{{Operation: "get", Calls: 100 + kept, Errors: 100, Mean: ms, P50: ms, P99: ms}}},
		{"an opened book has forgotten what was before", func(b *Book) {
			b.Note("get", time.Hour, Failed)
			b.Open()
			b.Note("get", ms, Answered)
		}, []Stat{{Operation: "get", Calls: 1, Mean: ms, P50: ms, P99: ms}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b Book
			c.note(&b)
			if diff := cmp.Diff(c.want, b.Stats()); diff != "" {
				t.Errorf("stats (-want +got):\n%s", diff)
			}
		})
	}
}

func TestABookIsWrittenByMany(t *testing.T) {
	var b Book
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				b.Note("get", time.Microsecond, Answered)
				_ = b.Stats()
			}
		})
	}
	all.Wait()
	if got := b.Stats()[0].Calls; got != 8000 {
		t.Errorf("calls: %d, want 8000", got)
	}
}
