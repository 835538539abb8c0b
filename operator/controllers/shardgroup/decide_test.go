package shardgroup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/utils/ptr"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/backoff"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// quiet is a shard group of three instances about which there is nothing to do, changed as asked.
func quiet(changes ...func(*shardGroup)) shardGroup {
	p := shardGroup{
		object: &infrav1.NstanceShardGroup{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "web--a", Generation: 4, Finalizers: []string{infrav1.FinalizerShardGroup},
			},
			Spec:   infrav1.NstanceShardGroupSpec{Group: "web", Shard: "a", Size: ptr.To[int32](3), Template: "base"},
			Status: infrav1.NstanceShardGroupStatus{ObservedGeneration: 4, Config: &infrav1.GroupConfig{Etag: "e1"}},
		},
		connection: connection{configured: true, shard: shards.Status{State: shards.Ready}},
		synced:     inventory.State{GroupsSynced: true, InstancesSynced: true, GroupsAt: now, InstancesAt: now},
		group:      &nstancev1.GroupStatus{Key: "web", Size: 3, Template: "base", Etag: "e1"},
		presence:   inventory.Present,
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func edited(p *shardGroup)  { p.object.Generation++ }
func fresh(p *shardGroup)   { p.object.Status = infrav1.NstanceShardGroupStatus{} }
func foreign(p *shardGroup) { p.group.Size = 9 }
func leaving(p *shardGroup) { p.object.DeletionTimestamp = &metav1.Time{Time: now} }
func draining(p *shardGroup) {
	p.group.Deleting = true
	p.instances = []*nstancev1.InstanceStatus{{InstanceId: "i1", Status: "terminating"}}
}

func annotated(key string) func(*shardGroup) {
	return func(p *shardGroup) { metav1.SetMetaDataAnnotation(&p.object.ObjectMeta, key, "true") }
}

// repaired were some repairs, the last of which is that long ago.
func repaired(n int, ago time.Duration) func(*shardGroup) {
	return func(p *shardGroup) {
		foreign(p)
		for i := range n {
			at := now.Add(-ago - time.Duration(n-1-i)*time.Minute)
			p.object.Status.Repairs = append(p.object.Status.Repairs, metav1.NewTime(at))
		}
	}
}

// failing is a shard group whose last call has failed; the next one is to be made in a minute.
func failing(p *shardGroup) {
	p.object.Generation++
	p.failed = backoff.Attempt{Failures: 3, Next: now.Add(time.Minute), Why: "no such template", About: p.about()}
}

func TestO5_Decide(t *testing.T) {
	again := "the group was changed again by another client"
	for _, test := range []struct {
		name       string
		shardGroup shardGroup
		want       decision
	}{
		{"nothing has changed", quiet(), decision{action: noAction}},
		{"the spec has changed", quiet(edited), decision{action: upsert, why: "the spec has changed"}},
		{"the shard has never heard of it", quiet(fresh), decision{action: upsert, why: "the spec has changed"}},
		{"paused", quiet(edited, func(p *shardGroup) { p.paused = true }), decision{action: noAction, why: "paused"}},
		{"the shard is not configured", quiet(edited, func(p *shardGroup) { p.configured = false }), decision{action: noAction, why: "shard a is not configured"}},
		{
			"the shard does not answer", quiet(edited, func(p *shardGroup) { p.shard.State = shards.Unreachable }),
			decision{action: noAction, why: "shard a does not answer"},
		},
		{
			"what the shard has is not known yet", quiet(edited, func(p *shardGroup) { p.synced.GroupsSynced = false }),
			decision{action: noAction, why: "shard a has not reported its groups yet"},
		},
		{"its call has failed", quiet(failing), decision{action: noAction, why: "retry after a failure: no such template", again: time.Minute}},
		{
			"its call has failed, and the pause is over", quiet(failing, func(p *shardGroup) { p.failed.Next = now }),
			decision{action: upsert, why: "the spec has changed"},
		},
		{
			"its call has failed, and the shard was connected again", quiet(failing, func(p *shardGroup) { p.shard.Connections++ }),
			decision{action: upsert, why: "the spec has changed"},
		},
		{
			"the deletion of its group has failed", quiet(leaving, failing),
			decision{action: waitForDeletion, again: time.Minute, why: "group web on shard a is to end; retry after a failure: no such template"},
		},
		{"its call has failed, and the spec has changed since", quiet(failing, edited), decision{action: upsert, why: "the spec has changed"}},
		{
			"its call has failed, and the group has changed since", quiet(failing, func(p *shardGroup) { p.group.Etag = "e2" }),
			decision{action: upsert, why: "the spec has changed"},
		},
		{
			"its call has failed, and the shard's configuration has changed since", quiet(failing, func(p *shardGroup) { p.shard.ConfigDigest = "c2" }),
			decision{action: upsert, why: "the spec has changed"},
		},
		{"somebody else changed it", quiet(foreign), decision{action: repair, why: "the group was changed by another client"}},
		{
			"somebody else deleted it", quiet(func(p *shardGroup) { p.group, p.presence = nil, inventory.Gone }),
			decision{action: repair, why: "the group was changed by another client"},
		},
		{
			"the shard has lost and rebuilt it", quiet(func(p *shardGroup) { p.group.Rebuilt = true }),
			decision{action: upsert, why: "the shard has rebuilt the group after it lost its group file, and waits to hear what it should be"},
		},
		{
			"somebody else changed it a moment after a repair", quiet(repaired(1, time.Minute-1)),
			decision{action: noAction, again: 1, why: "the group was changed by another client; it was repaired a moment ago"},
		},
		{"somebody else changed it a minute after a repair", quiet(repaired(2, time.Minute)), decision{action: repair, why: again}},
		{
			"somebody else changed it after three repairs", quiet(repaired(3, 2*time.Minute)),
			decision{
				action: backOff, again: 8 * time.Minute,
				why: "another client keeps changing the group; it was repaired 3 times and is left alone until 2026-01-02T03:12:05Z",
			},
		},
		{"the spec has changed in a fight", quiet(repaired(3, 2*time.Minute), edited), decision{action: upsert, why: "the spec has changed"}},
		{
			"a fight of long ago is forgotten", quiet(repaired(3, RepairSpan)),
			decision{action: repair, why: "the group was changed by another client"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, decide(test.shardGroup, now), cmp.AllowUnexported(decision{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO5_DecideAboutTheEnd(t *testing.T) {
	for _, test := range []struct {
		name       string
		shardGroup shardGroup
		want       decision
	}{
		{"the group is there", quiet(leaving), decision{action: deleteGroup, again: removalPoll, why: "group web on shard a is to end"}},
		{
			"its instances are leaving", quiet(leaving, draining),
			decision{action: waitForDeletion, again: removalPoll, why: "group web on shard a still has instances"},
		},
		{
			"its instances are not known", quiet(leaving, draining, func(p *shardGroup) { p.instances, p.synced.InstancesSynced = nil, false }),
			decision{action: waitForDeletion, again: removalPoll, why: "group web on shard a still has instances"},
		},
		{
			"its instances are gone", quiet(leaving, draining, func(p *shardGroup) { p.instances = nil }),
			decision{action: removeFinalizer, why: "group web on shard a is empty"},
		},
		{
			"the group is gone", quiet(leaving, func(p *shardGroup) { p.group, p.presence = nil, inventory.Gone }),
			decision{action: removeFinalizer, why: "group web is gone from shard a"},
		},
		{"paused", quiet(leaving, func(p *shardGroup) { p.paused = true }), decision{action: noAction, why: "paused"}},
		{
			"nothing is known of the group", quiet(leaving, func(p *shardGroup) { p.group, p.presence, p.synced.GroupsSynced = nil, inventory.Unknown, false }),
			decision{action: waitForDeletion, again: waitNotice, why: "shard a does not answer"},
		},
		{
			"the shard does not answer", quiet(leaving, func(p *shardGroup) { p.shard.State = shards.Unreachable }),
			decision{action: waitForDeletion, again: waitNotice, why: "shard a does not answer"},
		},
		{
			"the shard is not configured", quiet(leaving, func(p *shardGroup) { p.configured = false }),
			decision{action: waitForDeletion, again: waitNotice, why: "shard a is not configured; configure it, or annotate with nstance.dev/force-remove=true"},
		},
		{
			"by force", quiet(leaving, annotated(infrav1.AnnotationForceRemove), func(p *shardGroup) { p.shard.State = shards.Unreachable }),
			decision{action: removeFinalizer, why: "removed by force; shard a may keep group web with its instances"},
		},
		{
			"its pool leaves the group alone", quiet(leaving, func(p *shardGroup) { p.left = true }),
			decision{action: removeFinalizer, why: "group web stays on shard a: its pool leaves it there"},
		},
		{
			"the group is static", quiet(leaving, func(p *shardGroup) { p.group.IsStatic = true }),
			decision{action: revert, why: "group web on shard a goes back to what the server's configuration says"},
		},
		{"it was let go already", quiet(leaving, func(p *shardGroup) { p.object.Finalizers = nil }), decision{action: noAction}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, decide(test.shardGroup, now), cmp.AllowUnexported(decision{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
