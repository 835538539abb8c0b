package shardgroup

import (
	"fmt"
	"slices"
	"time"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/backoff"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// shardGroup is all that is known of one NstanceShardGroup at one moment.
type shardGroup struct {
	object *infrav1.NstanceShardGroup
	paused bool
	// left: its pool is being deleted and leaves the servers alone, or is gone.
	left bool

	connection
	synced inventory.State

	group     *nstancev1.GroupStatus // as last heard; nil: never, or it is gone
	presence  inventory.Presence     // of the group
	instances []*nstancev1.InstanceStatus
	// unclear are instances of which nobody knows yet whether the group keeps them, shown
	// those that machines of the pool stand for.
	unclear []*nstancev1.InstanceStatus
	shown   map[string]bool
	// gone are the retiring instances that are known to be gone, and ending those whose
	// deletion has been asked for: the server may have counted them already.
	gone, ending []string
	// deleted are provider ids of the status whose instances are known to be gone.
	deleted []string

	room inventory.CoolOff
	// failed is what is remembered of calls for the group that failed.
	failed backoff.Attempt
}

// connection is the operator's to the shard.
type connection struct {
	configured bool // the operator's configuration has the shard
	shard      shards.Status
}

// connected reports whether the shard is configured and answers.
func (c connection) connected() bool {
	return c.configured && c.shard.Reachable()
}

// about is what an answer of the shard depends on: where one of these has changed, a call
// that failed is worth another one at once.
func (p shardGroup) about() string {
	return fmt.Sprintf("%d %t %s %d %s", p.object.Generation, p.object.DeletionTimestamp.IsZero(), p.group.GetEtag(), p.shard.Connections, p.shard.ConfigDigest)
}

// waits is how long the shard is not to be called for the group; zero: it may be.
func (p shardGroup) waits(now time.Time) time.Duration { return p.failed.Waits(p.about(), now) }

// static is whether the server's own configuration has the group, as far as is known.
func (p shardGroup) static() bool {
	if p.group != nil {
		return p.group.GetIsStatic()
	}
	return p.object.Status.IsStatic
}

// counts are the managed instances of the group, by what they are.
type counts struct{ running, pending, draining, unhealthy int32 }

func (p shardGroup) count() counts {
	var n counts
	for _, in := range p.instances {
		switch {
		case in.GetStatus() == inventory.StatusTerminated:
		case in.GetCondemned() != nil, in.GetStatus() == inventory.StatusDraining, in.GetStatus() == inventory.StatusTerminating:
			n.draining++
		case inventory.Runs(in):
			n.running++
		case in.GetStatus() == inventory.StatusUnhealthy:
			n.unhealthy++
		default:
			n.pending++
		}
	}
	return n
}

// hasInstances is whether instances of the group may still be there.
func (p shardGroup) hasInstances() bool {
	n := p.count()
	return !p.synced.InstancesSynced || len(p.unclear) > 0 || n != counts{}
}

// providerIDs are those of all instances that are not known to be gone, sorted. Where not
// everything is known, those of the status stay, and so do those of instances of which the
// shard has not said enough: Cluster API deletes the Node of every id that leaves.
func (p shardGroup) providerIDs() []infrav1.ProviderID {
	var ids []string
	for _, in := range p.instances {
		if in.GetProviderUri() != "" && in.GetStatus() != inventory.StatusTerminated {
			ids = append(ids, in.GetProviderUri())
		}
	}
	for _, id := range p.object.Status.ProviderIDs {
		if !slices.Contains(p.deleted, id) && (!p.synced.InstancesSynced || p.vague(id)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// vague is whether a provider id may be that of an instance that is there: of one that
// nobody knows yet to be the group's, or of one whose provider id the shard has not said
// though it has a machine. A leader that has just begun may not know what it is called.
func (p shardGroup) vague(id string) bool {
	return slices.ContainsFunc(p.unclear, func(in *nstancev1.InstanceStatus) bool {
		return in.GetProviderUri() == "" || in.GetProviderUri() == id
	}) || slices.ContainsFunc(p.instances, func(in *nstancev1.InstanceStatus) bool {
		return in.GetProviderUri() == "" && (!inventory.HasDetails(in) || in.GetRegisteredAt() != nil)
	})
}
