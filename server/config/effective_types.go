package config

import (
	"time"

	"nstance.dev/server/driver"
)

// GroupKey names a group of a shard.
type GroupKey struct {
	Tenant, Group string
}

// String gives tenant/group.
func (k GroupKey) String() string { return k.Tenant + "/" + k.Group }

// EffectiveGroup is what a group should be, after all layers were merged:
// defaults, template, static group, dynamic group and, for an on-demand
// instance, its request. Templates in args, userdata and files are not yet
// rendered: that is done for each instance.
type EffectiveGroup struct {
	Tenant, Key string
	Template    string // key of the template
	Kind, Arch  string // of the template
	Size        int    // 0 for a deleted group
	// InstanceTypes are never empty; the first that has room is taken.
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
	Userdata      Userdata // the zero value: none
	Files         map[string]File
	LoadBalancers []string
	DrainTimeout  time.Duration // 0: delete at once
	Traits        driver.Traits // of a machine of the first type
	Rails         Rails

	Static bool // it is in the configuration file
	// StaticSize is the size that the file gives the group; nil: none. Size is what counts.
	StaticSize *int
	Deleted    bool // its deletion was asked for: Size is 0
	// Rebuilt: the entry was made anew because the group file was lost, and nobody has
	// confirmed it yet. The group waits as if it were paused.
	Rebuilt bool
	// Held says why the group can't be acted on, such as a template that is gone.
	// Nothing is created or deleted for it, and only Tenant, Key, Static, Deleted,
	// Rebuilt, DrainTimeout and Dynamic are set. Empty: it can.
	Held string
	// Dynamic is the entry of the group file, nil if there is none.
	Dynamic *DynamicGroup

	RuntimeHash string // changes: pushed to running machines
	InfraHash   string // changes: machines are replaced
	ETag        string // of all that was merged
}

// GroupChange is what a caller wants to be different about a group. A zero
// field stays as it is.
type GroupChange struct {
	Template      string
	Size          *int
	InstanceType  string
	InstanceTypes []string // beats InstanceType
	SubnetPool    string
	Vars          map[string]string // not nil: replaces all that the API had set
	Args          map[string]any    // not nil: replaces all that the API had set
	LoadBalancers []string          // not nil: replaces all that the API had set
	Clear         []string          // fields that the API had set and is to have set no more: ClearableFields
	Manager       string            // who asks; empty asks for nobody
	Takeover      bool              // let Manager take the group from another
}

// InstanceRequest is what a caller wants an on-demand instance to have that its
// group has not. A zero field is the group's.
type InstanceRequest struct {
	Template      string   `json:"template,omitempty"`
	InstanceType  string   `json:"instance_type,omitempty"`
	SubnetPool    string   `json:"subnet_pool,omitempty"`
	Vars          Vars     `json:"vars,omitempty"` // merged over the group's
	LoadBalancers []string `json:"load_balancers,omitempty"`
}
