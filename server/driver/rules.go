package driver

import (
	"errors"
	"fmt"
	"slices"
)

// ErrUnknownType is the answer of [Rules.CheckInstanceType] to a type
// that it knows nothing about; that is a warning, not a problem.
var ErrUnknownType = errors.New("unknown instance type")

// ErrArgWarning is wrapped by what [Rules.CheckArg] finds likely to be a
// mistake, and not surely one; that is a warning.
var ErrArgWarning = errors.New("likely a mistake")

// Rules are what a provider knows about its part of a configuration. Nil functions
// and a nil *Rules check nothing. They are called whenever a configuration or a
// request is checked, from any goroutine, and must answer at once and without the
// network.
type Rules struct {
	// Kind is what server.provider.kind must be; empty is any.
	Kind string
	// ForbiddenArgs are names in args that the server sets itself.
	ForbiddenArgs []string
	// TenantArgs are the names in args that carry no rights and reach nothing but the
	// machine itself. All others (identities, networks, keys, images, disks …) callers
	// of the API set only where the template names them in api_args, once the shard has
	// several tenants. What is not known here is such an argument.
	TenantArgs []string
	// CheckArg says what is wrong with one top-level member of args.
	CheckArg func(name string, value any) error
	// SizeArgs are names in args that say what an instance type can say too. The higher
	// layer counts; within one layer it is the argument.
	SizeArgs []string
	// CheckArgs says what is wrong with all the args of a group together, layers
	// merged and templates as they stand: mostly that one is missing.
	CheckArgs func(args map[string]any) error
	// CheckOption says what is wrong with one member of server.provider.options.
	CheckOption func(name string, value any) error
	// RequiredOptions must stand in server.provider.options.
	RequiredOptions []string
	// CheckOwner says what is wrong with the names of cluster and shard.
	CheckOwner func(owner Owner) []Finding
	// CheckLoadBalancer says what is wrong with the provider's own members of a load
	// balancer; they are of the types that the provider's schema says, or missing.
	CheckLoadBalancer func(args map[string]any) []Finding
	// CheckLeaderNetwork is the same for server.leader_network.
	CheckLeaderNetwork func(args map[string]any) []Finding
	// CheckSubnet says what is wrong with the id of a subnet.
	CheckSubnet func(id string) error
	// CheckInstanceType says why an instance type does not fit an architecture,
	// or ErrUnknownType.
	CheckInstanceType func(instanceType, arch string) error
	// Capacity says how machines of groups of mode demand may be paid for; nil: nothing is known, and
	// nothing refused.
	Capacity *CapacityRules
	// Traits says what the configuration alone tells of the machines of a group, from
	// one of its instance types and its args, layers merged and templates as they stand.
	Traits func(instanceType string, args map[string]any) Traits
	// MaxUserdata is how many bytes of rendered user data the cloud takes; 0 is the
	// limit of a document.
	MaxUserdata int
	// CheckUserdata says why the cloud would not take rendered user data that
	// keeps to MaxUserdata.
	CheckUserdata func(data []byte) error
}

// Finding is what rules say of one value of a configuration.
type Finding struct {
	// Path leads from what was checked to the value: names of members, and indices of lists.
	Path []any
	// Message says what is wrong, Remedy what to do.
	Message, Remedy string
	// Reserved: the member is allowed, and has no effect before tenants can sleep; that is a
	// warning. Message and Remedy are empty then.
	Reserved bool
}

// Traits are what a configuration tells of machines without asking the provider.
type Traits struct {
	// Interruptible: the provider may take the machine back at short notice.
	Interruptible bool
	// VCPU and MemoryMiB are the machine's size where the configuration sets it; 0: it
	// does not.
	VCPU, MemoryMiB int
	// DiskGiB is the size of the disk that the machine starts from, where the configuration sets it;
	// 0: it does not.
	DiskGiB int
}

// CapacityType says how a machine is paid for.
type CapacityType string

// The capacity types.
const (
	OnDemand  CapacityType = "on-demand"  // by the hour, for as long as it is wanted
	Spot      CapacityType = "spot"       // cheaper, and the provider may take it back at short notice
	Reserved  CapacityType = "reserved"   // paid for already, whether or not it is used
	BareMetal CapacityType = "bare-metal" // owned, or a whole physical machine
)

// CapacityRules are what a provider serves of capacity types. A driver refuses a create of any other
// type as Invalid.
type CapacityRules struct {
	// Types are those that it serves.
	Types []CapacityType
	// FixedBy names the argument that fixes how the machine is paid for; empty: none does. In a group
	// of mode demand that is the request's to say.
	FixedBy func(args map[string]any) string
	// Interruption is the probability that an interruptible machine of a type is taken back within
	// an hour, by the table that the provider ships; 0 or nil: it has none.
	Interruption func(instanceType string) float64
	// Family is the family of a type by its name alone, empty if that does not say. Nil: names say
	// nothing.
	Family func(instanceType string) string
}

// Serves reports whether machines of the capacity type can be made. A nil CapacityRules serves all.
func (r *CapacityRules) Serves(t CapacityType) bool {
	return r == nil || slices.Contains(r.Types, t)
}

// Check says why a driver of the provider must not make the machine of a request, by how that is to
// be paid for: the type is not served, a reservation is missing or not wanted, or the arguments fix
// the same. A request without a capacity type, as those of groups of fixed size, passes if it names
// no reservation.
func (r *CapacityRules) Check(req CreateRequest) error {
	switch {
	case req.CapacityType == "" && req.Reservation == "":
		return nil
	case req.CapacityType == Reserved && req.Reservation == "":
		return errors.New("capacity type reserved: no reservation is given")
	case req.CapacityType != Reserved && req.Reservation != "":
		return fmt.Errorf("reservation %s is given without capacity type reserved", req.Reservation)
	case !slices.Contains(r.Types, req.CapacityType):
		return fmt.Errorf("capacity type %q is not served; there are %v", req.CapacityType, r.Types)
	}
	if r.FixedBy == nil {
		return nil
	}
	if name := r.FixedBy(req.Args); name != "" {
		return fmt.Errorf("%s: fixes how the machine is paid for, and capacity type %s is asked for", name, req.CapacityType)
	}
	return nil
}
