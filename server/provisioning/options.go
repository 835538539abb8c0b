package provisioning

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/instances"
	"nstance.dev/server/layout"
	"nstance.dev/server/pki"
	"nstance.dev/server/traces"
)

// Options are what a [Launcher] works with. All are required but LongestCreate.
type Options struct {
	Owner     driver.Owner
	Instances *instances.Store
	Cache     *cache.Cache // of the same instances, which are read; images are kept in it
	Groups    Groups
	Liveness  Liveness
	Provider  Provider
	Keys      func() Keys
	Addresses func() driver.Addresses // what agents are told
	Traces    *traces.Traces
	Metrics   *Metrics
	Now       func() time.Time
	Log       *slog.Logger

	// Jitter places a pause within its range: uniform from 0 to below 1.
	Jitter func() float64

	// FetchUserdata gets user data that stands at an address.
	FetchUserdata func(ctx context.Context, address string) ([]byte, error)

	// LongestCreate is how long the provider may take to make a machine; nil: it is not slow.
	LongestCreate func() time.Duration

	// Go runs do in a goroutine with a context that ends with the term, and not at all once
	// the term is over.
	Go func(do func(ctx context.Context))

	// Wake has a group planned soon, WakeAfter after a while.
	Wake      func(group fleet.GroupID)
	WakeAfter func(group fleet.GroupID, after time.Duration)

	// Failed tells the group's tenant that something is wrong; id is empty where it is of no
	// instance.
	Failed func(group fleet.GroupID, id identity.ID, class, text string)

	// Condemn makes the decision to delete an instance durable.
	Condemn func(ctx context.Context, a fleet.Condemn) error

	// Over reports whether err ends the leader's term, and ends it if so.
	Over func(err error) bool
}

// Groups is what should be. [groups.Store] is one.
type Groups interface {
	// Config is the configuration in force.
	Config() *effective.Config
	// Find returns what is known of a group that exists, be it blocked or deleted.
	Find(id fleet.GroupID) (*effective.Group, bool)
	// Group is a group as decisions see it.
	Group(id fleet.GroupID) fleet.Group
	// Paused is what keeps machines from being made in a group; the zero Block: nothing does.
	Paused(id fleet.GroupID, now time.Time) fleet.Block
	// EntryToKeep is what the record of an instance keeps of the entry of its group.
	EntryToKeep(group *effective.Group, onDemand bool) json.RawMessage
}

// Liveness is told of create calls and of the machines that they make. [liveness.Monitor] is
// one.
type Liveness interface {
	CreateQueued(id identity.ID)
	CreateSent(id identity.ID)
	CreateAccepted(id identity.ID)
	Observe(m driver.Machine, asked time.Time) bool
	// Heard adds what was heard of instances to them.
	Heard(ins []fleet.Instance) []fleet.Instance
}

// Provider is what machines are asked of. [provider.Client] is one, and says more about the
// methods.
type Provider interface {
	WaitCreate(ctx context.Context) error
	CreateDelay(group fleet.GroupID) time.Duration
	TakeDelayed(group fleet.GroupID)
	CreatesWithin(group fleet.GroupID, span time.Duration) int
	Create(ctx context.Context, req driver.CreateRequest) (driver.Machine, error)
	ChecksSubnets() bool
	CheckSubnet(ctx context.Context, subnet string) (free int, err error)
	ResolvesImages() bool
	ResolveImage(ctx context.Context, query driver.ImageQuery) (id string, err error)
}

// Keys are what a new machine's trust is made of.
type Keys struct {
	Nonces *pki.NonceSigner
	CA     []byte // the bundle of the cluster's CA, in PEM
}

// Request is what sets one instance of a group apart from others.
type Request struct {
	OnDemand  bool
	Overrides effective.InstanceRequest
	Replaces  identity.ID // whose place it takes; empty: the group was short of one

	purchase *Purchase // nil: the group makes it
}

// Purchase is one machine of a group whose machines follow from demand.
type Purchase struct {
	InstanceType string
	CapacityType driver.CapacityType
	Reservation  string          // empty: none
	Binding      *layout.Binding // that its record begins with; nil: none
	Join         string          // what it takes to join, for the user data; a secret
	// Refused is told why the provider has refused to make the machine for good, before the instance
	// ends; nil: nobody is. It must not wait.
	Refused func(class driver.ErrorClass)
}
