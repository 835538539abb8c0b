package demand_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
)

// sized is a shard of clusters that have what they ask for.
type sized struct {
	clusters, machines, needs int // machines and needs in all
	same                      int // percent of the needs that ask for one rack
}

// build returns an engine with such a shard, and the roll-ups that it had.
func (s sized) build(b testing.TB, workers int) (*demand.Engine, []demand.Rollup, time.Time) {
	ids := 0
	engine, err := demand.New(demand.Settings{Workers: workers, MaxCreates: -1, NewID: func(string) string { ids++; return fmt.Sprintf("new%d", ids) }})
	if err != nil {
		b.Fatal(err)
	}
	sizes := []demand.Offer{
		offerOf("t/g", "small", 4, 16, 196_000), offerOf("t/g", "medium", 8, 32, 384_000), offerOf("t/g", "large", 16, 64, 760_000),
	}
	batch := []demand.Event{demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: sizes}}
	each, rows := s.machines/s.clusters, s.needs/s.clusters
	var rollups []demand.Rollup
	for c := range s.clusters {
		name := fmt.Sprintf("c%03d", c)
		var total vector.Vector
		for m := range each {
			o := sizes[m%3]
			batch = append(batch, demand.Observed{Machine: demand.Supply{
				ID: fmt.Sprintf("%s-%d", name, m), Offer: o.Name, Class: o.Class, State: demand.Configured, Cluster: name,
				Domains: map[string]string{"rack": fmt.Sprint("r", m/16)}, Price: o.PricePerHour, Since: epoch.Add(time.Duration(m) * time.Second),
			}})
			total[vector.CPU] += o.Class.Allocatable[0].Amount
		}
		r := demand.Rollup{Cluster: name}
		for n := range rows {
			cpu := []int64{350, 500, 1000, 2000, 4000}[n%5]
			pods := max(1, total[vector.CPU]*9/10/int64(rows)/cpu)
			need := row(fmt.Sprintf("%s.%d", name, n), int32(n%3), pods, cpu, cpu*gi/500)
			need.Fingerprint = fmt.Sprint("profile", n%50)
			if n*s.same/100 != (n+1)*s.same/100 {
				need.Terms.Requirements = []match.Requirement{{Key: "rack", Op: match.Same}}
				need.Group, need.Fingerprint = "g", need.Fingerprint+"same"
			}
			r.Rows = append(r.Rows, need)
		}
		rollups = append(rollups, r)
		batch = append(batch, demand.Session{Cluster: name, Live: true}, r)
	}
	engine.Step(epoch, batch)
	now := epoch
	for range 3 {
		now = now.Add(time.Second)
		engine.Step(now, nil)
	}
	return engine, rollups, now
}

// changed is a roll-up that differs from the one before in one row: the cluster is computed again.
func changed(r *demand.Rollup, i int) demand.Rollup {
	next := *r
	next.Rows = append([]demand.Row(nil), r.Rows...)
	next.Rows[0].Aggregate = append([]vector.Amount(nil), next.Rows[0].Aggregate...)
	next.Rows[0].Aggregate[0].Amount -= int64(i%2 + 1)
	next.Rows[0].MinUnit = append([]vector.Amount(nil), next.Rows[0].MinUnit...)
	next.Rows[0].MinUnit[0].Amount -= 2
	return next
}

func measure(b *testing.B, s sized, dirty int) {
	engine, rollups, now := s.build(b, 2)
	batches := [2][]demand.Event{}
	for i := range batches {
		for c := range dirty {
			batches[i] = append(batches[i], changed(&rollups[c], i))
		}
	}
	runtime.GC()
	var worst time.Duration
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		now = now.Add(100 * time.Millisecond)
		began := time.Now()
		engine.Step(now, batches[i%2])
		worst = max(worst, time.Since(began))
		i++
	}
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
}

var shard100k = sized{clusters: 20, machines: 100_000, needs: 2600}

func BenchmarkG1_FullRecompute(b *testing.B) { measure(b, shard100k, 20) }
func BenchmarkG2_QuietCycle(b *testing.B)    { measure(b, shard100k, 0) }
func BenchmarkG3_OneClusterDirty(b *testing.B) {
	measure(b, shard100k, 1)
}
func BenchmarkG4_RealisticNeeds(b *testing.B) {
	measure(b, sized{clusters: 110, machines: 100_000, needs: 42_680, same: 93}, 110)
}
func BenchmarkG6_HalfAMillion(b *testing.B) {
	measure(b, sized{clusters: 20, machines: 500_000, needs: 2600}, 20)
}

func BenchmarkG5_Reprovision(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		ids := 0
		engine, err := demand.New(demand.Settings{Workers: 2, MaxCreates: -1, NewID: func(string) string { ids++; return fmt.Sprintf("new%d", ids) }})
		if err != nil {
			b.Fatal(err)
		}
		batch := []demand.Event{demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: -1}}, demand.OffersChanged{Offers: []demand.Offer{offerOf("t/g", "small", 4, 16, 196_000)}}}
		for c := range 20 {
			var rows []demand.Row
			for n := range 130 {
				rows = append(rows, row(fmt.Sprintf("c%d.%d", c, n), 0, 77, 2000, 2*gi))
			}
			batch = append(batch, demand.Rollup{Cluster: fmt.Sprint("c", c), Rows: rows})
		}
		b.StartTimer()
		if n := len(engine.Step(epoch, batch).Actions); n < 90_000 {
			b.Fatalf("%d machines are bought", n)
		}
	}
}

func BenchmarkG7_Memory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		engine, _, _ := sized{clusters: 20, machines: 100_000, needs: 10_000}.build(b, 2)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapInuse-before.HeapInuse)/(1<<20), "MB")
		runtime.KeepAlive(engine)
	}
}

// G8: a quiet cycle allocates nothing, one that computes everything again little.
func TestQuietCycleAllocatesNothing(t *testing.T) {
	s := sized{clusters: 4, machines: 2000, needs: 400, same: 50}
	engine, _, now := s.build(t, 1)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(100 * time.Millisecond)
		engine.Step(now, nil)
	}); n != 0 {
		t.Errorf("%.0f allocations in a quiet cycle", n)
	}
}
