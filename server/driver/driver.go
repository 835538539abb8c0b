// Package driver is the boundary between a shard server and a cloud.
//
// A [Driver] speaks for one account of one provider. The server decides and the
// driver obeys: it keeps no wanted state, takes no scaling decision and never
// calls back. What the server must know to decide comes out of [Driver.List] and
// [Driver.Get]; what it must know to react to a failure is the [ErrorClass] of the error.
//
// Abilities that only some clouds have are interfaces of their own, found by
// type assertion: [SubnetChecker], [TypeValidator], [TypeCatalog], [ImageResolver],
// [Balancer], [LeaderNetwork], [SelfIdentifier], [Powerer], [Resumer], [Outputter], [Closer] and [URIer]. A
// driver that wraps another keeps its abilities only if it passes them on. Rate limits, metrics,
// the lease check and time-outs wrap a Driver from outside, so that no driver
// repeats them.
//
// Package drivertest holds the contract as a test suite and a fake cloud with
// faults; every driver passes the suite. What else a new provider touches, from the workspace to
// the release, is listed in CONTRIBUTING.md, "A new provider".
package driver

import (
	"context"
	"net/netip"
	"time"

	"nstance.dev/protos/identity"
)

// Driver creates, finds and deletes the machines of one provider account.
//
// Methods are safe for concurrent use, and safe to repeat: after a crash the
// server calls again without knowing whether the first call arrived. Every
// error they return matches one [ErrorClass] by errors.As on [*Error]; an error
// without one counts as [Ambiguous].
type Driver interface {
	// Create asks for one machine and does not wait for it to boot. Two calls
	// with the same InstanceID and equal requests yield the same machine. A
	// machine whose deletion was asked for is not created again: the error is
	// of class Invalid. So is that of a request whose capacity type the provider does
	// not serve, or whose arguments say something else of how the machine is paid for. Where a cloud keeps no trace of what is gone, a driver may
	// forget that with its process; no server repeats the create of another one.
	Create(ctx context.Context, req CreateRequest) (Machine, error)

	// Get returns one machine, or an error of class NotFound. Absence is no
	// proof before [Driver.Lag] has passed since its creation; the status
	// Deleted, of a machine that the cloud still remembers, is.
	Get(ctx context.Context, ref Ref) (Machine, error)

	// List returns every machine of the owner, those being deleted included and
	// those that are Deleted left out. A partial listing is an error, never a
	// short slice.
	List(ctx context.Context, owner Owner) ([]Machine, error)

	// Delete asks for the end of a machine: nil once the cloud has accepted it,
	// and for a machine that does not exist. That it is gone, Get and List say.
	Delete(ctx context.Context, ref Ref) error

	// Limits are the call rates that the provider grants by default.
	Limits() Limits

	// Lag is the longest time until an accepted create or delete shows in Get
	// and List. Zero: at once.
	Lag() time.Duration
}

// SlowCreator is a driver of a cloud that takes its time to make a machine, because it
// copies a disk or waits for a place.
type SlowCreator interface {
	// LongestCreate is the longest time from a create until the machine runs. What a
	// machine is given at its create has to be good for that long and longer.
	LongestCreate() time.Duration
}

// Owner selects machines by the tags every created machine carries.
type Owner struct {
	Cluster string
	Shard   string
}

// Ref names a machine. InstanceID is the authority; ProviderID, where it is
// known, spares the cloud a search.
type Ref struct {
	InstanceID identity.ID
	ProviderID string // the provider's own id of the machine, such as i-0123456789abcdef0; not Kubernetes' providerID, see [URIer]
}

// CreateRequest is everything a provider needs to make one machine.
// The request for one InstanceID never changes between tries.
type CreateRequest struct {
	InstanceID identity.ID // also the idempotency token
	Owner      Owner
	Tenant     string
	Group      string
	Template   string
	Kind       string // three letters, the prefix of InstanceID
	Arch       string // amd64 or arm64

	InstanceType string         // in the provider's words
	CapacityType CapacityType   // how the machine is paid for; empty: as Args say
	Reservation  string         // with [Reserved]: the provider's id of what is paid for already
	SubnetID     string         // in the provider's words
	Args         map[string]any // rendered; the provider's own settings
	Outranked    []string       // names in Args that give way to InstanceType where it says the same; nil: none
	UserData     []byte         // rendered; holds the nonce: never logged, never in argv
	CreatedAt    time.Time      // for display tags
}

// Machine is one VM as the provider sees it.
type Machine struct {
	InstanceID identity.ID // from the identity tag; empty if missing, malformed, or another machine's
	RawID      string      // the identity tag as found, for the report of a malformed one
	ProviderID string      // the provider's own id of the machine, as in [Ref]
	Status     Status
	CreatedAt  time.Time // zero if the provider does not say
	Hostname   string
	IPv4, IPv6 netip.Addr // zero if unknown
	Tenant     string     // display metadata, as found
	Group      string     // display metadata, as found
	Template   string     // display metadata, as found
	Kind       string     // display metadata, as found
	SubnetID   string
	Type       string

	// Reason is why the machine does not run, in the provider's own words: its launch
	// failed, it was interrupted, somebody stopped it. For people alone. Empty while it
	// runs, and where the provider does not say.
	Reason string
}

// Status is a machine's state in the words that all providers share. Absence is
// not a status but an error of class [NotFound].
type Status string

// The statuses. Unknown is what a driver says rather than guess.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Stopping  Status = "stopping"
	Stopped   Status = "stopped"
	Suspended Status = "suspended"
	Deleting  Status = "deleting"
	Deleted   Status = "deleted"
	Failed    Status = "failed"
	Unknown   Status = "unknown"
)

// Down reports whether the provider positively says that the machine does not
// run and will not by itself.
func (s Status) Down() bool {
	switch s {
	case Stopping, Stopped, Suspended, Deleting, Deleted, Failed:
		return true
	default:
		return false
	}
}

// Bucket is a token bucket: Rate tokens a second, at most Burst saved up.
// The zero Bucket does not limit.
type Bucket struct {
	Rate  float64
	Burst int
}

// Limits are the token buckets of a provider. A create takes one token of Calls
// and one of Instances; a delete one of Deletes; every other call one of Reads.
type Limits struct {
	Calls     Bucket
	Instances Bucket
	Deletes   Bucket
	Reads     Bucket
}
