package driver

import "context"

// SubnetChecker is implemented by drivers whose subnets can run out of
// addresses.
type SubnetChecker interface {
	// CheckSubnet returns how many machines still fit; negative: unlimited.
	CheckSubnet(ctx context.Context, subnetID string) (free int, err error)
}

// Addresses are where a shard leader's services listen, as host:port.
type Addresses struct {
	Registration string `json:"registration"`
	Operator     string `json:"operator"`
	Agent        string `json:"agent"`
	Health       string `json:"health"`
}

// LeaderNetwork is implemented by drivers that can move the leader's address to
// the server that leads. Both methods may be repeated.
type LeaderNetwork interface {
	// AssignLeaderNetwork makes this server reachable at the leader's address.
	AssignLeaderNetwork(ctx context.Context, addrs Addresses) error
	// ReleaseLeaderNetwork gives the address up; nil if it was not held.
	ReleaseLeaderNetwork(ctx context.Context) error
}

// TypeVerdict is what a provider says of an instance type.
type TypeVerdict string

// The verdicts. TypeUnknown is a warning, TypeMismatch a configuration error.
const (
	TypeOK       TypeVerdict = "ok"
	TypeMismatch TypeVerdict = "mismatch"
	TypeUnknown  TypeVerdict = "unknown"
)

// TypeValidator is implemented by drivers that know their instance types.
type TypeValidator interface {
	ValidateInstanceType(ctx context.Context, instanceType, arch string) (TypeVerdict, error)
}

// Resumer is implemented by drivers whose stopped machines can be started again
// as they were.
type Resumer interface {
	// Resume starts every stopped machine of the owner and returns how many.
	Resume(ctx context.Context, owner Owner) (int, error)
	// Halt stops every running machine of the owner; they stay listed as Stopped.
	Halt(ctx context.Context, owner Owner) error
}

// URIer is implemented by drivers whose machines have a URI that other systems
// know them by.
type URIer interface {
	// ProviderURI is a pure function of the machine's handle.
	ProviderURI(ref Ref) string
}
