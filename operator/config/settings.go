package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// ErrHelp is what [ParseFlags] returns if the flags ask for help or for the version.
var (
	ErrHelp    = errors.New("help requested")
	ErrVersion = errors.New("version requested")
)

// Settings are the settings of one process.
type Settings struct {
	Config     string // path of the configuration file
	Namespace  string // of all objects that the operator keeps
	Kubeconfig string // path; empty: the Pod's own service account

	Listeners
	LeaderElect bool

	Webhooks       bool
	WebhookPort    int
	WebhookCertDir string // empty: the operator makes its certificate

	WatchFilter             string // value of the label; empty: all objects
	MachinePoolMachines     bool
	MaxConcurrentReconciles int
	KubeAPI                 KubeAPI

	DrainConcurrency int
	EvictionQPS      float32
	DrainForce       DrainForce

	OnDemand                 OnDemand
	OnDemandProvisionTimeout time.Duration
	OnDemandLinger           time.Duration
	OnDemandNamespaces       []string // nil: all; nothing where OnDemand is off
	OnDemandMaxPerNamespace  int      // 0: no limit

	Demand Demand
	Hosts  bool // the kinds of host machines are worked on
	// HostsAPIServer is the API server as host machines reach it, https://host:port; empty: as
	// the operator does.
	HostsAPIServer string

	PollInterval      time.Duration
	UnreachableGrace  time.Duration // until a shard counts as unreachable
	RedirectAfter     time.Duration // until what it should get more goes elsewhere
	SetNodeProviderID bool
	DeleteOrphanNodes bool
	MemoryFactor      float64 // share of a machine's memory that is left for Pods

	LogLevel slog.Level
	LogText  bool // else JSON

	Environment
}

// Listeners are where the process says how it is.
type Listeners struct {
	ProbeAddress   string // host:port
	MetricsAddress string // host:port; "0": off
	MetricsSecure  bool
	PprofAddress   string // host:port; "0": off
}

// Environment is what comes from environment variables alone: names of objects that the
// chart makes.
type Environment struct {
	CAConfigMap     string
	NonceSecret     string
	NonceKey        string
	KeySecret       string
	CertSecret      string
	ShardsConfigMap string

	WorkloadEndpoint string // https://host:port; empty: the API server that the operator uses
	ServiceAccount   string // whose token Cluster API gets
	APIServer        string // as the Pods of Cluster API reach it, https://host:port

	WebhookService       string
	WebhookConfiguration string
	WebhookSecret        string

	JSON bool // speak JSON with the API server
}

// KubeAPI bounds the calls to the API server, and what is waited for.
type KubeAPI struct {
	QPS              float32 // over time; negative: no limit
	Burst            int
	CacheSyncTimeout time.Duration // of the first list of each kind
}

// Demand are the settings of demand mode.
type Demand struct {
	Enabled bool
	// PodSource says what a Pod adds to what the shards are asked for.
	PodSource PodSource
	Bootstrap DemandBootstrap
	Pods      DemandPods
	Sessions  DemandSessions
	Rollups   DemandRollups
	Reclaim   DemandReclaim
}

// WritesRequests says whether the process writes CapacityRequests for Pods.
func (d Demand) WritesRequests() bool {
	return d.Enabled && d.Pods.Controller && d.PodSource != PodSourceDirect
}

// DemandBootstrap says what makes a machine join the cluster.
type DemandBootstrap struct {
	TemplateFile    string        // empty: machines join no cluster
	JoinTokenLife   time.Duration // 0: no tokens are made
	JoinTokenGroups []string
}

// MakesJoinTokens says whether the process makes join tokens, if its template calls for them.
func (d Demand) MakesJoinTokens() bool {
	return d.Enabled && d.Bootstrap.TemplateFile != "" && d.Bootstrap.JoinTokenLife > 0
}

// DemandPods say how Pods become CapacityRequests.
type DemandPods struct {
	Controller bool // the process writes them, where demand mode is on

	QPS      float32 // of the controller's own client
	Burst    int
	Workers  int
	PageSize int // objects in an answer, where the API server cannot stream a list

	Alternatives    bool // several terms of node affinity, Gt and Lt are carried
	VolumeTopology  bool
	PenaltyPrefixes []string // of the annotations with penalties; the first that a Pod has counts
	PenaltyFile     string   // default penalties of PriorityClasses; empty: there are none
}

// DemandSessions say how sessions with the shards are kept.
type DemandSessions struct {
	InitialBackoff, MaxBackoff time.Duration // between sessions
	Outbox                     int           // answers that wait to be sent
	Dispatch                   int           // messages of one shard that are worked on at once
	MaxMessage                 int           // bytes of a message to a shard, at most
	KeepaliveInterval          time.Duration
	KeepaliveTimeout           time.Duration
	DrainGrace                 time.Duration // of a drain for which the shard names none

	QPS   float32 // of the client that writes what the shards say
	Burst int
}

// DemandReclaim says when a Node that a shard calls surplus is refused.
type DemandReclaim struct {
	FitCheck           bool // where its Pods find no other place
	ForeignAnnotations bool // where an annotation of another autoscaler says so, too
}

// DemandRollups say how what the cluster needs is added up and sent.
type DemandRollups struct {
	Interval         time.Duration
	MinInterval      time.Duration // from a change to the roll-up with it, at most; 0: changes wait for the interval
	Acknowledgements int           // CapacityRequests that are acknowledged at once
	CountForeign     bool          // Pods on Nodes that are no machines of a shard count
	UnitClasses      UnitClasses
	Overhead         Overhead
	Surcharge        bool // Pods that stay unschedulable get rows of their own
}

// UnitClasses says whether what Pods ask for is told apart by its size.
type UnitClasses string

// The values of UnitClasses.
const (
	UnitClassesPow2 UnitClasses = "pow2" // a class for each doubling of cpu and memory
	UnitClassesOff  UnitClasses = "off"  // none
)

// Overhead says how the shards learn what each machine carries for DaemonSets.
type Overhead string

// The values of Overhead.
const (
	OverheadAuto     Overhead = "auto"     // the operator finds it
	OverheadTemplate Overhead = "template" // what is reserved in the servers' configuration is all
)

// PodSource says what a Pod adds to what the shards are asked for.
type PodSource string

// The values of PodSource.
const (
	PodSourceBoth   PodSource = "both"   // its CapacityRequest, and until there is one the Pod itself
	PodSourceCR     PodSource = "cr"     // its CapacityRequest alone
	PodSourceDirect PodSource = "direct" // the Pod itself; no CapacityRequests are written for Pods
)

// DrainForce says what becomes of Pods that budgets hold on a Node whose time is over.
type DrainForce string

// The values of DrainForce.
const (
	ForceAtDeadline DrainForce = "AtDeadline" // they are deleted while they can still end in order
	ForceNever      DrainForce = "Never"      // they end with the machine
)

// AllNamespaces stands for all namespaces in the list of those whose Pods may ask.
const AllNamespaces = "*"

// OnDemand says how Pods that ask for an instance of their own get it.
type OnDemand string

// The values of OnDemand.
const (
	OnDemandGated    OnDemand = "gated"    // the webhook ties Pod and Node
	OnDemandAnnotate OnDemand = "annotate" // without the webhook: the Pod lands where it fits
	OnDemandOff      OnDemand = "off"
)

// FlagError lists everything that is wrong with flags and environment.
type FlagError struct {
	Problems []string // at least one, such as "--webhook-port: 99999 is not a port"
}

// Error has each problem on a line of its own.
func (e *FlagError) Error() string {
	return fmt.Sprintf("wrong settings:\n  %s", strings.Join(e.Problems, "\n  "))
}
