package demandscale

import (
	"math"
	"strings"
	"testing"
)

func TestMetrics(t *testing.T) {
	const text = `# TYPE x histogram
x_bucket{state="a",le="0.1"} 90
x_bucket{state="a",le="1"} 98
x_bucket{state="a",le="+Inf"} 98
x_bucket{state="b",le="0.1"} 1
x_bucket{state="b",le="1"} 1
x_bucket{state="b",le="+Inf"} 2
x_sum{state="a"} 3
x_count{state="a"} 98
# TYPE z_total counter
z_total{outcome="done"} 5
z_total{outcome="failed"} 2
# TYPE y histogram
y_bucket{le="0.1"} 0
y_bucket{le="+Inf"} 0
`
	all, err := parseMetrics(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := all.sum("z_total"); got != 7 {
		t.Errorf("sum(z_total) = %v, want 7", got)
	}
	for _, c := range []struct {
		metric  string
		q, want float64
	}{{"x", 0.9, 0.1}, {"x", 0.99, 1}, {"x", 1, math.Inf(1)}, {"y", 0.99, math.NaN()}, {"z", 0.99, math.NaN()}} {
		if got := all.quantile(c.metric, c.q); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("quantile(%s, %v) = %v, want %v", c.metric, c.q, got, c.want)
		}
	}
}
