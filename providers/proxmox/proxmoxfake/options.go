package proxmoxfake

import (
	"maps"
	"slices"
	"time"
)

// Sizes in bytes.
const (
	MiB = 1 << 20
	GiB = 1 << 30
)

// Options are the cluster that [New] builds. The zero value is three nodes with a
// template each, and one token that may do everything.
type Options struct {
	Nodes     []Node     // empty: pve1, pve2 and pve3
	Storages  []Storage  // empty: local, local-lvm and ceph
	Templates []Template // nil: debian-13 on each node, debian-13-ceph on the first
	Bridges   []string   // empty: vmbr0 and vmbr1; every node has them
	Pools     []string   // resource pools
	Tokens    []Token    // empty: DefaultToken

	// Lag is the interval of the status daemons: names, statuses and loads in
	// /cluster/resources are as old as that. 0: 10 s; negative: never old.
	Lag time.Duration

	// Durations are how long the workers of tasks take, by type: qmclone (of a
	// linked clone), qmclone:full, qmconfig, qmstart, qmstop, qmshutdown, qmreboot,
	// qmreset, qmsuspend, qmresume, qmdestroy, resize, imgcopy, imgdel, and "fork"
	// for the time until a worker begins. What is missing has the default.
	Durations map[string]time.Duration

	// Speed divides Lag and all durations, and patience with locks; 0: 1.
	Speed float64

	// Run starts what a machine runs, whenever it starts. Neither Run nor the methods
	// of what it returns may call the Cloud, which stands still until they return. An
	// error fails the start. nil: a machine runs nothing.
	Run func(Guest) (Running, error)
}

// Running is what a machine runs.
type Running interface {
	Stop() // asks it to end, and sees to it
	Kill() // ends it as a loss of power does
}

// Node is a hypervisor.
type Node struct {
	Name   string
	Cores  int
	Memory int64 // bytes
}

// Storage is a storage as the whole cluster knows it.
type Storage struct {
	Name    string
	Type    string   // dir, lvmthin, zfspool, rbd, cephfs, nfs
	Content []string // images, iso, vztmpl, …
	Shared  bool     // one for all nodes; otherwise one of that name on each
	Nodes   []string // where it is; empty: everywhere
	Size    int64    // bytes; 0: 1 TiB
}

// Template is a machine that can be cloned.
type Template struct {
	VMID    int
	Name    string
	Node    string
	Storage string
	Disk    int64             // bytes; 0: 2 GiB
	Config  map[string]string // further options

	// Firewall is its firewall file, which clones get a copy of; empty: none.
	Firewall string
}

// Token is an API token. Its privileges hold for the whole cluster, but where Within says
// otherwise.
type Token struct {
	ID         string   // user@realm!name
	Secret     string   // a UUID
	Privileges []string // nil: all

	// Within are the paths that a privilege holds for, with all below them. One that is
	// not here holds everywhere.
	Within map[string][]string
}

// DefaultToken is the token of a Cloud without other ones.
var DefaultToken = Token{ID: "nstance@pve!server", Secret: "11111111-2222-4333-8444-555555555555"}

// Roles are the privileges of the built-in roles that a driver's token is given, as
// the user management chapter of the administration guide lists them.
var Roles = map[string][]string{
	"PVEVMAdmin": {
		"VM.Allocate", "VM.Audit", "VM.Backup", "VM.Clone", "VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Cloudinit",
		"VM.Config.Disk", "VM.Config.HWType", "VM.Config.Memory", "VM.Config.Network", "VM.Config.Options", "VM.Console",
		"VM.Migrate", "VM.PowerMgmt", "VM.Snapshot", "VM.Snapshot.Rollback",
	},
	"PVEDatastoreAdmin": {"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"},
	"PVEAuditor":        {"Datastore.Audit", "Mapping.Audit", "Pool.Audit", "SDN.Audit", "Sys.Audit", "VM.Audit"},
	"PVESDNUser":        {"SDN.Audit", "SDN.Use"},
}

// patience is how long workers wait for locks. The file lock of a machine has 10 s;
// a clone waits for that of its number 1 s; allocations on a storage for 60 s.
const (
	machinePatience = 10 * time.Second
	numberPatience  = time.Second
	storagePatience = 60 * time.Second
)

var durations = map[string]time.Duration{
	"fork":         100 * time.Millisecond,
	"qmclone":      2 * time.Second,
	"qmclone:full": 20 * time.Second,
	"qmconfig":     200 * time.Millisecond,
	"qmstart":      2 * time.Second,
	"qmstop":       time.Second,
	"qmshutdown":   5 * time.Second,
	"qmreboot":     7 * time.Second,
	"qmreset":      200 * time.Millisecond,
	"qmsuspend":    200 * time.Millisecond,
	"qmresume":     200 * time.Millisecond,
	"qmdestroy":    2 * time.Second,
	"resize":       500 * time.Millisecond,
	"imgcopy":      300 * time.Millisecond,
	"imgdel":       300 * time.Millisecond,
}

// complete fills the defaults in.
func (o Options) complete() Options {
	if len(o.Nodes) == 0 {
		for _, name := range []string{"pve1", "pve2", "pve3"} {
			o.Nodes = append(o.Nodes, Node{Name: name, Cores: 16, Memory: 64 * GiB})
		}
	}
	if len(o.Storages) == 0 {
		o.Storages = []Storage{
			{Name: "local", Type: "dir", Content: []string{"iso", "vztmpl", "backup"}},
			{Name: "local-lvm", Type: "lvmthin", Content: []string{"images", "rootdir"}},
			{Name: "ceph", Type: "rbd", Content: []string{"images", "rootdir"}, Shared: true},
		}
	}
	if o.Templates == nil && o.has("local-lvm") && o.has("ceph") {
		for i, n := range o.Nodes {
			o.Templates = append(o.Templates, Template{VMID: 9001 + i, Name: "debian-13", Node: n.Name, Storage: "local-lvm"})
		}
		o.Templates = append(o.Templates, Template{VMID: 9100, Name: "debian-13-ceph", Node: o.Nodes[0].Name, Storage: "ceph"})
	}
	if len(o.Bridges) == 0 {
		o.Bridges = []string{"vmbr0", "vmbr1"}
	}
	if len(o.Tokens) == 0 {
		o.Tokens = []Token{DefaultToken}
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.Lag == 0 {
		o.Lag = 10 * time.Second
	}
	merged := maps.Clone(durations)
	maps.Copy(merged, o.Durations)
	o.Durations = merged
	return o
}

func (o Options) has(storage string) bool {
	return slices.ContainsFunc(o.Storages, func(s Storage) bool { return s.Name == storage })
}

// takes is how long the workers of a kind of task take.
func (o Options) takes(kind string) time.Duration { return o.scaled(o.Durations[kind]) }

func (o Options) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / o.Speed) }
