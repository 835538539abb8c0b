package cache_test

import (
	"testing"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
)

// BenchmarkBulkInsert is what a take-over does: all rows of a shard at once,
// until they are in the file.
func BenchmarkBulkInsert(b *testing.B) {
	const shard = 10_000
	for b.Loop() {
		b.StopTimer()
		c, _ := openNew(b)
		rows := make([]cache.Instance, shard)
		for i := range rows {
			rows[i] = instance(b, web)
		}
		b.StartTimer()
		for _, in := range rows {
			must(b, c.Insert(in))
		}
		must(b, c.Flush(b.Context()))
		b.StopTimer()
		must(b, c.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*shard), "µs/row")
}

// BenchmarkReport is what each report of an agent costs, the writer included.
func BenchmarkReport(b *testing.B) {
	c, _ := openNew(b)
	var ids []identity.ID
	for range 1000 {
		in := instance(b, web)
		must(b, c.Insert(in))
		ids = append(ids, in.ID)
	}
	h := cache.Health{ReceivedAt: epoch, AgentVersion: "1.0.0", Uptime: "10m0s", Connected: true, Metrics: []byte("{}")}
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			c.Report(ids[i%len(ids)], h)
		}
	})
}

// BenchmarkGroup is what a decision pays to see a group of 1,000.
func BenchmarkGroup(b *testing.B) {
	c, _ := openNew(b)
	for range 1000 {
		must(b, c.Insert(instance(b, web)))
	}
	for b.Loop() {
		c.Fleet(web)
	}
}
