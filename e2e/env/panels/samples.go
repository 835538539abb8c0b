package panels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Samples are what was collected. The zero value has none. They are not safe for concurrent use.
type Samples struct {
	series []*series
	byName map[string]*series // by the text of its labels
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// Add takes in what a target has answered to a scrape at a time, which is after those before. The
// target's labels win, as in Prometheus: one that the program has itself goes on as exported_….
func (s *Samples) Add(target map[string]string, text string, at time.Time) error {
	if s.byName == nil {
		s.byName = map[string]*series{}
	}
	parser := textparse.NewPromParser([]byte(text))
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read metrics of %v: %w", target, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var found labels.Labels
		parser.Metric(&found)
		_, _, value := parser.Series()
		s.add(labelled(found, target), sample{timestamp.FromTime(at), value})
	}
}

// labelled are the labels of a series with those of its target.
func labelled(found labels.Labels, target map[string]string) labels.Labels {
	b := labels.NewBuilder(found)
	for name, value := range target {
		if own := found.Get(name); own != "" {
			b.Set("exported_"+name, own)
		}
		b.Set(name, value)
	}
	return b.Labels()
}

func (s *Samples) add(of labels.Labels, one sample) {
	known := s.byName[of.String()]
	if known == nil {
		known = &series{labels: of}
		s.byName[of.String()] = known
		s.series = append(s.series, known)
	}
	known.samples = append(known.samples, one)
}

// Query evaluates a query at a time. A scalar is a vector of one.
func (s *Samples) Query(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
	})
	query, err := engine.NewInstantQuery(ctx, s, promql.NewPrometheusQueryOpts(false, 0), expr, at)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, result.Err)
	}
	switch value := result.Value.(type) {
	case promql.Vector:
		return append(promql.Vector{}, value...), nil // the query's own is used again
	case promql.Scalar:
		return promql.Vector{{T: value.T, F: value.V}}, nil
	default:
		return nil, fmt.Errorf("query %s: the answer is a %s, which no panel shows", expr, result.Value.Type())
	}
}

// Querier implements [storage.Queryable].
func (s *Samples) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{of: s, mint: mint, maxt: maxt}, nil
}

// querier is a [storage.Querier] between two times.
type querier struct {
	of         *Samples
	mint, maxt int64
}

// Select implements [storage.Querier].
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, one := range q.of.series {
		if !matches(one.labels, matchers) {
			continue
		}
		var between []chunks.Sample
		for _, s := range one.samples {
			if s.T() >= q.mint && s.T() <= q.maxt {
				between = append(between, s)
			}
		}
		if len(between) > 0 {
			set.left = append(set.left, storage.NewListSeries(one.labels, between))
		}
	}
	return set
}

func matches(of labels.Labels, all []*labels.Matcher) bool {
	for _, m := range all {
		if !m.Matches(of.Get(m.Name)) {
			return false
		}
	}
	return true
}

// LabelValues implements [storage.Querier]; the engine does not ask.
func (querier) LabelValues(context.Context, string, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// LabelNames implements [storage.Querier]; the engine does not ask.
func (querier) LabelNames(context.Context, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// Close implements [storage.Querier].
func (querier) Close() error { return nil }

// seriesSet goes through series.
type seriesSet struct {
	now  storage.Series
	left []storage.Series
}

// Next implements [storage.SeriesSet].
func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.now, s.left = s.left[0], s.left[1:]
	return true
}

// At implements [storage.SeriesSet].
func (s *seriesSet) At() storage.Series { return s.now }

// Err implements [storage.SeriesSet].
func (*seriesSet) Err() error { return nil }

// Warnings implements [storage.SeriesSet].
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// sample is one number.
type sample struct {
	t int64
	f float64
}

// T implements [chunks.Sample], like the others.
func (s sample) T() int64                    { return s.t }
func (s sample) F() float64                  { return s.f }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
