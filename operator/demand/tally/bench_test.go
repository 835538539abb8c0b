package tally

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"nstance.dev/operator/demand/split"
)

// crowd are 25,000 requests of some dozen kinds.
func crowd() []Request {
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]Request, 25_000)
	for i := range all {
		all[i] = Request{ID: fmt.Sprint("request-", i), Pod: fmt.Sprint("pod-", i), Spec: asks(int64(1+r.IntN(20)), inZone(fmt.Sprint("z", r.IntN(3))))}
	}
	return all
}

// Everything is added up from nothing.
func BenchmarkFull(b *testing.B) {
	all := crowd()
	b.ReportAllocs()
	for b.Loop() {
		t := New(Options{})
		t.SetShards([]split.Shard{{ID: "a"}})
		for _, r := range all {
			t.SetRequest(r)
		}
		if len(t.Rows(begin, "a")) == 0 {
			b.Fatal("no rows")
		}
	}
}

// 100 of them have changed.
func BenchmarkChange(b *testing.B) {
	all := crowd()
	t := one(Options{})
	for _, r := range all {
		t.SetRequest(r)
	}
	t.Rows(begin, "a")
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		for range 100 {
			n++
			r := all[n%len(all)]
			r.Spec = all[n*7%len(all)].Spec
			t.SetRequest(r)
		}
		if len(t.Rows(begin, "a")) == 0 {
			b.Fatal("no rows")
		}
	}
}
