package driver

import "context"

// SubnetChecker is implemented by drivers whose subnets can run out of
// addresses.
type SubnetChecker interface {
	// CheckSubnet returns how many machines still fit; negative: unlimited. A
	// driver keeps back what the cloud should not be filled up with: zero means
	// that no machine should be tried there. A subnet that does not exist is an
	// error of class MissingRef.
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
	// ValidateInstanceType says whether machines of the type have the
	// architecture, amd64 or arm64. An error says nothing about the type.
	ValidateInstanceType(ctx context.Context, instanceType, arch string) (TypeVerdict, error)
}

// SelfIdentifier is implemented by drivers that can tell which of the
// provider's machines this very server runs on.
type SelfIdentifier interface {
	// SelfID returns the provider's id of this machine. It is the same for as
	// long as the machine lives.
	SelfID(ctx context.Context) (string, error)
}

// LoadBalancer is a target that machines register with. Its key is the name in the
// configuration.
type LoadBalancer struct {
	Key  string
	Args map[string]any // the provider's own members of the configuration's load balancer
}

// Balancer is implemented by drivers whose machines can take traffic through a
// load balancer. Methods may be repeated; a load balancer that does not exist is
// an error of class MissingRef.
type Balancer interface {
	// LBRegister puts a machine behind the load balancer; nil if it is there.
	// A machine that does not exist is an error of class NotFound.
	LBRegister(ctx context.Context, lb LoadBalancer, ref Ref) error

	// LBDeregister takes a machine from behind the load balancer: nil once the
	// balancer sends it no new connections, and if it was not there.
	LBDeregister(ctx context.Context, lb LoadBalancer, ref Ref) error

	// LBList returns every member, those of others included, once; each has at
	// least one of the two ids. A machine that is in some of the target groups
	// and not in all is a member too. A partial listing is an error.
	LBList(ctx context.Context, lb LoadBalancer) ([]Ref, error)
}

// ImageQuery says which machine image is wanted: of those that match every
// filter and belong to one of the owners, the first in the order.
type ImageQuery struct {
	Filters    []ImageFilter
	Owners     []string // empty: anybody
	ByName     bool     // false: by date of creation
	Descending bool     // the newest, or last name, first
}

// ImageFilter is one condition: a property in the provider's words, and values
// any of which matches.
type ImageFilter struct {
	Name   string
	Values []string
}

// ImageResolver is implemented by drivers that can look machine images up.
type ImageResolver interface {
	// ResolveImage returns the id of the image, or an error of class MissingRef
	// where none matches.
	ResolveImage(ctx context.Context, query ImageQuery) (id string, err error)
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
	// ProviderURI is what Kubernetes calls the providerID of a Node, such as
	// aws:///eu-west-1a/i-0123456789abcdef0. It is a pure function of the machine's handle.
	ProviderURI(ref Ref) string
}
