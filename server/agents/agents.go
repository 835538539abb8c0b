// Package agents serves the agents of one shard: it lets new ones register, takes their
// streams, and gives them certificates again before theirs run out.
//
//   - A [Service] does so for one leader's term: [Service.Register], [Service.Connect].
//   - What an agent says, it passes on: reports to [Liveness], what concerns the files of the
//     machine to [Files], its binding to a cluster to [Clusters], and its node machine to
//     [Machines]. What they want to say, and what the service has to say itself, waits in the
//     stream's queue.
//   - [Parking] keeps the streams from one term to the next, where storage was away and no
//     other server led: no machine notices (F1).
//
// A stream does not know the service, but a handler with four methods, in an atomic pointer:
// nil while it is parked. A message is dealt with from beginning to end by the handler that it
// was handed to. What that one says after the stream has changed hands is dropped, and the
// proof of the lease right before a message leaves is that of the handler that said it (S2).
//
// Whether an instance is well, what its machine is to have, and what becomes of it is decided
// elsewhere. A certificate leaves only when the record of its instance names it (S9).
//
// Lock order: a stream's entry, which is its turn to be attached or detached; the instance's turn
// for that; the registry's; the parking's; a stream's own. An instance's turn to register and
// the lock of names and addresses are taken without them. Files and Liveness hear of
// connections in the two turns, which keep what they are told in order, Clusters and Machines
// in the second one, and all of them under none of the others: they may call the service, and
// must not wait for a stream. The functions among
// [Options] are called under none of these.
package agents

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/filesync"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/pki"
)

// Options are what a [Service] works with. All are required but those that say otherwise.
type Options struct {
	Cluster, Shard string
	Version        string // of the server program; may be empty
	Term           uint64

	Instances *instances.Store
	Cache     *cache.Cache // of the same instances; reports and the agents' keys are noted there
	Liveness  Liveness
	Files     Files
	Clusters  Clusters // nil: nobody makes machines join clusters
	Machines  Machines // nil: nobody has node machines built
	Parking   *Parking // where streams stay when the lease is lost; nil: nowhere

	Config      func() *document.Config // in force
	Keys        func() Keys
	ServerHosts func() []string // names and addresses that no machine may have; nil: none are known

	// Failed tells the tenant of an instance that something is wrong with it, by class.
	Failed func(in cache.Instance, class, text string)

	// Trace begins the span of a registration, which the result ends with its outcome.
	Trace func(ctx context.Context, in cache.Instance) (ended func(error))

	// Unavailable is the answer where storage does not take a record.
	Unavailable func(err error) error

	// Go runs a function in a goroutine that the leader's term waits for.
	Go func(func())

	// Over reports whether err ends the leader's term, and ends it if so.
	Over func(err error) bool

	Unpaced bool // an agent's messages are taken as fast as they come: for measurements alone
	Metrics *Metrics
	Now     func() time.Time
	Log     *slog.Logger
}

// Keys are what certificates of agents are issued and nonces are checked with.
type Keys struct {
	Authority *pki.Authority
	Verifier  *pki.NonceVerifier
}

// Liveness is told of the agents' signs of life. [liveness.Monitor] is one.
type Liveness interface {
	Connected(id identity.ID)
	Disconnected(id identity.ID, graceful bool)
	Reported(id identity.ID, single bool)
	Notice(id identity.ID, notice fleet.Notice)
}

// Files brings machines their files by way of the agents' streams. [filesync.Syncer] is one.
type Files interface {
	Connect(id identity.ID, line filesync.Line)
	Greet(id identity.ID, line filesync.Line)
	Disconnect(id identity.ID, line filesync.Line)
	Wake(id identity.ID) // there is room on the line again, where there was none
	Heard(id identity.ID, report *nstancev1.HealthReport)
	KeyNames(id identity.ID) []string // those that the agent is to make
	KeysStored(id identity.ID)
}
