package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/backoff"
	"nstance.dev/operator/controllers/machine/placement"
	"nstance.dev/operator/drain"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const id = "wrk01arz3ndektsv4rrffq69g5fav"

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func group() *nstancev1.GroupStatus {
	return &nstancev1.GroupStatus{Key: "web", Kind: "wrk", Etag: "e1"}
}

func shard(name string, change func(*placement.Shard)) placement.Shard {
	s := placement.Shard{Name: name, Reachable: true, Known: true, Group: group(), ConfigDigest: "c1"}
	if change != nil {
		change(&s)
	}
	return s
}

// seen is what a test compares of a decision.
type seen struct {
	Actions      []Action
	RequeueAfter time.Duration
	// Ready, Provisioned and Deleting are conditions as "status/reason"; empty: there is none.
	Ready, Provisioned, Deleting string
}

func look(d Decision) seen {
	show := func(kind string) string {
		c := meta.FindStatusCondition(d.Status.Conditions, kind)
		if c == nil || c.Reason == infrav1.ReasonNotDeleting {
			return ""
		}
		return string(c.Status) + "/" + c.Reason
	}
	return seen{d.Actions, d.RequeueAfter, show(infrav1.ConditionReady), show(infrav1.ConditionInstanceProvisioned), show(infrav1.ConditionDeleting)}
}

// onDemand is a machine that is to have an instance, with all that this takes.
func onDemand(changes ...func(*Observation)) Observation {
	none := ""
	o := Observation{
		Machine: &infrav1.NstanceMachine{
			ObjectMeta: metav1.ObjectMeta{Name: "m", Finalizers: []string{infrav1.FinalizerMachine}, CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
			Spec:       infrav1.NstanceMachineSpec{Mode: infrav1.MachineOnDemand, MachineSettings: infrav1.MachineSettings{GroupRef: infrav1.GroupReference{Name: "web"}}},
		},
		Owner:        &clusterv1.Machine{Spec: clusterv1.MachineSpec{Bootstrap: clusterv1.Bootstrap{DataSecretName: &none}}},
		ClusterReady: true, Shards: []placement.Shard{shard("a", nil), shard("b", nil)}, Presence: inventory.Gone, ProvisionTimeout: 15 * time.Minute,
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

// The steps in the life of a machine, each a change of the one before.
func chosen(o *Observation) {
	o.Machine.Spec.Shard, o.Machine.Spec.InstanceID = "a", id
	o.Machine.Annotations = map[string]string{infrav1.AnnotationTriedShards: "a"}
}

func pending(o *Observation) {
	chosen(o)
	o.Machine.Status.InstanceID = id
	o.Presence, o.Reported = inventory.Present, &nstancev1.InstanceStatus{InstanceId: id, Status: "pending"}
}

func started(o *Observation) {
	pending(o)
	o.Reported.Status, o.Reported.ProviderInstanceId, o.Reported.ProviderUri = "provisioning", "vm", "nstance://a/"+id
}

func running(o *Observation) {
	started(o)
	o.Machine.Spec.ProviderID = o.Reported.GetProviderUri()
	o.Machine.Status.Initialization.Provisioned = true
	o.Reported.Status, o.Reported.RegisteredAt = "running", timestamppb.New(now)
}

// ready is a machine that was known to be so.
func ready(o *Observation) {
	running(o)
	o.Machine.Status.Ready = true
}

func managed(o *Observation) {
	o.Machine.Spec.Mode = infrav1.MachineManaged
	o.Machine.Annotations = nil
}

func condemned(reason, state string) func(*Observation) {
	return func(o *Observation) {
		running(o)
		o.Reported.Status, o.Reported.Condemned = state, &nstancev1.Condemned{Reason: reason}
	}
}

func gone(o *Observation) { o.Presence, o.Reported = inventory.Gone, nil }

func deleted(o *Observation) {
	at := metav1.NewTime(now.Add(-time.Minute))
	o.Machine.DeletionTimestamp = &at
}

func coreDeleted(o *Observation) {
	deleted(o)
	o.Owner.DeletionTimestamp = o.Machine.DeletionTimestamp
	o.Owner.Status.NodeRef.Name = "n"
	o.HasControlPlane = true
}

func silent(o *Observation) { o.Shards[0].Reachable = false }

func refusedWith(class shards.Class, failures int, ago time.Duration) func(*Observation) {
	return func(o *Observation) {
		o.Tried = Tried{Instance: id, CreateAt: now.Add(-ago), Failures: failures, Class: class, Message: "no", About: "e1 c1"}
	}
}

func TestO12_OnDemandMachine(t *testing.T) {
	const uri = "nstance://a/" + id
	provisioning := "False/Provisioning"
	ownerless := func(o *Observation) { o.Owner = nil }
	forPod := func(o *Observation) { o.Machine.Labels = map[string]string{infrav1.LabelOnDemandPodUID: "u"} }
	noRoom := func(o *Observation) {
		o.Machine.Status.Conditions = status.Next(nil, []metav1.Condition{status.False(infrav1.ConditionCapacityAvailable, infrav1.ReasonInsufficient, "full")}, 0, now)
	}
	for _, tt := range []struct {
		name string
		o    Observation
		want seen
	}{
		{"nobody owns it yet", onDemand(ownerless), seen{nil, 0, "False/WaitingForOwner", "False/WaitingForOwner", ""}},
		{"nobody owns one that was made for a pod", onDemand(ownerless, forPod), seen{nil, 9 * time.Minute, "False/WaitingForOwner", "False/WaitingForOwner", ""}},
		{
			"and never will", onDemand(ownerless, forPod, func(o *Observation) { o.Machine.CreationTimestamp = metav1.NewTime(now.Add(-10 * time.Minute)) }),
			seen{[]Action{DeleteSelf{}}, 0, "", "", ""},
		},
		{"first the finalizer", onDemand(func(o *Observation) { o.Machine.Finalizers = nil }), seen{[]Action{AddFinalizer{}}, 0, "", "", ""}},
		{"the cluster is not ready", onDemand(func(o *Observation) { o.ClusterReady = false }), seen{nil, 0, "False/WaitingForOwner", "False/WaitingForOwner", ""}},
		{"no bootstrap data", onDemand(func(o *Observation) { o.Owner.Spec.Bootstrap.DataSecretName = nil }), seen{nil, 0, "False/WaitingForOwner", "False/WaitingForOwner", ""}},
		{"then the id and the shard", onDemand(), seen{[]Action{Choose{"a", "wrk", []string{"a"}}}, 0, "", "", ""}},
		{"the shard that its Machine names", onDemand(func(o *Observation) { o.Owner.Spec.FailureDomain = "b" }), seen{[]Action{Choose{"b", "wrk", nil}}, 0, "", "", ""}},
		{"the shard that its spec names", onDemand(func(o *Observation) { o.Machine.Spec.Shard = "b" }), seen{[]Action{Choose{"b", "wrk", nil}}, 0, "", "", ""}},
		{"no shard has the group", onDemand(func(o *Observation) { o.Shards = nil }), seen{nil, lookAgain, "False/GroupNotFound", "False/GroupNotFound", ""}},
		{"then the call", onDemand(chosen), seen{[]Action{Create{"e1 c1"}}, 0, provisioning, provisioning, ""}},
		{"the shard is silent", onDemand(chosen, silent), seen{nil, 0, "False/ShardUnreachable", "False/ShardUnreachable", ""}},
		{"the shard is not configured any more", onDemand(chosen, func(o *Observation) { o.Shards = o.Shards[1:] }), seen{nil, 0, "False/ShardNotConfigured", "False/ShardNotConfigured", ""}},
		{"nobody answered", onDemand(chosen, refusedWith(shards.Unavailable, 3, time.Second)), seen{nil, backoff.Growing("", 3, time.Second, longestPause) - time.Second, provisioning, provisioning, ""}},
		{"and again", onDemand(chosen, refusedWith(shards.Unavailable, 3, 5*time.Second)), seen{[]Action{Create{"e1 c1"}}, 0, provisioning, provisioning, ""}},
		{"the shard does not know the group", onDemand(chosen, refusedWith(shards.NotFound, 1, 0)), seen{nil, backoff.Growing("", 1, firstPause, longestPause), "False/GroupNotFound", "False/GroupNotFound", ""}},
		{"still not", onDemand(chosen, refusedWith(shards.NotFound, 9, 0)), seen{nil, backoff.Growing("", 9, firstPause, longestPause), "False/GroupNotFound", "False/GroupNotFound", ""}},
		{"what the shard refuses is not repeated soon", onDemand(chosen, refusedWith(shards.Invalid, 1, 0)), seen{nil, backoff.Refused("", 1), "False/InvalidRequest", "False/InvalidRequest", ""}},
		{"nor is what is above the tenant's quota", onDemand(chosen, refusedWith(shards.OverQuota, 1, 0)), seen{nil, backoff.Refused("", 1), "False/QuotaExceeded", "False/QuotaExceeded", ""}},
		{"until the quota may be another one", onDemand(chosen, refusedWith(shards.OverQuota, 1, 0), func(o *Observation) { o.Shards[0].ConfigDigest = "c2" }), seen{[]Action{Create{"e1 c2"}}, 0, provisioning, provisioning, ""}},
		{"and later it is, for the server may have learnt", onDemand(chosen, refusedWith(shards.Invalid, 1, backoff.RefusedAtMost)), seen{[]Action{Create{"e1 c1"}}, 0, provisioning, provisioning, ""}},
		{"until the group is another one", onDemand(chosen, refusedWith(shards.Invalid, 1, 0), func(o *Observation) { o.Tried.About = "e0 c1" }), seen{[]Action{Create{"e1 c1"}}, 0, provisioning, provisioning, ""}},
		{"or the shard's configuration is", onDemand(chosen, refusedWith(shards.Invalid, 1, 0), func(o *Observation) { o.Shards[0].ConfigDigest = "c2" }), seen{[]Action{Create{"e1 c2"}}, 0, provisioning, provisioning, ""}},
		{"a refusal of another instance does not count", onDemand(chosen, refusedWith(shards.Invalid, 1, 0), func(o *Observation) { o.Tried.Instance = "x" }), seen{[]Action{Create{"e1 c1"}}, 0, provisioning, provisioning, ""}},
		{"it is there", onDemand(pending), seen{nil, 0, provisioning, provisioning, ""}},
		{"its details are not known", onDemand(pending, func(o *Observation) { o.Reported.ProviderInstanceId = "vm" }), seen{[]Action{GetStatus{}}, lookAgain, provisioning, provisioning, ""}},
		{"its machine is known", onDemand(started), seen{[]Action{SetProviderID{uri}}, 0, provisioning, provisioning, ""}},
		{"its machine runs", onDemand(running, func(o *Observation) { o.Reported.Status, o.Reported.RegisteredAt = "provisioning", nil }), seen{nil, 0, "False/WaitingForAgent", "True/Provisioned", ""}},
		{"it has begun to run", onDemand(running), seen{[]Action{PublishEvent{Reason: "InstanceRunning", Message: "instance " + id + " runs on shard a"}}, 0, "True/Running", "True/Provisioned", ""}},
		{"it runs", onDemand(ready), seen{nil, 0, "True/Running", "True/Provisioned", ""}},
		{"M85: it is off on purpose", onDemand(running, func(o *Observation) { o.Reported.Status = "powered-off" }), seen{nil, 0, "False/PoweredOff", "True/Provisioned", ""}},
		{"it is unhealthy", onDemand(running, func(o *Observation) { o.Reported.Status = "unhealthy" }), seen{nil, 0, "False/Unhealthy", "True/Provisioned", ""}},
		{"it is condemned", onDemand(condemned("expired", "draining")), seen{nil, 0, "False/Draining", "True/Provisioned", ""}},
		{"it is ended", onDemand(condemned("expired", "terminating")), seen{nil, 0, "False/Deleting", "True/Provisioned", ""}},
		{"no room, and another shard", onDemand(pending, noRoom), seen{[]Action{Delete{}}, lookAgain, "False/InsufficientCapacity", "False/InsufficientCapacity", ""}},
		{"no room, and no other shard", onDemand(pending, noRoom, func(o *Observation) { o.Shards = o.Shards[:1] }), seen{nil, lookAgain, "False/InsufficientCapacity", "False/InsufficientCapacity", ""}},
		{"no room where a person wants it", onDemand(pending, noRoom, func(o *Observation) { o.Machine.Annotations = nil }), seen{nil, lookAgain, "False/InsufficientCapacity", "False/InsufficientCapacity", ""}},
		{"no room for an earlier instance", onDemand(pending, noRoom, func(o *Observation) { o.Machine.Generation = 2 }), seen{nil, 0, provisioning, provisioning, ""}},
		{"there is no room, and another shard", onDemand(chosen, refusedWith(shards.NoRoom, 1, 0)), seen{nil, AtOnce, provisioning, provisioning, ""}},
		{
			"which is written down, and then it goes there", onDemand(chosen, refusedWith(shards.NoRoom, 1, 0), func(o *Observation) { o.Machine.Status.InstanceState = infrav1.InstanceTerminated }),
			seen{[]Action{Choose{"b", "wrk", []string{"a", "b"}}}, 0, provisioning, provisioning, ""},
		},
		{
			"there is no room, and no other shard", onDemand(chosen, refusedWith(shards.NoRoom, 1, 0), func(o *Observation) { o.Shards = o.Shards[:1] }),
			seen{nil, backoff.Growing("", 1, firstPause, longestPause), "False/CapacityUnavailable", "False/CapacityUnavailable", ""},
		},
		{"gone before it was there", onDemand(pending, gone), seen{nil, AtOnce, provisioning, provisioning, ""}},
		{
			"which is written down, so another shard is tried", onDemand(pending, gone, func(o *Observation) { o.Machine.Status.InstanceState = infrav1.InstanceTerminated }),
			seen{[]Action{Choose{"b", "wrk", []string{"a", "b"}}}, 0, provisioning, provisioning, ""},
		},
		{"paused", onDemand(chosen, func(o *Observation) { o.Paused = true }), seen{nil, 0, "", "", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, look(Decide(tt.o, now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO11_ServerDeleted(t *testing.T) {
	const message = "instance " + id + " of shard a was deleted"
	tell := PublishEvent{Reason: "ServerDeleted", Message: message}
	because := PublishEvent{Reason: "ServerDeleted", Message: message + ": spot-termination"}
	late := func(o *Observation) { o.Machine.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)) }
	known := func(o *Observation) {
		o.Machine.Status.Conditions = status.Next(nil, []metav1.Condition{status.True(infrav1.ConditionServerDeleted, infrav1.ReasonServerDeleted, "")}, 0, now)
	}
	for _, tt := range []struct {
		name string
		o    Observation
		want []Action
	}{
		{"a managed one takes its Machine with it", onDemand(ready, managed, gone), []Action{tell, DeleteMachine{}}},
		{"its shard said why", onDemand(ready, managed, gone, func(o *Observation) { o.WhyDeleted = "spot-termination" }), []Action{because, DeleteMachine{}}},
		{
			"its shard lists it no more", onDemand(ready, managed, gone, func(o *Observation) { o.WhyDeleted = inventory.Unlisted }),
			[]Action{PublishEvent{Reason: "ServerDeleted", Message: message + ": a complete listing of the shard lacks it"}, DeleteMachine{}},
		},
		{
			"it was to go before its shard listed it no more", onDemand(ready, managed, gone, func(o *Observation) {
				o.WhyDeleted = inventory.Unlisted
				o.Machine.Status.Conditions = status.Next(nil, []metav1.Condition{status.False(infrav1.ConditionReady, infrav1.ReasonDraining, "expired")}, 0, now)
			}),
			[]Action{PublishEvent{Reason: "ServerDeleted", Message: message + "; expired"}, DeleteMachine{}},
		},
		{
			"a record that has ended says why", onDemand(ready, func(o *Observation) {
				o.Reported.Status, o.Reported.Condemned = "terminated", &nstancev1.Condemned{Reason: "spot-termination"}
			}), []Action{because, DeleteMachine{}},
		},
		{"so does an on-demand one", onDemand(ready, gone), []Action{tell, DeleteMachine{}}},
		{"and one that a person placed", onDemand(pending, gone, func(o *Observation) { o.Machine.Annotations = nil }), []Action{tell, DeleteMachine{}}},
		{"and one that has had its time", onDemand(pending, gone, late), []Action{tell, DeleteMachine{}}},
		{"its Machine is being deleted already", onDemand(ready, gone, func(o *Observation) { at := metav1.Now(); o.Owner.DeletionTimestamp = &at }), []Action{tell}},
		{"nobody owns it", onDemand(ready, managed, gone, func(o *Observation) { o.Owner = nil }), []Action{tell, DeleteSelf{}}},
		{"it is said once", onDemand(ready, managed, gone, known), []Action{DeleteMachine{}}},
		{"a record that has ended is an end", onDemand(ready, func(o *Observation) { o.Reported.Status = "terminated" }), []Action{tell, DeleteMachine{}}},
		{"a silent shard ends nothing", onDemand(ready, managed, silent, func(o *Observation) { o.Presence, o.Reported = inventory.Unknown, nil }), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Decide(tt.o, now).Actions); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO6_Deletion(t *testing.T) {
	leave := []Action{RemoveFinalizer{}}
	endAgain := func(decrement bool) func(*Observation) {
		return func(o *Observation) {
			o.Tried = Tried{Instance: id, DeleteAt: now.Add(-10 * time.Second), Decremented: decrement}
		}
	}
	retiring := func(o *Observation) { o.Retiring = true }
	waits := func(o *Observation) { o.Waits = 15 * time.Second }
	ending := func(o *Observation) { o.Shards[0].Group = &nstancev1.GroupStatus{Deleting: true} }
	joined := func(ago time.Duration) func(*Observation) {
		return func(o *Observation) { o.Node.Joined = now.Add(-ago) }
	}
	node := func(drained bool) func(*Observation) {
		return func(o *Observation) { o.Node = &Node{Name: "n", Drained: drained} }
	}
	gives := func(seconds int32) func(*Observation) {
		return func(o *Observation) { o.Owner.Spec.Deletion.NodeDrainTimeoutSeconds = &seconds }
	}
	for _, tt := range []struct {
		name  string
		o     Observation
		want  []Action
		again time.Duration
	}{
		{"others may keep it", onDemand(ready, deleted, func(o *Observation) { o.Machine.Finalizers = nil }), nil, 0},
		{"it has no instance", onDemand(deleted), leave, 0},
		{"its instance is gone", onDemand(ready, deleted, gone), []Action{PublishEvent{Reason: "InstanceDeleted", Message: "instance " + id + " is gone"}, RemoveFinalizer{}}, 0},
		{"the group makes a new one", onDemand(ready, managed, coreDeleted), []Action{Delete{false}}, lookAgain},
		{"the group gets smaller", onDemand(ready, managed, coreDeleted, retiring), []Action{Delete{true}}, lookAgain},
		{"an on-demand one is in no group", onDemand(ready, coreDeleted, retiring), []Action{Delete{false}}, lookAgain},
		{"it was asked for", onDemand(ready, managed, coreDeleted, endAgain(false)), nil, 20 * time.Second},
		{"but not that the group gets smaller", onDemand(ready, managed, coreDeleted, retiring, endAgain(false)), []Action{Delete{true}}, lookAgain},
		{"which is asked for once", onDemand(ready, managed, coreDeleted, retiring, endAgain(true)), nil, 20 * time.Second},
		{"many of the group end in this minute", onDemand(ready, managed, coreDeleted, waits), nil, 15 * time.Second},
		{"which does not matter where the group gets smaller", onDemand(ready, managed, coreDeleted, retiring, waits), []Action{Delete{true}}, lookAgain},
		{"its shard ends the group", onDemand(ready, managed, coreDeleted, ending), nil, lookAgain},
		{"the work is to leave first", onDemand(ready, managed, deleted, node(false)), nil, lookAgain},
		{"the work is to leave, and has ten more seconds", onDemand(ready, deleted, node(false), gives(70)), nil, 10 * time.Second},
		{"the work has left", onDemand(ready, managed, deleted, node(true)), []Action{Delete{false}}, lookAgain},
		{"Cluster API has moved it away", onDemand(ready, managed, coreDeleted, node(false), joined(2*time.Minute)), []Action{Delete{false}}, lookAgain},
		{"Cluster API did not know the node in time", onDemand(ready, managed, coreDeleted, node(false), joined(time.Minute+drain.Unnoticed)), nil, lookAgain},
		{"the node joined too late for Cluster API", onDemand(ready, managed, coreDeleted, node(false), joined(30*time.Second)), nil, lookAgain},
		{"the same, and the end was asked for before", onDemand(ready, managed, coreDeleted, node(false), joined(30*time.Second), func(o *Observation) {
			o.Tried = Tried{Instance: id, DeleteAt: now.Add(-lookAgain)}
		}), nil, lookAgain},
		{"the same, and the work has left", onDemand(ready, managed, coreDeleted, node(true), joined(30*time.Second)), []Action{Delete{false}}, lookAgain},
		{"nobody is to move it away", onDemand(ready, deleted, node(false), func(o *Observation) {
			o.Owner.Annotations = map[string]string{clusterv1.ExcludeNodeDrainingAnnotation: "true"}
		}), []Action{Delete{false}}, lookAgain},
		{"it has had its time", onDemand(ready, deleted, node(false), gives(60)), []Action{Delete{false}}, lookAgain},
		{"it has all the time", onDemand(ready, deleted, node(false), gives(0), func(o *Observation) {
			at := metav1.NewTime(now.Add(-24 * time.Hour))
			o.Machine.DeletionTimestamp = &at
		}), nil, lookAgain},
		{"the pool leaves its instances", onDemand(ready, managed, deleted, func(o *Observation) { o.Orphaned = true }), leave, 0},
		{"the shard is silent", onDemand(ready, deleted, silent), []Action{PublishEvent{Reason: "DeletionWaits", Warning: true, Message: "shard a does not answer, so instance " + id +
			" cannot be ended; wait, or set annotation nstance.dev/force-remove=true and end it by hand"}}, warnEvery},
		{"which was said", onDemand(ready, deleted, silent, func(o *Observation) { o.Tried.WarnedAt = now.Add(-time.Minute) }), nil, warnEvery},
		{"a person does not wait", onDemand(ready, deleted, silent, func(o *Observation) {
			o.Machine.Annotations[infrav1.AnnotationForceRemove] = "true"
		}), []Action{PublishEvent{Reason: "InstanceLeaked", Warning: true, Message: "removed without its server, as nstance.dev/force-remove says; instance " + id +
			" on shard a may go on and cost money"}, RemoveFinalizer{}}, 0},
		{"it may have been made, which the shard is asked about", onDemand(chosen, deleted), []Action{Delete{false}}, lookAgain},
		{"it was not", onDemand(chosen, deleted, func(o *Observation) { o.Tried = Tried{Instance: id, DeleteAt: now, Unknown: true} }), leave, 0},
		{"unless a call for it is under way", onDemand(chosen, deleted, func(o *Observation) {
			o.Tried = Tried{Instance: id, DeleteAt: now, Unknown: true, CreateAt: now.Add(-time.Second)}
		}), nil, lookAgain},
		{"paused", onDemand(ready, deleted, func(o *Observation) { o.Paused = true }), nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(tt.o, now)
			if diff := cmp.Diff(tt.want, d.Actions); diff != "" {
				t.Error(diff)
			}
			if d.RequeueAfter != tt.again {
				t.Errorf("again after %v, want %v", d.RequeueAfter, tt.again)
			}
		})
	}
}

// A shard that is out of sight changes nothing of what was known, and says so.
func TestO7_StatusOfASilentShard(t *testing.T) {
	before := Decide(onDemand(running), now).Status
	o := onDemand(running, silent, func(o *Observation) {
		o.Machine.Status = before
		o.Presence, o.Reported = inventory.Unknown, nil
	})
	got := Decide(o, now)
	ready := meta.FindStatusCondition(got.Status.Conditions, infrav1.ConditionReady)
	if ready.Status != metav1.ConditionTrue || ready.Reason != infrav1.ReasonShardUnreachable {
		t.Errorf("%+v", ready)
	}
	got.Status.Conditions, before.Conditions = nil, nil
	if diff := cmp.Diff(before, got.Status); diff != "" {
		t.Error(diff)
	}
}

func TestStatusFollowsTheInstance(t *testing.T) {
	o := onDemand(running, func(o *Observation) {
		o.Reported.InstanceType, o.Reported.Addresses, o.Reported.Hostname = "small", []string{"10.0.0.1"}, "host"
		o.Shards[0].Group.InstanceType, o.Shards[0].Group.Capacity = "small", map[string]string{"cpu": "2", "memory": "wrong"}
		o.Shards[0].Group.Interruptible = true
		o.Machine.Status.LastError = "somebody else's"
		o.Machine.Generation = 3
	})
	got := Decide(o, now).Status
	got.Conditions = nil
	cpu := capacity(map[string]string{"cpu": "2"})
	want := infrav1.NstanceMachineStatus{
		Initialization: infrav1.Initialization{Provisioned: true}, Ready: true, InstanceID: id, ProviderID: "nstance://a/" + id,
		Shard: "a", FailureDomain: "a", InstanceState: "running", InstanceType: "small", Capacity: cpu, Interruptible: true, ObservedGeneration: 3,
		Addresses: []clusterv1.MachineAddress{{Type: "InternalIP", Address: "10.0.0.1"}, {Type: "Hostname", Address: "host"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
