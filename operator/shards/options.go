package shards

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Target is a shard and where its servers are.
type Target struct {
	Shard     string
	Addresses []string // host:port of operator services, tried in turn; at least one
}

// Options are the settings of a [Set]; zero fields take the defaults.
type Options struct {
	Cluster     string      // id of the cluster; required
	Tenant      string      // whose certificate we have; required
	Credentials Credentials // required
	Sink        Sink        // required
	// Streams are received from each shard; those of groups and instances are required.
	Streams  []Stream
	Observer Observer
	// Manager is sent with every call as who looks after the groups; empty: nobody.
	Manager string
	// CoordinatesDrains tells the servers that work is moved away from condemned
	// instances and that this is acknowledged.
	CoordinatesDrains bool
	// Dial opens connections; nil: TCP.
	Dial DialFunc
	// PollInterval is how often everything is listed, with a tenth of jitter; 30s.
	PollInterval time.Duration
	// Grace is how long a shard may fail before it counts as unreachable; [DefaultGrace].
	Grace time.Duration
	// RedialGap is the time between two shards in [Set.Redial]; 10s.
	RedialGap time.Duration
	// Traces are where the spans of calls that change something go, and by which they are
	// known to the servers; nil: there are none.
	Traces trace.TracerProvider
	// Log may be nil: nothing is logged.
	Log *slog.Logger
	// Now is the clock; nil: time.Now. Random returns numbers in [0, 1); nil: rand.Float64.
	Now    func() time.Time
	Random func() float64
}

func (o Options) withDefaults() Options {
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.PollInterval <= 0 {
		o.PollInterval = 30 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.RedialGap <= 0 {
		o.RedialGap = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return o
}
