package shard

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/driver/drivertest"
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

// TestMetricsCountEveryInstance: also what is on demand, not made yet, drained, or on its way
// out; not what has ended.
func TestMetricsCountEveryInstance(t *testing.T) {
	slow := drivertest.Conditions{DeleteTime: time.Hour}
	inWorld(t, worldOptions{Drain: "5m", Cloud: drivertest.Options{Conditions: slow}}, func(t *testing.T, w *world) {
		w.coordinate("default")
		ask := func() {
			req := InstanceRequest{Group: web.Name}
			if _, err := w.term().requests.CreateInstance(w.ctx, web.Tenant, req); err != nil {
				t.Fatal(err)
			}
		}
		end := func() {
			req := RemovalRequest{ID: w.members(web)[0].ID.String(), SkipDrain: true}
			if _, err := w.term().requests.DeleteInstance(w.ctx, web.Tenant, req); err != nil {
				t.Fatal(err)
			}
		}
		w.scale(web, 5)
		w.settle(time.Minute)
		ask()
		w.settle(time.Minute)
		w.cloud.SetConditions(drivertest.Conditions{})
		end() // it ends, and is replaced
		w.settle(time.Minute)
		w.cloud.SetConditions(slow)
		end() // it is replaced, and takes an hour to go
		w.settle(time.Minute)
		w.scale(web, 3)
		w.settle(time.Second)
		w.cloud.SetFaults(drivertest.Always(drivertest.OpCreate, drivertest.Fault{Latency: 4 * time.Second}))
		ask()
		w.settle(time.Second)
		want := map[string]float64{"web running default": 4, "web draining default": 2, "web terminating default": 1, "web pending default": 1}
		if got := w.gauges("nstance_instances"); !maps.Equal(got, want) {
			t.Errorf("nstance_instances: %v, want %v", got, want)
		}
	})
}

// TestMetricsOfAlarmsEndWithTheTerm: what a leader has alarms about is no alarm of the server that it was.
func TestMetricsOfAlarmsEndWithTheTerm(t *testing.T) {
	inWorld(t, worldOptions{}, func(t *testing.T, w *world) {
		w.scale(web, 10)
		w.settle(time.Minute)
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		w.overwrite(groupsKey, "{")
		w.lead()
		check := func(when string, want map[string]float64) {
			t.Helper()
			for _, name := range []string{"nstance_deletes_held", "nstance_dynamic_groups_held"} {
				if got := w.gauges(name); !maps.Equal(got, want) {
					t.Errorf("%s: %s is %v, want %v", when, name, got, want)
				}
			}
		}
		for _, vm := range w.vms(web)[:6] {
			w.cloud.Remove(vm.InstanceID)
		}
		w.settle(time.Minute)
		check("while it leads", map[string]float64{"": 1})
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		check("when it leads no more", map[string]float64{})
		w.lead()
	})
}
