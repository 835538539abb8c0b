package metrics

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// shelf takes collectors as a registry does, and keeps what they say of themselves.
type shelf struct {
	prometheus.Registerer

	described []string
}

func (s *shelf) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		kind := Gauge
		switch c.(type) {
		case *prometheus.CounterVec:
			kind = Counter
		case *prometheus.HistogramVec:
			kind = Histogram
		}
		descs := make(chan *prometheus.Desc, 100)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			s.described = append(s.described, string(kind)+" "+d.String())
		}
	}
}

func TestTheCatalogueIsWhatTheRegistryShows(t *testing.T) {
	registry := &shelf{}
	New(registry)
	NewPods(registry)
	NewDemand(registry)
	NewBootstrap(registry)
	NewHosts(nil, registry, nil)
	registry.MustRegister(Objects{})
	var want []string
	for _, m := range All() {
		want = append(want, string(m.Kind)+" "+m.desc().String())
	}
	slices.Sort(want)
	slices.Sort(registry.described)
	if diff := cmp.Diff(want, registry.described); diff != "" {
		t.Error(diff)
	}
}

func TestSeriesAreAllValuesTogether(t *testing.T) {
	one, two := Label{"a", []string{"x", "y"}}, Label{"b", []string{"1", "2"}}
	for _, test := range []struct {
		name   string
		labels []Label
		want   [][]string
	}{
		{"no labels", nil, [][]string{nil}},
		{"two", []Label{one, two}, [][]string{{"x", "1"}, {"x", "2"}, {"y", "1"}, {"y", "2"}}},
		{"one that can be anything", []Label{one, byShard}, nil},
	} {
		if diff := cmp.Diff(test.want, (Metric{Labels: test.labels}).series()); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}
