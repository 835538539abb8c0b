package shard

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges are the values of one metric, by its labels.
func (w *world) gauges(name string) map[string]float64 {
	w.t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(census{w.shard()})
	families, err := reg.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if v := m.GetGauge().GetValue(); v != 0 {
				found[strings.Join(labels, " ")] = v
			}
		}
	}
	return found
}

func TestMetricsCountWhatThereIs(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 3)
		w.settle(time.Minute)
		w.pauseScope("group", "web", 0)
		w.scale(web, 4)
		w.scale(theirs, 1)
		w.settle(time.Minute)
		for name, want := range map[string]map[string]float64{
			"nstance_instances":  {"web running default": 3, "web running b": 1},
			"nstance_group_size": {"web default": 4, "web b": 1},
			"nstance_groups":     {"paused": 1, "scaling": 1, "at-size": 1},
		} {
			if got := w.gauges(name); !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		if got := w.gauges("nstance_instances"); len(got) != 0 {
			t.Errorf("a server that does not lead counts %v", slices.Collect(maps.Keys(got)))
		}
		w.lead()
	})
}
