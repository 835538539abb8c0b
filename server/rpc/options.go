package rpc

import (
	"log/slog"
	"time"

	"nstance.dev/server/calls"
	"nstance.dev/server/conns"
	"nstance.dev/server/lease"
	"nstance.dev/server/operatorapi"
	"nstance.dev/server/operatorauth"
	"nstance.dev/server/pki"
	"nstance.dev/server/shard"
)

// Options are what the listeners need of their process. The same value serves
// all three; fields without a default are required unless a comment says who
// alone reads them.
type Options struct {
	Cluster   string
	ShardName string
	Version   string // of the server program

	Shard     *shard.Shard
	Operators *operatorauth.Registry
	Verifier  func() *pki.NonceVerifier // nil while the keys are not known; registration only
	Config    operatorapi.Refresher     // operator only

	// Leader returns where the services of the shard's leader are; empty fields
	// are not told to anybody. Nil: never known.
	Leader func() lease.Addrs

	// Held is the lock under which this server leads; nil: there is none. Operator only.
	Held func() (lease.Document, bool)
	// StorageCalls are those to the object storage since this server leads; nil: they are not
	// known. Operator only.
	StorageCalls func() []calls.Stat

	// Connections are how many each listener may have at once; zero fields do not limit.
	Connections conns.Budget

	Metrics    *Metrics         // NewMetrics(nil)
	Reflection bool             // lets callers list the services; for debugging
	Log        *slog.Logger     // slog.Default
	Now        func() time.Time // time.Now
}

func (o *Options) defaults() {
	if o.Leader == nil {
		o.Leader = func() lease.Addrs { return lease.Addrs{} }
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}
