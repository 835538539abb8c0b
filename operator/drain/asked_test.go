package drain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	api "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/inventory"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const id = "wrk01arz3ndektsv4rrffq69g5fav"

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestO10_Asked(t *testing.T) {
	deadline := now.Add(5 * time.Minute)
	sight := func(changes ...func(*Sight)) Sight {
		s := Sight{
			Presence: inventory.Present, Synced: true, CoreDrains: true,
			Said: &nstancev1.InstanceStatus{InstanceId: id, Status: "running"},
		}
		for _, change := range changes {
			change(&s)
		}
		return s
	}
	condemned := func(s *Sight) {
		s.Said.Status, s.Said.Condemned = "draining", &nstancev1.Condemned{Reason: "expired", DeleteAt: timestamppb.New(deadline)}
	}
	begun := func(s *Sight) {
		s.State = State{Instance: id, Reason: "expired", Deadline: deadline, StartedAt: now, Phase: api.DrainEvicting}
	}
	begunForIt := func(s *Sight) {
		s.State = State{Instance: id, Reason: "requested", Deadline: now.Add(10 * time.Minute), StartedAt: now, Phase: api.DrainEvicting}
	}
	done := func(s *Sight) {
		begun(s)
		s.State.Phase, s.State.Acked, s.State.AckedAt = api.DrainDone, true, now.Add(-repeatAfter)
	}
	says := func(status string) func(*Sight) { return func(s *Sight) { s.Said.Status = status } }
	out := func(presence inventory.Presence) func(*Sight) {
		return func(s *Sight) { s.Presence, s.Said, s.Synced = presence, nil, false }
	}
	deleted := func(s *Sight) {
		at := metav1.NewTime(now)
		s.Machine = &api.NstanceMachine{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at, Finalizers: []string{api.FinalizerMachine}}, Spec: api.NstanceMachineSpec{InstanceID: id},
		}
		s.Owner = &clusterv1.Machine{}
	}
	core := func(s *Sight) {
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
		s    Sight
		want Answer
	}{
		{"it lives", sight(), Answer{Spared: true}},
		{"it is condemned", sight(condemned), Answer{Wanted: true, Request: request}},
		{"it is, and its machine is deleted", sight(condemned, deleted), Answer{Wanted: true, Request: request}},
		{"its machine is deleted", sight(deleted), Answer{Wanted: true, Request: ofMachine}},
		{"but Cluster API has emptied the node", sight(deleted, core), Answer{Spared: true}},
		{"but Cluster API has emptied the node, which was there before", sight(deleted, core, func(s *Sight) { s.NodeJoined = now.Add(-time.Minute) }), Answer{Spared: true}},
		{"but the node joined too late for Cluster API", sight(deleted, core, func(s *Sight) { s.NodeJoined = now.Add(time.Second) }), Answer{Wanted: true, Request: ofMachine}},
		{"but Cluster API goes on with it", sight(deleted, core, begunForIt), Answer{Wanted: true, Request: ofMachine}},
		{"but its cluster was paused meanwhile", sight(deleted, begunForIt, func(s *Sight) { s.Paused = true }), Answer{Wanted: true, Request: undone, Spared: true}},
		{"the same, and the shard is out of sight", sight(deleted, begunForIt, out(inventory.Unknown), func(s *Sight) { s.Paused = true }), Answer{Wanted: true, Request: undone}},
		{"but there is no control plane, so it has not", sight(deleted, core, func(s *Sight) { s.CoreDrains = false }), Answer{Wanted: true, Request: ofMachine}},
		{"but a person does not want that", sight(deleted, func(s *Sight) {
			s.Owner.Annotations = map[string]string{clusterv1.ExcludeNodeDrainingAnnotation: ""}
		}), Answer{Spared: true}},
		{"but its cluster is paused", sight(deleted, func(s *Sight) { s.Paused = true }), Answer{Spared: true}},
		{"the shard went out of sight", sight(begun, out(inventory.Unknown)), Answer{Wanted: true, Request: resumed}},
		{"nothing was begun, and nothing is known", sight(out(inventory.Unknown)), Answer{}},
		{"its machine ends", sight(begun, says("terminating")), Answer{Wanted: true, Request: alone, Fate: Deleting}},
		{"it is gone", sight(begun, out(inventory.Gone)), Answer{Wanted: true, Request: alone, Fate: Deleted}},
		{"it has ended", sight(begun, says("terminated")), Answer{Wanted: true, Request: alone, Fate: Deleted}},
		{"it is spared, as it seems", sight(begun), Answer{Wanted: true, Request: alone, Spared: true}},
		{"it was for a moment", sight(begun, func(s *Sight) { s.SparedSince = now.Add(-sparedFor + 1) }), Answer{Wanted: true, Request: alone, Spared: true}},
		{"it is spared", sight(begun, func(s *Sight) { s.SparedSince = now.Add(-sparedFor) }), Answer{Wanted: true, Request: alone, Spared: true, Fate: Spared}},
		{"a shard that rebuilds what it knows spares nobody", sight(begun, func(s *Sight) { s.Synced, s.SparedSince = false, now.Add(-time.Hour) }), Answer{Wanted: true, Request: alone}},
		{"nor does one that only remembers it", sight(begun, says("unknown"), func(s *Sight) { s.SparedSince = now.Add(-time.Hour) }), Answer{Wanted: true, Request: resumed}},
		{"the shard was told, and does not act", sight(condemned, done), Answer{Wanted: true, Request: request, Repeated: true}},
		{"the shard was told just now", sight(condemned, done, func(s *Sight) { s.State.AckedAt = now }), Answer{Wanted: true, Request: request}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Asked(tt.s, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO10_Turn(t *testing.T) {
	drains := func(name string, phase Phase, left time.Duration) Waiting {
		w := Waiting{Request: Request{Instance: name}, Phase: phase, Started: now.Add(-time.Hour)}
		if left > 0 {
			w.Request.Deadline = now.Add(left)
		}
		return w
	}
	all := []Waiting{
		drains("later", api.DrainCordoned, 3*time.Hour), drains("soon", api.DrainCordoned, 2*time.Hour), drains("never", api.DrainCordoned, 0),
		drains("late", api.DrainCordoned, time.Minute), drains("goes", api.DrainEvicting, time.Hour), drains("new", None, time.Hour),
		drains("done", api.DrainDone, time.Hour),
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
