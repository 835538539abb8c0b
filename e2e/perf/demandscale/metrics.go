package demandscale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics of the operator.
const (
	stateMetric   = "nstance_demand_operator_node_state_update_seconds" // how long it takes to write down the state of a machine
	rollupsMetric = "nstance_demand_operator_rollup_seconds_count"      // rounds of roll-ups, times their phases
	rowsMetric    = "nstance_demand_operator_rollup_rows"               // of the last roll-up
	bytesMetric   = "nstance_demand_operator_rollup_bytes"              // of the last roll-up
)

// stateTime is within how many seconds 99 of 100 states were written, as far as the buckets of
// the operator's metric tell.
func (w *world) stateTime() float64 {
	w.t.Helper()
	all, err := w.metrics(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return all.quantile(stateMetric, 0.99)
}

// metrics reads those of the operator.
func (w *world) metrics(ctx context.Context) (metrics, error) {
	text, err := w.Metrics(ctx)
	if err != nil {
		return metrics{}, fmt.Errorf("metrics of the operator: %w", err)
	}
	return parseMetrics(strings.NewReader(text))
}

// metrics are samples in the order in which they were exposed.
type metrics struct{ samples model.Vector }

func parseMetrics(text io.Reader) (metrics, error) {
	decoder := expfmt.SampleDecoder{Dec: expfmt.NewDecoder(text, expfmt.NewFormat(expfmt.TypeTextPlain)), Opts: &expfmt.DecodeOptions{}}
	var all, some model.Vector
	for {
		err := decoder.Decode(&some)
		if errors.Is(err, io.EOF) {
			return metrics{all}, nil
		}
		if err != nil {
			return metrics{}, fmt.Errorf("metrics of the operator: %w", err)
		}
		all = append(all, some...)
	}
}

// sum is that of all series of a metric; 0 where there is none.
func (m metrics) sum(metric string) (sum float64) {
	for _, s := range m.samples {
		if string(s.Metric[model.MetricNameLabel]) == metric {
			sum += float64(s.Value)
		}
	}
	return sum
}

// quantile returns the bound of the least bucket of a histogram that has a share of q of all that
// was counted, whatever its labels; NaN where nothing was.
func (m metrics) quantile(metric string, q float64) float64 {
	counts := map[float64]float64{} // by upper bound
	for _, s := range m.samples {
		if string(s.Metric[model.MetricNameLabel]) != metric+"_bucket" {
			continue
		}
		if bound, err := strconv.ParseFloat(string(s.Metric[model.BucketLabel]), 64); err == nil {
			counts[bound] += float64(s.Value)
		}
	}
	total := counts[math.Inf(1)]
	bounds := make([]float64, 0, len(counts))
	for bound := range counts {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	for _, bound := range bounds {
		if total > 0 && counts[bound] >= q*total {
			return bound
		}
	}
	return math.NaN()
}
