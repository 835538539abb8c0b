package groupfile

import (
	"encoding/json"

	"nstance.dev/server/config/document"
)

// Version is the version of the group file that this program writes.
const Version = 1

// File is groups/{shard}.jsonc: the groups and overrides that were made
// through the API. Only the shard's leader writes it. Fields that this program
// does not know are kept and written again. The zero value is an empty file.
//
// Change entries with Set and Remove once the file was encoded or cloned: they
// keep track of what is to be encoded anew. A file may be read by many at once;
// encoding, setting and removing are for one.
type File struct {
	// V is the version, 1.
	V int `json:"v"`
	// Term is that of the leader that wrote the file.
	Term int64 `json:"term"`
	// Groups by tenant, then by key; no entry is nil.
	Groups map[string]map[string]*Entry `json:"groups"`
	// Paused says where nothing is to be created, deleted or replaced.
	Paused []Pause `json:"paused,omitempty"`
	// Static is a copy of the static groups that were last applied, by tenant and
	// key: what a group was when it disappears from the configuration.
	Static map[string]map[string]StaticGroup `json:"static,omitempty"`
	// Templates are copies of the templates that groups and machines of a tenant are
	// made from, by tenant and key: machines keep their files, and have their
	// certificates renewed, when a template disappears from the configuration.
	Templates map[string]map[string]TemplateCopy `json:"templates,omitempty"`

	extra   map[string]json.RawMessage
	texts   groupTexts                 // of the entries as they were last encoded; nil: never
	changed map[document.GroupKey]bool // the entries set or removed since Clone
	before  *edited                    // what the edit under way has changed; nil: none is
}

// Entry is what the API has set for a group: all of a dynamic group, or
// the overrides of a static one. A nil or empty field is not set.
type Entry struct {
	Template      string               `json:"template,omitempty"`
	Size          *int                 `json:"size,omitempty"`
	InstanceType  string               `json:"instance_type,omitempty"`
	InstanceTypes []string             `json:"instance_types,omitempty"` // ordered; beats InstanceType
	SubnetPool    string               `json:"subnet_pool,omitempty"`
	Vars          document.Vars        `json:"vars,omitempty"`
	Args          map[string]any       `json:"args,omitempty"`
	LoadBalancers []string             `json:"load_balancers,omitempty"`
	DrainTimeout  *document.Duration   `json:"drain_timeout,omitempty"` // from a static group that was unlocked
	Rails         *document.GroupRails `json:"rails,omitempty"`         // likewise
	// Mode is fixed or demand; empty: fixed. Demand, InstanceRequirements and Node are as in the
	// configuration.
	Mode                 string                         `json:"mode,omitempty"`
	Demand               *document.Demand               `json:"demand,omitempty"`
	InstanceRequirements *document.InstanceRequirements `json:"instance_requirements,omitempty"`
	Node                 *document.Node                 `json:"node,omitempty"`
	// Retired are the instances that a caller named when lowering the size.
	Retired []Retired `json:"retired,omitempty"`
	// DeletedAt is when the deletion of the group was asked for. The entry stays
	// until its last instance is gone; an upsert revives it.
	DeletedAt *document.Time `json:"deleted_at,omitempty"`
	// Unlocked says what the group was before it left the server's configuration;
	// nil: it never was in it, or is again.
	Unlocked *Unlocked `json:"unlocked,omitempty"`
	// Rebuilt is when the entry was made anew because the group file was lost; nil:
	// it was not. Nothing is created or deleted in the group until its tenant or an
	// administrator has confirmed it.
	Rebuilt *document.Time `json:"rebuilt,omitempty"`
	// Manager is who looks after the group, so that two do not fight over it.
	Manager string `json:"manager,omitempty"`

	extra map[string]json.RawMessage
}

// Unlocked is what a group was when it ceased to be static.
type Unlocked struct {
	Entry  Entry       `json:"entry"`  // what the API had set
	Static StaticGroup `json:"static"` // its last static definition
}

// Retired is an instance that a caller named to go.
type Retired struct {
	ID        string        `json:"id"`
	At        document.Time `json:"at"`
	SkipDrain bool          `json:"skip_drain,omitempty"` // its deletion waits for no drain
}

// Pause holds back all action in its scope until a moment.
type Pause struct {
	Scope  string         `json:"scope"` // shard, tenant or group
	Tenant string         `json:"tenant,omitempty"`
	Group  string         `json:"group,omitempty"`
	Reason string         `json:"reason,omitempty"`
	Until  *document.Time `json:"until,omitempty"` // nil: until it is cleared
	Since  *document.Time `json:"since,omitempty"` // when it was set; nil: not known

	extra map[string]json.RawMessage
}

// Scopes of a [Pause].
const (
	PauseShard  = "shard"
	PauseTenant = "tenant"
	PauseGroup  = "group"
)

// StaticGroup is a static group as it was last applied.
type StaticGroup struct {
	document.Group

	extra map[string]json.RawMessage
}
