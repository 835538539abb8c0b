package effective

import (
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/driver"
)

// Group is what a group should be, after all layers were merged:
// defaults, template, static group, dynamic group and, for an on-demand
// instance, its request. Templates in args, userdata and files are not yet
// rendered: that is done for each instance.
type Group struct {
	Tenant, Key string
	Template    string // key of the template
	Kind, Arch  string // of the template
	Size        int    // 0 for a deleted group
	// InstanceTypes are never empty in a group of fixed size; the first that has room is taken.
	// One of mode demand has them in no order, and none where it has Requirements.
	InstanceTypes []string
	// AllowedInstanceTypes are what an API call may ask for; empty is any.
	AllowedInstanceTypes []string
	SubnetPool           string
	Subnets              []string // of the pool, in its order
	// Args are the arguments of the create call. Numbers are json.Number.
	Args map[string]any
	// Outranked are the names in Args, in order, that count less than the instance
	// type where the two say the same, because a higher layer sets the type.
	Outranked     []string
	Vars          map[string]string
	Userdata      document.Userdata // the zero value: none
	Files         map[string]document.File
	LoadBalancers []string
	DrainTimeout  time.Duration // 0: delete at once
	Traits        driver.Traits // of a machine of the first type
	Rails         document.Rails

	// Demand is what a group of mode demand sets, complete; nil: the group has a fixed size. With
	// it Size is 0 and means nothing.
	Demand *document.Demand
	// Requirements choose the instance types of a group of mode demand; nil: InstanceTypes do.
	Requirements *document.InstanceRequirements
	Node         document.Node // of the machines, template and group merged
	Reuse        bool          // a machine may serve another tenant after the first
	// Machine is the template's block where it is enabled: nodes run in node machines; nil: on the host.
	Machine *document.Machine

	Static bool // it is in the configuration file
	// StaticSize is the size that the file gives the group; nil: none. Size is what counts.
	StaticSize *int
	Deleted    bool // its deletion was asked for: Size is 0
	// Rebuilt: the entry was made anew because the group file was lost, and nobody has
	// confirmed it yet. The group waits as if it were paused.
	Rebuilt bool
	// Blocked says why the group can't be acted on, such as a template that is gone.
	// Nothing is created or deleted for it, and only Tenant, Key, Static, Deleted,
	// Rebuilt, DrainTimeout and Dynamic are set. Empty: it can.
	Blocked string
	// Dynamic is the entry of the group file, nil if there is none.
	Dynamic *groupfile.Entry

	RuntimeHash string // changes: pushed to running machines
	InfraHash   string // changes: machines are replaced
	ETag        string // of all that was merged
}

// InstanceRequest is what a caller wants an on-demand instance to have that its
// group has not. A zero field is the group's.
type InstanceRequest struct {
	Template      string        `json:"template,omitempty"`
	InstanceType  string        `json:"instance_type,omitempty"`
	SubnetPool    string        `json:"subnet_pool,omitempty"`
	Vars          document.Vars `json:"vars,omitempty"` // merged over the group's
	LoadBalancers []string      `json:"load_balancers,omitempty"`
}

// DeleteShare is the share of the group's machines that may go in a minute once the group is
// deleted, by its own rails; false: it has none, and the shard's bound counts alone. Of a
// group in the configuration, which cannot be deleted, nobody asks.
func (g *Group) DeleteShare() (document.Percent, bool) {
	if g.Static || g.Dynamic == nil || g.Dynamic.Rails == nil || g.Dynamic.Rails.MaxDeleteShare == nil {
		return 0, false
	}
	return *g.Dynamic.Rails.MaxDeleteShare, true
}
