package rollup

import (
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/demand/split"
	"nstance.dev/operator/demand/tally"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/operator/nodes"
	"nstance.dev/protos/needs"
)

// Options are the settings of a [Controller] and its surroundings; all are required unless said.
type Options struct {
	Tally tally.Options
	// Overheads tells the shards what each machine carries for DaemonSets.
	Overheads bool
	// Interval is the time between roll-ups of a shard. A change is sent within Least; with a Least of 0
	// it waits for the interval.
	Interval, Least time.Duration
	// Acknowledgements is how many patches are under way at once.
	Acknowledgements int
	// Translation returns how Pods are translated now.
	Translation func() translate.Options

	// Cache is for Pods, CapacityRequests, claims, volumes, storage classes and DaemonSets; it has what was heard of, or
	// what came after, once it has listed the kind. It is for Namespaces, too, once a Pod has to be
	// near Pods of those that it selects.
	Cache client.Reader
	// Writer acknowledges requests, and lists some past the cache. It has limits of its own.
	Writer client.Client
	// Shards returns the shards in the order of the configuration, with their zones where they
	// are known.
	Shards func() []split.Shard
	// Machines returns what the shards say of all machines; Known whether a shard has said all
	// of them since it was connected.
	Machines func() []Machine
	Known    func(shard string) bool
	// Send queues the roll-up of a shard; false: no session stands. What it points to is never
	// changed again.
	Send func(shard string, rows []*needs.Row, overheads []needs.Overhead) bool
	// Asked hears after each round of roll-ups of the fingerprints of all profiles that are asked for; nil:
	// nobody does.
	Asked    func(fingerprints map[string]bool)
	Observer Observer
	Log      *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Machine is what a shard says of one machine.
type Machine struct {
	Shard string
	nodes.Instance
}

// Observer hears what happens, for metrics. Nil functions are left out.
type Observer struct {
	// Built reports a round of roll-ups: how long it took to take in what has changed, to add it
	// up and to queue it, how many shards got one, and how many requests could not be part of any.
	Built func(list, build, enqueue time.Duration, shards, skipped int)
	// Mismatch reports that sums which were kept in steps differed from a full count.
	Mismatch func()
	// Acknowledged reports a request that was acknowledged, or not, and how long after the roll-up.
	Acknowledged func(took time.Duration, err error)
}

func (o Observer) built(list, build, enqueue time.Duration, shards, skipped int) {
	if o.Built != nil {
		o.Built(list, build, enqueue, shards, skipped)
	}
}

func (o Observer) mismatch() {
	if o.Mismatch != nil {
		o.Mismatch()
	}
}

func (o Observer) acknowledged(took time.Duration, err error) {
	if o.Acknowledged != nil {
		o.Acknowledged(took, err)
	}
}
