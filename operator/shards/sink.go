package shards

import (
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Sink hears what shards say. Its methods must not block for long and must be safe for
// concurrent use: the streams and lists of a shard, and of different shards, call it from
// goroutines of their own. Messages belong to the sink. What names another tenant than the
// certificate's has been left out.
//
// An event is delivered in order with the others of its stream. Between a list and the
// events the order is not that of the server: revisions tell which is newer.
type Sink interface {
	// StateChanged reports a new status. After the shard was removed there is none.
	StateChanged(shard string, status Status)
	// Removed says that the shard is no longer in the configuration. Nothing follows.
	Removed(shard string)

	// GroupsListed reports a complete list of the tenant's groups.
	GroupsListed(shard string, list GroupList)
	// InstancesListed reports a list of the tenant's instances.
	InstancesListed(shard string, list InstanceList)

	// GroupEvent reports a change, or an item of the snapshot that begins the stream.
	GroupEvent(shard string, event *nstancev1.GroupEvent)
	// InstanceEvent reports a change, or an item of the snapshot; `snapshot_end` is
	// passed on, `heartbeat` is not.
	InstanceEvent(shard string, event *nstancev1.InstanceEvent)
	// ErrorEvent reports something that went wrong in the shard.
	ErrorEvent(shard string, event *nstancev1.ErrorEvent)
}

// GroupList is the result of ListGroups.
type GroupList struct {
	Groups []*nstancev1.GroupStatus
	// Began is when the list was asked for: nothing follows from the absence of what was
	// heard of later.
	Began time.Time
	Term  int64 // of the leader that was connected then
}

// InstanceList is the result of ListInstances, all pages.
type InstanceList struct {
	Instances []*nstancev1.InstanceStatus
	// Complete is false while the leader does not know the whole shard: absence from the
	// list then means nothing.
	Complete bool
	Began    time.Time // as in GroupList
	Term     int64     // as in GroupList
}

// Observer hears what happens, for metrics. Nil functions are left out.
type Observer struct {
	// Call reports a unary call with its code and duration.
	Call func(shard, method, code string, took time.Duration)
	// Restart reports the end of a stream and why: a class of failure, or `silent`.
	Restart func(shard, stream, reason string)
	// ForeignTenant reports that a server sent what belongs to another tenant.
	ForeignTenant func(shard string)
}

func (o Observer) call(shard, method, code string, took time.Duration) {
	if o.Call != nil {
		o.Call(shard, method, code, took)
	}
}

func (o Observer) restart(shard, stream, reason string) {
	if o.Restart != nil {
		o.Restart(shard, stream, reason)
	}
}

func (o Observer) foreignTenant(shard string) {
	if o.ForeignTenant != nil {
		o.ForeignTenant(shard)
	}
}
