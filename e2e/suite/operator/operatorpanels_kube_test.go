//go:build kube && operator

package operator_test

import (
	"testing"

	"nstance.dev/e2e/env/kube"
)

// What dashboards and alerts ask of pools, drains and shards has an answer in the metrics of an operator that does its work:
// a pool grows, Nodes are drained, a shard goes and comes back. A counter has a rate once it has been scraped twice.
func TestPanelsOfTheOperatorHaveValues(t *testing.T) {
	s := startSystem(t)
	var seen seenPanels
	seen.scrape(t, s)
	s.pool(t, "looked-at", "shards: [a, b, c], rebalance: Never", 2)
	for size := 3; size <= 4; size++ {
		drained := s.names(t, "looked-at")[0]
		s.shards.DeleteInstance(s.shardOf(t, drained), drained, false)
		kube.Await(t, "it is gone", s.gone("Machine", drained))
		s.scale(t, "looked-at", size)
		kube.Await(t, "the pool has grown, and another one runs instead", s.settled("looked-at", size))
		seen.scrape(t, s)
	}
	s.shards.Kill("b")
	kube.Await(t, "the shard is missed", s.reachable("looked-at", "b", "False"))
	seen.scrape(t, s)
	s.shards.StartAnew("b")
	kube.Await(t, "the shard is back", s.reachable("looked-at", "b", "True"))
	kube.Await(t, "all is as it was", s.settled("looked-at", 4))
	seen.scrape(t, s)
	seen.evaluate(t, s, "nstance_operator_", 30, map[string]string{
		"Time until a Pod has the Node that it asked for": "no Pod asks for a machine",
		"Growth that went past a shard":                   "each shard takes its part",
		"Errors of providers":                             "the provider makes what it is asked for",
	}, `code!="OK"`) // who calls a shard that is away fails
	s.scale(t, "looked-at", 0)
	kube.Await(t, "none is left", s.settled("looked-at", 0))
}
