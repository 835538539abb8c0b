package demandsim

import (
	"testing"
	"time"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/demandsim/leader"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
)

// The oracle has to see what an engine that is right never does. These tests let a world go on as it is, and then tell
// the oracle of cycles that never were.

// forged is a world at a moment of its plan.
func forged(t *testing.T, text string, at time.Duration) *world {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(p, sim.Options{}, Tamper{})
	w.play(at)
	if len(w.violated) > 0 {
		t.Fatalf("before anything is forged: %v", w.violated)
	}
	return w
}

// key is the need of a cluster that has one alone.
func (w *world) key(t *testing.T, cluster string) demand.Key {
	t.Helper()
	rows := w.oracle.of(cluster).force.Rows
	if len(rows) != 1 {
		t.Fatalf("%s has %d rows", cluster, len(rows))
	}
	return rows[0].Key
}

// configured is a machine of a cluster that has joined it.
func (w *world) configured(t *testing.T, cluster string) *leader.Record {
	t.Helper()
	for _, r := range w.store.Records {
		if r.Cluster == cluster && r.State == demand.Configured {
			return r
		}
	}
	t.Fatalf("%s has no machine", cluster)
	return nil
}

// lack is a cycle in which a cluster lacks something of its need.
func (w *world) lack(t *testing.T, cluster string) demand.Result {
	t.Helper()
	row := w.oracle.of(cluster).row(w.key(t, cluster))
	return demand.Result{Short: 1, Shortfalls: []demand.Shortfall{{Cluster: cluster, Need: row.Key, Priority: row.Priority, Deficit: vector.Vector{1000}, Reason: demand.QuotaExhausted}}}
}

// purchase is a cycle in which one more machine is bought for a cluster.
func (w *world) purchase(t *testing.T, cluster string) demand.Result {
	t.Helper()
	return demand.Result{Actions: []demand.Action{{
		Kind: demand.Provision, Disposition: demand.Execute, Machine: "m9999", Offer: offers[0].name(), Cluster: cluster, Need: w.key(t, cluster), Reason: demand.ReasonNeed,
	}}}
}

// broken are the promises that were found broken.
func (w *world) broken() (all []string) {
	for _, v := range w.violated {
		all = append(all, v.Promise)
	}
	return all
}

// TestE9_TheOracleSeesWhoseMachineIsTaken: a machine may be taken for any need of the priority domain that has a
// higher priority than those which draw from it, and for no other. That one of these did shows when it lacks
// something then, or gets a machine in its place.
func TestE9_TheOracleSeesWhoseMachineIsTaken(t *testing.T) {
	const high, low = "1m set cluster-a urgent high 9", "\n1m set cluster-b roll low 9"
	const equal = "1m set cluster-a urgent high 9\n1m set cluster-b urgent low 9"
	nothing := func(*testing.T, *world) demand.Result { return demand.Result{} }
	lack := func(t *testing.T, w *world) demand.Result { t.Helper(); return w.lack(t, "cluster-a") }
	purchase := func(t *testing.T, w *world) demand.Result { t.Helper(); return w.purchase(t, "cluster-a") }
	preempt := func(t *testing.T, w *world, from string, need demand.Key) {
		t.Helper()
		r := w.configured(t, from)
		w.oracle.decided(demand.Result{Actions: []demand.Action{{Kind: demand.Preempt, Disposition: demand.Execute, Machine: r.ID, Cluster: from, Need: need, Reason: demand.ReasonPreempted}}})
		r.State = demand.Draining
	}
	for _, tt := range []struct {
		name, plan string
		then       func(*testing.T, *world) demand.Result // the cycle after
		red        bool
	}{
		{"a lower one, and it is lacked", high + low, lack, true},
		{"a lower one, and another is bought", high + low, purchase, true},
		{"a lower one, and nobody misses it", high + low, nothing, false},
		{"an equal one, and it is lacked", equal, lack, true},
		{"an equal one, and another is bought", equal, purchase, true},
		{"a higher one, and it is lacked", "1m set cluster-a roll low 9\n1m set cluster-b urgent high 9", lack, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := forged(t, "set clusters 2\nset domain shared\n"+tt.plan, 8*time.Minute)
			preempt(t, w, "cluster-a", w.key(t, "cluster-b"))
			if len(w.violated) > 0 {
				t.Fatalf("who draws from it is not known yet: %v", w.violated)
			}
			w.oracle.decided(tt.then(t, w))
			if got := w.broken(); tt.red && (len(got) != 1 || got[0] != "E9") || !tt.red && len(got) > 0 {
				t.Errorf("red %t, want %t: %v", len(got) > 0, tt.red, w.violated)
			}
		})
	}
	for name, settings := range map[string]string{"another domain": "", "a need of nobody": "set domain shared\n"} {
		t.Run(name, func(t *testing.T) {
			w := forged(t, "set clusters 2\n"+settings+high+low, 8*time.Minute)
			need := w.key(t, "cluster-b")
			if settings != "" {
				need = demand.Key{1}
			}
			preempt(t, w, "cluster-a", need)
			if got := w.broken(); len(got) != 1 || got[0] != "E9" {
				t.Errorf("%v", w.violated)
			}
		})
	}
	t.Run("before the first roll-up, by what it was bound for", func(t *testing.T) {
		w := forged(t, "set clusters 2\nset domain shared\n"+high+low, 8*time.Minute)
		need := w.key(t, "cluster-b")
		w.oracle.of("cluster-a").reported = false
		preempt(t, w, "cluster-a", need)
		if got := w.broken(); len(got) != 1 || got[0] != "E9" {
			t.Errorf("%v", w.violated)
		}
	})
}

// TestE3_TheOracleSeesThatMoreIsBought than a cluster lacks: while its machines boot, and when they are there.
func TestE3_TheOracleSeesThatMoreIsBought(t *testing.T) {
	const text = "set boot 3m\n1m set cluster-a huge db 3" // each Pod has a machine
	for name, at := range map[string]time.Duration{"while they boot": 3 * time.Minute, "when they are there": 10 * time.Minute} {
		for _, tt := range []struct {
			name string
			what func(*world) // that happens before
			red  bool
		}{
			{"nothing has changed", func(*world) {}, true},
			{"one is lost", func(w *world) { w.store.Records[0].State = demand.Failed }, false},
			{"one goes", func(w *world) { w.store.Records[0].Condemned = true }, false},
			{"more is asked for", func(w *world) { w.oracle.of("cluster-a").version++ }, false},
		} {
			t.Run(name+", "+tt.name, func(t *testing.T) {
				w := forged(t, text, at)
				tt.what(w)
				w.oracle.decided(w.purchase(t, "cluster-a"))
				if got := w.broken(); tt.red && (len(got) != 1 || got[0] != "E3") || !tt.red && len(got) > 0 {
					t.Errorf("red %t, want %t: %v", len(got) > 0, tt.red, w.violated)
				}
			})
		}
	}
}
