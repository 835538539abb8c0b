package machinepool

import (
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
	"nstance.dev/operator/telemetry"
	"nstance.dev/operator/unsent"
)

// Reconciler keeps pools at their size. All fields are required unless said.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server itself, past all caches.
	Live client.Reader
	// Connection returns the status of the connection to a shard; false: it is not
	// configured.
	Connection func(shard string) (shards.Status, bool)
	Inventory  *inventory.Store
	CoolOff    *inventory.CoolOffs
	Events     events.EventRecorder
	Now        func() time.Time

	// Names say whose pools they are.
	Names Names
	// AsMachines: each instance of a pool is shown as a Machine.
	AsMachines bool
	// RedirectAfter is how long a shard counts as unreachable before growth goes elsewhere,
	// on top of the time that it takes until it does.
	RedirectAfter time.Duration
	// MemoryShare is the share of a machine's memory that is taken to be left for Pods; zero
	// means capacity.DefaultMemoryShare.
	MemoryShare float64
	// Unsent are the sizes that statuses wait for; nil: none waits.
	Unsent *unsent.Sizes
	// Traces follow a change of a pool to the shards; nil: nothing is traced.
	Traces *telemetry.Traces
	// Redirected hears of each shard that growth went past, and why; nil: nobody does.
	Redirected func(group, shard string, why Redirection)
}

// Names say whose pools are looked after: Cluster is the name of the Cluster that new MachinePools
// belong to; ClusterID and Tenant are those of the servers.
type Names struct{ Cluster, ClusterID, Tenant string }

// Redirection is why a shard did not grow though it was its turn.
type Redirection string

// The values of Redirection.
const (
	RedirectedUnreachable Redirection = "unreachable" // the shard could not be seen for too long
	RedirectedCapacity    Redirection = "capacity"    // its provider had no room
	RedirectedQuota       Redirection = "quota"       // the account may have no more there
)

// text is what a refusal of a provider is called in texts about a pool.
func (r Redirection) text() string {
	if r == RedirectedQuota {
		return "quota exceeded"
	}
	return "out of capacity"
}

// What is written is written as that of the operator; a status is the controller's own.
const infra = client.FieldOwner(infrav1.FieldManager)

var manager = status.FieldManager("pool")
