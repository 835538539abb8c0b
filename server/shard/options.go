package shard

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/pki"
	"nstance.dev/server/secrets"
	"nstance.dev/server/userdata"
)

// Options are what a Shard needs of its process. Required are those up to
// ServerHosts; each other says what its zero value means.
type Options struct {
	Cluster string
	Shard   string
	Version string // of the server program

	Store     objectstore.Store
	Driver    driver.Driver
	Cache     *cache.Cache
	Keys      func() *pki.Keys        // nil until the cluster has a CA; then leading may begin
	Secrets   func() secrets.Store    // where files of kind secret come from
	Addresses func() driver.Addresses // what agents and operators are told
	Metrics   *Metrics
	// ServerHosts are the names and addresses of servers, which no machine may have in
	// its certificates; nil: none are known.
	ServerHosts func() []string
	Drainers    Drainers // nil: nobody coordinates drains

	// ArchMismatch says why machines of an instance type are not of an architecture, as far
	// as the provider has said so before; nil: they are, or nothing is known.
	ArchMismatch func(instanceType, arch string) error

	// FetchUserdata gets user data that stands at an https address; by default
	// package userdata does.
	FetchUserdata func(ctx context.Context, address string) ([]byte, error)

	Tracer trace.Tracer                             // traces nothing
	Log    *slog.Logger                             // slog.Default
	Now    func() time.Time                         // time.Now
	NewID  func(prefix string) (identity.ID, error) // identity.NewID

	// Unpaced takes an agent's messages as fast as they come: for measurements alone.
	Unpaced bool

	// Jitter places a pause within its range: uniform from 0 to below 1; rand.Float64.
	// It is called by several goroutines at once.
	Jitter func() float64
}

// Drainers knows which tenants have somebody that moves the work off machines
// before they are deleted.
type Drainers interface {
	// Load reads what is known before anything is decided. It is called at each
	// take-over, and again until it returns nil.
	Load(ctx context.Context) error

	// Coordinated reports whether the machines of a tenant are waited for.
	Coordinated(tenant string) bool

	// Coordinate makes durable that an operator is to be waited for. Ctx is the
	// leadership.
	Coordinate(ctx context.Context, peer identity.Peer) error
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = identity.NewID
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.ArchMismatch == nil {
		o.ArchMismatch = func(string, string) error { return nil }
	}
	if o.FetchUserdata == nil {
		o.FetchUserdata = userdata.NewFetcher(nil).Fetch
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
}
