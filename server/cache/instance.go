package cache

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// Errors that a caller acts on.
var (
	// ErrExists says that there is such a row already.
	ErrExists = errors.New("already in the cache")
	// ErrUnknown says that there is no such row.
	ErrUnknown = errors.New("not in the cache")
)

// Instance is all that is known of one instance, but for its reports.
type Instance struct {
	fleet.Instance // with its id, group and state

	Kind         string
	Template     string
	InstanceType string
	Arch         string
	SubnetPool   string
	SubnetID     string
	ImageID      string
	Overrides    json.RawMessage // of the request that made it; nil if there were none

	Provider       string
	ProviderID     string    // the provider's own id, as in driver.Ref; empty until the provider has answered
	ProviderStatus string    // in the provider's words
	ProviderSeenAt time.Time // when the provider last told

	Hostname string
	IPv4     string
	IPv6     string

	NonceSHA256  string
	NonceExpires time.Time

	PublicKeyPEM string
	CertSerial   string
	PrevSerial   string // still good until the agent is seen with CertSerial
	CertNotAfter time.Time

	// Machine is what the record says of the node machine that its node runs in; zero: none.
	Machine Machine

	UnhealthyAt time.Time
	DeletedAt   time.Time // set by the cache where the state is Deleted and this is zero

	// Revision is set by the cache: it grows by every change of this row that a
	// caller of the API can see, by one counter for the whole shard. What the
	// provider says when, and the etag, are not such changes.
	Revision uint64
}

// Machine is what a record says of the node machine on an instance.
type Machine struct {
	On      bool   // the node of the instance runs in a node machine
	Binding string // idle, or the state of the instance's binding; empty: no decision of demand mode has bound it ever
}

// sameView reports whether a and b look the same to callers of the API. Every listing
// asks this about every instance, and hardly ever differs: reflection would be most of
// what that costs.
func sameView(a, b *Instance) bool {
	return a.Instance == b.Instance &&
		a.Kind == b.Kind && a.Template == b.Template && a.InstanceType == b.InstanceType && a.Arch == b.Arch &&
		a.SubnetPool == b.SubnetPool && a.SubnetID == b.SubnetID && a.ImageID == b.ImageID &&
		bytes.Equal(a.Overrides, b.Overrides) &&
		a.Machine == b.Machine &&
		a.Provider == b.Provider && a.ProviderID == b.ProviderID && a.ProviderStatus == b.ProviderStatus &&
		a.Hostname == b.Hostname && a.IPv4 == b.IPv4 && a.IPv6 == b.IPv6 &&
		a.NonceSHA256 == b.NonceSHA256 && a.NonceExpires == b.NonceExpires &&
		a.PublicKeyPEM == b.PublicKeyPEM && a.CertSerial == b.CertSerial && a.PrevSerial == b.PrevSerial &&
		a.CertNotAfter == b.CertNotAfter && a.UnhealthyAt == b.UnhealthyAt && a.DeletedAt == b.DeletedAt
}

// listed reports whether the instance shows in its group and tenant.
func (in *Instance) listed() bool { return in.State != fleet.Deleted }

// claimable reports whether the instance may still be registered by its nonce.
func (in *Instance) claimable() bool {
	return in.listed() && in.NonceSHA256 != "" && in.RegisteredAt.IsZero()
}

// indexed returns what the indexes depend on beside places, to be compared.
func (in *Instance) indexed() [4]any {
	return [4]any{in.listed(), in.claimable(), in.NonceSHA256, in.ProviderID}
}

// places are the name, in lower case, and the addresses by which the instance is found;
// empty ones are none. Its own id as a name is no entry: nobody else may have it.
func (in *Instance) places() [3]string {
	all := [3]string{strings.ToLower(in.Hostname), in.IPv4, in.IPv6}
	if all[0] == in.ID.String() {
		all[0] = ""
	}
	return all
}

// Health is the last that was heard of an instance's agent. It is lost with
// the process and told anew by the agent.
type Health struct {
	ReceivedAt   time.Time // of the last report; zero: none yet
	Count        int64     // the report's number, from 1 in each life of the agent
	AgentVersion string
	Uptime       string
	ConfigHash   string // of the configuration that the agent has in place
	Metrics      []byte // of the report, as it came

	TerminationAction   string // what the provider announced; empty: nothing
	TerminationDeadline time.Time
	FirstNoticeAt       time.Time

	Connected bool // its stream is open
}

// File is the state of one file at an instance.
type File struct {
	Instance     identity.ID
	Name         string
	LastModified time.Time // zero: not there
	Error        string    // why it is not there, or is stale
	SentAt       time.Time
	Attempts     int
}

// Group is the wanted state of one group and what its machines are made from.
type Group struct {
	fleet.Group

	Template     string
	Static       bool // it is in the server's configuration
	InstanceType string
	SubnetPool   string
	RuntimeHash  string
	Config       json.RawMessage // with all layers merged
	ETag         string          // of the group file

	// Revision is set by the cache, as an instance's is.
	Revision uint64
}

// Operator is the registration of one operator.
type Operator struct {
	ID           identity.ID
	Tenant       string
	NonceSHA256  string
	PublicKeyPEM string
	CertSerial   string
	PrevSerial   string
	CertNotAfter time.Time
	RegisteredAt time.Time
	ETag         string // of the record in object storage
}

// Image is the answer to the last look-up of a configured image.
type Image struct {
	Key        string
	ImageID    string
	ResolvedAt time.Time
	Source     string // lookup, cache or fallback
	Error      string // of the last look-up; empty: it succeeded
}

// ErrorRow is one thing that went wrong for a tenant.
type ErrorRow struct {
	Tenant   string
	Group    string      // empty: none in particular
	Instance identity.ID // empty: none in particular
	Error    string
	At       time.Time
}
