package groups

import (
	"context"
	"log/slog"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// Options are what a [Store] works with. All are required.
type Options struct {
	Objects   objectstore.Store
	Cache     *cache.Cache // its instances are read, its groups written
	Instances Instances
	Shard     string
	Term      uint64                  // of the leader: what it writes carries it
	Writes    objectstore.RetryPolicy // has each try of a write prove the lease (S2)
	Now       func() time.Time
	Log       *slog.Logger

	// Changed is told of every group that is not what it was, after it is in force. It must
	// not wait; calls for one group may overtake each other, so that what is in force counts
	// and not what is told.
	Changed func(Change)

	// Over reports whether err ends the leader's term, and ends it if so.
	Over func(err error) bool

	// Ended is closed when the term is over: nobody is kept waiting then.
	Ended <-chan struct{}

	// Go runs do in a goroutine with a context that ends with the term, and not at all once
	// the term is over.
	Go func(do func(ctx context.Context))
}

// Instances is what a [Store] asks of the records of instances.
type Instances interface {
	// Record returns a copy of a record, and whether there is one.
	Record(id identity.ID) (layout.InstanceRecord, bool)
	// TemplatesInUse are those that instances were made from whose machines may be there.
	TemplatesInUse() []groupfile.TemplateUse
}

// Change is what became of a group.
type Change struct {
	Event  Event
	Group  fleet.GroupID
	Before *effective.Group // nil: it did not exist
	After  *effective.Group // nil: it does not exist any more
}

// Event is the kind of a [Change].
type Event uint8

// The events.
const (
	Updated  Event = iota + 1 // it is new, or should be something else
	Removed                   // it does not exist any more
	Unlocked                  // it was static, has left the configuration, and goes on as a dynamic one
)
