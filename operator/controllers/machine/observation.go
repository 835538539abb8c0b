package machine

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machine/placement"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Observation is all that a decision about one machine is made from.
type Observation struct {
	Machine *infrav1.NstanceMachine
	// Owner is the Machine that it belongs to; nil: there is none.
	Owner *clusterv1.Machine
	// Paused: the Cluster or the machine is.
	Paused bool
	// ClusterReady: the infrastructure of the Cluster is provisioned.
	ClusterReady bool
	// HasControlPlane: the Cluster refers to a control plane, so Cluster API empties the Node
	// before it deletes a machine.
	HasControlPlane bool
	// Shards are those of the configuration, in its order.
	Shards []placement.Shard
	// Presence says whether the instance is there; Said what its shard says of it, nil
	// if nothing.
	Presence inventory.Presence
	Reported *nstancev1.InstanceStatus
	// WhyDeleted is why the instance is gone; empty: its shard did not say. See
	// [inventory.Shard.WhyDeleted].
	WhyDeleted string
	// Retiring: the group gets smaller with the instance.
	Retiring bool
	// Waits is how long it is until the group may lose another instance whose Machine was
	// deleted; see pace.
	Waits time.Duration
	// Orphaned: the pool is being removed, or becomes a demand pool, and leaves its instances on the servers.
	Orphaned bool
	// Node is the instance's; nil: none is known.
	Node *Node
	// NodeDoubt says why no Node is recognised for sure as the instance's although one may
	// be; empty: it is known which it is, or that there is none.
	NodeDoubt string
	// Tried is what came of earlier calls of this process.
	Tried Tried
	// ProvisionTimeout is how long an instance may take, counted from the machine's creation.
	ProvisionTimeout time.Duration
}

// Node is the Node of an instance.
type Node struct {
	Name string
	// Drained: the work has left it for this instance's end.
	Drained bool
	// Joined is when the Node was made.
	Joined time.Time
}

// nodeJoined returns when the Node of the instance was made; zero: none is known.
func (o Observation) nodeJoined() time.Time {
	if o.Node == nil {
		return time.Time{}
	}
	return o.Node.Joined
}

// Tried is what came of the calls for one machine. The zero value: none was made.
type Tried struct {
	// Instance is the id that the calls were about.
	Instance string
	// CreateAt is when creation was last asked for. Ended: the answer was that the instance
	// was there and is gone.
	CreateAt time.Time
	Ended    bool
	// Failures is how many attempts to create have failed in a row; Class and Message are
	// of the last one, About is what its answer depended on.
	Failures int
	Class    shards.Class
	Message  string
	About    string
	// DeleteAt is when deletion was last asked for, Decremented whether with a smaller
	// group, Unknown whether the shard did not know the instance.
	DeleteAt             time.Time
	Decremented, Unknown bool
	// DeleteFailures is how many deletions have failed in a row, DeleteFailedAt when the last
	// one did, DeleteMessage what it said.
	DeleteFailures int
	DeleteFailedAt time.Time
	DeleteMessage  string
	// AskFailures is how many questions about the instance have failed in a row, AskedAt
	// when the last one did.
	AskFailures int
	AskedAt     time.Time
	// WarnedAt is when users were last told that the end waits.
	WarnedAt time.Time
}

// shard returns a shard by name; nil: it is not configured.
func (o Observation) shard(name string) *placement.Shard {
	for i := range o.Shards {
		if o.Shards[i].Name == name {
			return &o.Shards[i]
		}
	}
	return nil
}
