package lease_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/objectstore/memory"
)

// measured is what a server tells Prometheus of the lease; ages are rounded down to seconds.
func measured(t *testing.T, n *node) map[string]int {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(n.Metrics("example", "a"))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, family := range families {
		one := family.GetMetric()[0]
		if labels := one.GetLabel(); len(labels) != 2 || labels[0].GetValue() != "example" || labels[1].GetValue() != "a" {
			t.Errorf("%s has the labels %v", family.GetName(), labels)
		}
		found[family.GetName()] = int(one.GetGauge().GetValue())
	}
	return found
}

func metricsOf(leading, age, term int) map[string]int {
	all := map[string]int{"nstance_leading": leading, "nstance_lease_age_seconds": age, "nstance_lease_duration_seconds": 15}
	if term > 0 {
		all["nstance_lease_term"] = term
	}
	return all
}

// TestMetricsOfTheLease: every server knows how old the lease is, whoever leads, and goes on to count when nobody renews it.
func TestMetricsOfTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.add("a", nil)
		c.until(a, time.Second)
		b := c.add("b", nil)
		check := func(when string, n *node, want map[string]int) {
			t.Helper()
			if got := measured(t, n); !maps.Equal(got, want) {
				t.Errorf("%s, %s: %v, want %v", when, n.id, got, want)
			}
		}
		c.run(2 * time.Minute)
		for _, n := range []*node{a, b} {
			got := measured(t, n)
			if age := got["nstance_lease_age_seconds"]; age > 5 || n == a != (got["nstance_leading"] == 1) || got["nstance_lease_term"] != 1 {
				t.Errorf("%s: %v", n.id, got)
			}
		}
		late := func(call memory.Call) memory.Fault {
			if call.Op == memory.OpPut {
				return memory.Fault{Before: errors.New("not now")}
			}
			return memory.Fault{}
		}
		for measured(t, a)["nstance_lease_age_seconds"] != 1 || measured(t, b)["nstance_lease_age_seconds"] != 1 {
			c.run(100 * time.Millisecond)
		}
		c.store.SetFaults(late)
		c.run(9 * time.Second)
		check("renewals fail", a, metricsOf(1, 10, 1))
		check("renewals fail", b, metricsOf(0, 10, 1))
		c.run(10 * time.Second)
		check("the lease has run out", a, metricsOf(0, 20, 1))
		check("the lease has run out", b, metricsOf(0, 20, 1))
		c.store.SetFaults(nil)
		c.run(2 * time.Second)
		if got, other := measured(t, a), measured(t, b); got["nstance_leading"]+other["nstance_leading"] != 1 || got["nstance_lease_term"] < 2 || got["nstance_lease_age_seconds"] > 2 {
			t.Errorf("after it: %v and %v", got, other)
		}
		for measured(t, a)["nstance_lease_age_seconds"] != 3 || measured(t, b)["nstance_lease_age_seconds"] != 3 {
			c.run(100 * time.Millisecond)
		}
		stopAll(t, a, b)
		c.run(2 * time.Second)
		if got, other := measured(t, a), measured(t, b); got["nstance_leading"]+other["nstance_leading"] != 0 || min(got["nstance_lease_age_seconds"], other["nstance_lease_age_seconds"]) < 4 {
			t.Errorf("a lock that was released and that nobody takes is not renewed: %v and %v", got, other)
		}
	})
}

// TestMetricsBeforeAnyLock: a server that cannot see a lock counts from its start, and knows no term.
func TestMetricsBeforeAnyLock(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		c.store.Down(true)
		a := c.add("a", nil)
		c.run(20 * time.Second)
		if got, want := measured(t, a), metricsOf(0, 20, 0); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		stopAll(t, a)
	})
}
