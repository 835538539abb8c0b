package drain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const id = "wrk01arz3ndektsv4rrffq69g5fav"

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestO10_Evaluate(t *testing.T) {
	deadline := now.Add(5 * time.Minute)
	target := func(changes ...func(*Target)) Target {
		s := Target{
			Presence: inventory.Present, Synced: true, HasControlPlane: true,
			Reported: &nstancev1.InstanceStatus{InstanceId: id, Status: "running"},
		}
		for _, change := range changes {
			change(&s)
		}
		return s
	}
	condemned := func(s *Target) {
		s.Reported.Status, s.Reported.Condemned = "draining", &nstancev1.Condemned{Reason: "expired", DeleteAt: timestamppb.New(deadline)}
	}
	begun := func(s *Target) {
		s.State = State{Instance: id, Reason: "expired", Deadline: deadline, StartedAt: now, Phase: infrav1.DrainEvicting}
	}
	begunForIt := func(s *Target) {
		s.State = State{Instance: id, Reason: "requested", Deadline: now.Add(10 * time.Minute), StartedAt: now, Phase: infrav1.DrainEvicting}
	}
	done := func(s *Target) {
		begun(s)
		s.State.Phase, s.State.Acked, s.State.AckedAt = infrav1.DrainDone, true, now.Add(-repeatAfter)
	}
	says := func(status string) func(*Target) { return func(s *Target) { s.Reported.Status = status } }
	out := func(presence inventory.Presence) func(*Target) {
		return func(s *Target) { s.Presence, s.Reported, s.Synced = presence, nil, false }
	}
	deleted := func(s *Target) {
		at := metav1.NewTime(now)
		s.Machine = &infrav1.NstanceMachine{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at, Finalizers: []string{infrav1.FinalizerMachine}}, Spec: infrav1.NstanceMachineSpec{InstanceID: id},
		}
		s.Owner = &clusterv1.Machine{}
	}
	core := func(s *Target) {
		s.Owner.DeletionTimestamp = s.Machine.DeletionTimestamp
		s.Owner.Status.NodeRef.Name = "n"
	}
	request := Request{Instance: id, Reason: "expired", Deadline: deadline, Acknowledge: true}
	resumed := request
	resumed.Decided = now
	alone := resumed // nobody waits to hear of it
	alone.Acknowledge = false
	undone := alone
	undone.Reason, undone.Deadline = "requested", now.Add(10*time.Minute)
	ofMachine := Request{Instance: id, Reason: "requested", Decided: now, Deadline: now.Add(10 * time.Minute)}
	for _, tt := range []struct {
		name string
		s    Target
		want Evaluation
	}{
		{"it lives", target(), Evaluation{Retained: true}},
		{"it is condemned", target(condemned), Evaluation{Wanted: true, Request: request}},
		{"it is, and its machine is deleted", target(condemned, deleted), Evaluation{Wanted: true, Request: request}},
		{"it is, and its machine is deleted, which gives it less time", target(condemned, deleted, func(s *Target) {
			s.Owner.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(1))
		}), Evaluation{Wanted: true, Request: request}},
		{"its machine is deleted", target(deleted), Evaluation{Wanted: true, Request: ofMachine}},
		{"but Cluster API has emptied the node", target(deleted, core), Evaluation{Retained: true}},
		{"but Cluster API has emptied the node, which was there before", target(deleted, core, func(s *Target) { s.NodeJoined = now.Add(-time.Minute) }), Evaluation{Retained: true}},
		{"but the node joined too late for Cluster API", target(deleted, core, func(s *Target) { s.NodeJoined = now.Add(time.Second) }), Evaluation{Wanted: true, Request: ofMachine}},
		{"but Cluster API goes on with it", target(deleted, core, begunForIt), Evaluation{Wanted: true, Request: ofMachine}},
		{"but its cluster was paused meanwhile", target(deleted, begunForIt, func(s *Target) { s.Paused = true }), Evaluation{Wanted: true, Request: undone, Retained: true}},
		{"the same, and the shard is out of sight", target(deleted, begunForIt, out(inventory.Unknown), func(s *Target) { s.Paused = true }), Evaluation{Wanted: true, Request: undone}},
		{"but there is no control plane, so it has not", target(deleted, core, func(s *Target) { s.HasControlPlane = false }), Evaluation{Wanted: true, Request: ofMachine}},
		{"but a person does not want that", target(deleted, func(s *Target) {
			s.Owner.Annotations = map[string]string{clusterv1.ExcludeNodeDrainingAnnotation: ""}
		}), Evaluation{Retained: true}},
		{"but its cluster is paused", target(deleted, func(s *Target) { s.Paused = true }), Evaluation{Retained: true}},
		{"the shard went out of sight", target(begun, out(inventory.Unknown)), Evaluation{Wanted: true, Request: resumed}},
		{"nothing was begun, and nothing is known", target(out(inventory.Unknown)), Evaluation{}},
		{"its machine ends", target(begun, says("terminating")), Evaluation{Wanted: true, Request: alone, InstanceState: InstanceDeleting}},
		{"it is gone", target(begun, out(inventory.Gone)), Evaluation{Wanted: true, Request: alone, InstanceState: InstanceDeleted}},
		{"it has ended", target(begun, says("terminated")), Evaluation{Wanted: true, Request: alone, InstanceState: InstanceDeleted}},
		{"it is retained, as it seems", target(begun), Evaluation{Wanted: true, Request: alone, Retained: true}},
		{"it was for a moment", target(begun, func(s *Target) { s.RetainedSince = now.Add(-retainedFor + 1) }), Evaluation{Wanted: true, Request: alone, Retained: true}},
		{"it is retained", target(begun, func(s *Target) { s.RetainedSince = now.Add(-retainedFor) }), Evaluation{Wanted: true, Request: alone, Retained: true, InstanceState: InstanceRetained}},
		{"a shard that rebuilds what it knows spares nobody", target(begun, func(s *Target) { s.Synced, s.RetainedSince = false, now.Add(-time.Hour) }), Evaluation{Wanted: true, Request: alone}},
		{"nor does one that only remembers it", target(begun, says("unknown"), func(s *Target) { s.RetainedSince = now.Add(-time.Hour) }), Evaluation{Wanted: true, Request: resumed}},
		{"the shard was told, and does not act", target(condemned, done), Evaluation{Wanted: true, Request: request, Repeated: true}},
		{"the shard was told just now", target(condemned, done, func(s *Target) { s.State.AckedAt = now }), Evaluation{Wanted: true, Request: request}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Evaluate(Sources(), tt.s, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO10_Merge(t *testing.T) {
	early, late := now.Add(time.Minute), now.Add(time.Hour)
	for _, tt := range []struct {
		name       string
		a, b, want Request
	}{
		{
			"the earlier deadline and the harsher force",
			Request{Instance: id, Reason: "expired", Deadline: late, Force: AtDeadline, Acknowledge: true},
			Request{Instance: id, Reason: "surplus", Deadline: early, Force: Never, Instruction: "rcl-1", Decided: now},
			Request{Instance: id, Reason: "expired", Deadline: early, Force: AtDeadline, Acknowledge: true, Instruction: "rcl-1", Decided: now},
		},
		{
			"in either order",
			Request{Instance: id, Reason: "surplus", Deadline: early, Force: Never, Instruction: "rcl-1", Decided: now},
			Request{Instance: id, Reason: "expired", Deadline: late, Acknowledge: true, Decided: now.Add(time.Second)},
			Request{Instance: id, Reason: "surplus", Deadline: early, Acknowledge: true, Instruction: "rcl-1", Decided: now},
		},
		{"a deadline is earlier than none", Request{Deadline: late}, Request{}, Request{Deadline: late}},
		{"of the second, too", Request{}, Request{Deadline: late}, Request{Deadline: late}},
		{"neither forces", Request{Force: Never}, Request{Force: Never}, Request{Force: Never}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Merge(tt.a, tt.b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What the engine does follows from what is requested, not from where it came from.
func TestO10_SourcesAreMerged(t *testing.T) {
	requests := func(reason string, acknowledge bool) Source {
		return func(Target, time.Time) (Request, bool) {
			return Request{Instance: id, Reason: reason, Acknowledge: acknowledge}, true
		}
	}
	silent := func(Target, time.Time) (Request, bool) { return Request{}, false }
	lives := Target{Presence: inventory.Present, Synced: true, Reported: &nstancev1.InstanceStatus{InstanceId: id, Status: "running"}}
	acknowledged := lives
	acknowledged.State = State{Instance: id, Phase: infrav1.DrainDone, Progress: Progress{Acked: true, AckedAt: now.Add(-repeatAfter)}}
	begun := lives
	begun.State = State{Instance: id, Phase: infrav1.DrainEvicting, Instruction: "rcl-1", Force: Never}
	withdraws := func(instruction string) Source {
		return func(Target, time.Time) (Request, bool) {
			return Request{Instance: id, Instruction: instruction, Withdrawn: true}, true
		}
	}
	terminating := lives
	terminating.Reported = &nstancev1.InstanceStatus{InstanceId: id, Status: inventory.StatusTerminating}
	for _, tt := range []struct {
		name    string
		sources []Source
		target  Target
		want    Evaluation
	}{
		{"none", nil, lives, Evaluation{Retained: true}},
		{"one without a request", []Source{silent}, lives, Evaluation{Retained: true}},
		{"the second", []Source{silent, requests("rollout", false)}, lives, Evaluation{Wanted: true, Request: Request{Instance: id, Reason: "rollout"}}},
		{
			"two", []Source{requests("reclaim", false), requests("rollout", true)}, lives,
			Evaluation{Wanted: true, Request: Request{Instance: id, Reason: "reclaim", Acknowledge: true}},
		},
		{
			"one that takes its request back", []Source{withdraws("rcl-1")}, begun,
			Evaluation{Wanted: true, InstanceState: InstanceRetained, Request: Request{Instance: id, Instruction: "rcl-1", Force: Never}},
		},
		{
			"one that takes back what another wants, too", []Source{withdraws("rcl-1"), requests("expired", true)}, begun,
			Evaluation{Wanted: true, Request: Request{Instance: id, Reason: "expired", Acknowledge: true}},
		},
		{
			"one that takes back what was not begun", []Source{withdraws("rcl-2")}, begun,
			Evaluation{Wanted: true, Retained: true, Request: Request{Instance: id, Instruction: "rcl-1", Force: Never}},
		},
		{
			"one that waits to hear of the end", []Source{requests("reclaim", true)}, acknowledged,
			Evaluation{Wanted: true, Repeated: true, Request: Request{Instance: id, Reason: "reclaim", Acknowledge: true}},
		},
		{"one that does not", []Source{requests("rollout", false)}, acknowledged, Evaluation{Wanted: true, Request: Request{Instance: id, Reason: "rollout"}}},
		{"an instance that is being deleted", []Source{requests("rollout", false)}, terminating, Evaluation{InstanceState: InstanceDeleting}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Evaluate(tt.sources, tt.target, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO10_Turn(t *testing.T) {
	drains := func(name string, phase Phase, left time.Duration) QueueEntry {
		w := QueueEntry{Request: Request{Instance: name}, Phase: phase, Started: now.Add(-time.Hour)}
		if left > 0 {
			w.Request.Deadline = now.Add(left)
		}
		return w
	}
	all := []QueueEntry{
		drains("later", infrav1.DrainCordoned, 3*time.Hour), drains("soon", infrav1.DrainCordoned, 2*time.Hour), drains("never", infrav1.DrainCordoned, 0),
		drains("late", infrav1.DrainCordoned, time.Minute), drains("goes", infrav1.DrainEvicting, time.Hour), drains("new", None, time.Hour),
		drains("done", infrav1.DrainDone, time.Hour),
	}
	for _, tt := range []struct {
		name  string
		limit int
		want  bool
	}{
		{"goes", 1, true},   // it has begun
		{"new", 1, true},    // it is to be cordoned
		{"done", 1, true},   // it costs nothing
		{"late", 1, true},   // it has no time to wait
		{"soon", 1, false},  // the place is taken
		{"soon", 2, false},  // and the free one is for one that is later still
		{"soon", 3, true},   //
		{"later", 3, false}, // those with less time come first
		{"later", 4, true},
		{"never", 4, false}, // without a deadline last
		{"never", 5, true},
		{"unknown", 1, true},
	} {
		if got := Turn(tt.name, all, tt.limit, now); got != tt.want {
			t.Errorf("%s of %d: %t", tt.name, tt.limit, got)
		}
	}
}
