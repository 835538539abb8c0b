package demandbench

import "testing"

func benchmark(b *testing.B, s shard, dirty int) {
	r, err := s.start(2)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.cycle(dirty)
	}
}

func BenchmarkG1(b *testing.B) { benchmark(b, full, full.clusters) }
func BenchmarkG2(b *testing.B) { benchmark(b, full, 0) }
func BenchmarkG3(b *testing.B) { benchmark(b, full, 1) }
func BenchmarkG4(b *testing.B) { benchmark(b, many, many.clusters) }
func BenchmarkG6(b *testing.B) { benchmark(b, fivefold, fivefold.clusters) }
