package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The labels of demand mode.
var (
	byRollupPhase = Label{"phase", []string{"list", "build", "enqueue"}}
	byMessage     = Label{"kind", []string{"bootstrap_response", "reclaim_ack", "node_reports", "rollup", "node_state", other}}
	byMachine     = Label{"phase", []string{"speculative", "creating", "idle", "configuring", "configured", "draining", "deleting", "failed", "deleted", other}}
	byWrite       = Label{"op", []string{"create", "spec", "status", "delete"}}
	byResult      = Label{"outcome", []string{"done", "failed"}}
	byReclaim     = Label{"outcome", []string{"started", "refused", "drained", "failed"}}
)

var (
	rollupBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	ackBounds    = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
)

// The metrics of demand mode.
var (
	rollupTime       = Metric{"demand_operator_rollup_seconds", Histogram, []Label{byRollupPhase}, "Time that a round of roll-ups takes: to take in what has changed (list), to add it up (build) and to queue it (enqueue).", rollupBounds}
	rollupBytes      = Metric{"demand_operator_rollup_bytes", Gauge, []Label{byShard}, "Size of the last roll-up that was sent to a shard, the last one with rows where it is a reference.", nil}
	rollupRows       = Metric{"demand_operator_rollup_rows", Gauge, []Label{byShard}, "Rows of the last roll-up that was sent to a shard.", nil}
	rollupSkipped    = Metric{"demand_operator_rollup_skipped", Gauge, nil, "CapacityRequests and Pods that ask for what no roll-up can carry, and are left out.", nil}
	rollupMismatches = Metric{"demand_operator_rollup_mismatches_total", Counter, nil, "Full checks that found other sums than those that were kept in steps: an error of the operator.", nil}
	ackTime          = Metric{"demand_operator_ack_seconds", Histogram, nil, "Time from a roll-up to the acknowledgement of a CapacityRequest that was part of it.", ackBounds}
	acknowledgements = Metric{"demand_operator_acknowledged_total", Counter, []Label{byResult}, "CapacityRequests that were acknowledged; failed: the next roll-up does it.", nil}
	outboxDropped    = Metric{"demand_operator_outbox_dropped_total", Counter, []Label{byMessage}, "Messages of sessions that were dropped for want of room, or because they were not valid.", nil}
	reconnects       = Metric{"demand_operator_reconnects_total", Counter, []Label{byShard}, "Sessions with a shard that ended or did not begin, and were opened again.", nil}
	stateTime        = Metric{"demand_operator_node_state_update_seconds", Histogram, []Label{byMachine}, "Time to write down the state of a machine, by that state.", callBounds}
	upcomingWrites   = Metric{"demand_operator_upcoming_writes_total", Counter, []Label{byWrite, byResult}, "Writes of UpcomingNodes and AvailableCapacities.", nil}
	reclaims         = Metric{"demand_operator_reclaims_total", Counter, []Label{byReclaim}, "Nodes that shards have asked for: drains that began, Nodes that were refused, and drains that ended with the Node empty (drained) or with Pods left (failed).", nil}
	dispatchInflight = Metric{"demand_operator_dispatch_inflight", Gauge, nil, "Messages of shards that are being worked on.", nil}
)

// DemandMode returns the metrics of the sessions and roll-ups of demand mode.
func DemandMode() []Metric {
	return []Metric{
		rollupTime, rollupBytes, rollupRows, rollupSkipped, rollupMismatches, ackTime, acknowledgements, outboxDropped, reconnects, stateTime, upcomingWrites, reclaims, dispatchInflight,
	}
}

// Demand counts what demand mode does. It is safe for concurrent use; NewDemand makes one.
type Demand struct {
	rollupTime, ackTime, stateTime                                          *prometheus.HistogramVec
	rollupBytes, rollupRows, skipped, inflight                              *prometheus.GaugeVec
	mismatches, acknowledgements, outboxDropped, reconnects, upcomingWrites *prometheus.CounterVec
	reclaims                                                                *prometheus.CounterVec
}

// NewDemand returns metrics that a registry shows.
func NewDemand(registry prometheus.Registerer) *Demand {
	d := &Demand{
		rollupTime: rollupTime.histogram(), ackTime: ackTime.histogram(), stateTime: stateTime.histogram(), rollupBytes: rollupBytes.gauge(),
		rollupRows: rollupRows.gauge(), skipped: rollupSkipped.gauge(), inflight: dispatchInflight.gauge(), mismatches: rollupMismatches.counter(),
		acknowledgements: acknowledgements.counter(), outboxDropped: outboxDropped.counter(), reconnects: reconnects.counter(), upcomingWrites: upcomingWrites.counter(),
		reclaims: reclaims.counter(),
	}
	registry.MustRegister(
		d.rollupTime, d.ackTime, d.stateTime, d.rollupBytes, d.rollupRows, d.skipped, d.inflight, d.mismatches, d.acknowledgements, d.outboxDropped,
		d.reconnects, d.upcomingWrites, d.reclaims,
	)
	return d
}

// Built notes a round of roll-ups, and how many requests no roll-up can carry.
func (d *Demand) Built(list, build, enqueue time.Duration, skipped int) {
	for phase, took := range map[string]time.Duration{"list": list, "build": build, "enqueue": enqueue} {
		d.rollupTime.WithLabelValues(phase).Observe(took.Seconds())
	}
	d.skipped.WithLabelValues().Set(float64(skipped))
}

// Reclaimed notes what has become of a Node that a shard has asked for.
func (d *Demand) Reclaimed(outcome string) { d.reclaims.WithLabelValues(outcome).Inc() }

// Mismatch notes that sums were not those made from nothing.
func (d *Demand) Mismatch() { d.mismatches.WithLabelValues().Inc() }

// RollupSent notes a roll-up that was sent; reference: it says that it equals the one before.
func (d *Demand) RollupSent(shard string, bytes, rows int, reference bool) {
	if !reference {
		d.rollupBytes.WithLabelValues(shard).Set(float64(bytes))
	}
	d.rollupRows.WithLabelValues(shard).Set(float64(rows))
}

// Acknowledged notes a request that was acknowledged, or not.
func (d *Demand) Acknowledged(took time.Duration, err error) {
	d.acknowledgements.WithLabelValues(outcome(err)).Inc()
	if err == nil {
		d.ackTime.WithLabelValues().Observe(took.Seconds())
	}
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "done"
}

// Dropped notes a message that was dropped, by its kind.
func (d *Demand) Dropped(kind string) {
	d.outboxDropped.WithLabelValues(known(byMessage, kind)).Inc()
}

// Reconnect notes that another session with a shard is tried.
func (d *Demand) Reconnect(shard string) { d.reconnects.WithLabelValues(shard).Inc() }

// State notes the state of a machine that was written down, in the words of the contract.
func (d *Demand) State(state string, took time.Duration) {
	phase := strings.ToLower(strings.TrimPrefix(state, "MACHINE_STATE_"))
	d.stateTime.WithLabelValues(known(byMachine, phase)).Observe(took.Seconds())
}

// Wrote notes a write of an object that shows what shards say.
func (d *Demand) Wrote(operation string, err error) {
	if slices.Contains(byWrite.Values, operation) {
		d.upcomingWrites.WithLabelValues(operation, outcome(err)).Inc()
	}
}

// Inflight notes how many messages have begun (1) or ended (-1) to be worked on.
func (d *Demand) Inflight(change int) { d.inflight.WithLabelValues().Add(float64(change)) }

// ShardAdded begins to count for a shard, at zero, so that the first session that is opened again shows as a growth.
func (d *Demand) ShardAdded(shard string) { d.reconnects.WithLabelValues(shard) }

// ShardRemoved forgets a shard that is no longer in the configuration.
func (d *Demand) ShardRemoved(shard string) {
	labels := prometheus.Labels{byShard.Name: shard}
	d.rollupBytes.DeletePartialMatch(labels)
	d.rollupRows.DeletePartialMatch(labels)
	d.reconnects.DeletePartialMatch(labels)
}
