package machinepool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machinepool/planner"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// settled is a pool whose shards have these many instances each, all of them Nodes that
// are ready: settled(3, 2) has a1 a2 a3 on shard a and b1 b2 on b. a1 is the oldest.
func settled(sizes ...int) *state {
	st := &state{
		pool: &infrav1.NstanceMachinePool{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "web", UID: "pool", Generation: 1, CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)),
				Annotations: map[string]string{},
			},
			Spec: infrav1.NstanceMachinePoolSpec{Group: "web", Template: "base"},
		},
		machinePool: &clusterv1.MachinePool{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
			Spec:       clusterv1.MachinePoolSpec{ClusterName: "example", Replicas: ptr.To(int32(0))},
		},
		shardGroups: map[string]*infrav1.NstanceShardGroup{}, machines: map[string]*clusterv1.Machine{},
		infraMachines: map[string]*infrav1.NstanceMachine{}, shards: map[string]shard{},
		asMachines: true, redirectAfter: time.Minute,
	}
	for i, size := range sizes {
		name := string(rune('a' + i))
		st.pool.Spec.Shards = append(st.pool.Spec.Shards, name)
		*st.machinePool.Spec.Replicas += int32(size)
		st.shardGroups[name] = &infrav1.NstanceShardGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web--" + name, Annotations: map[string]string{}},
			Spec:       infrav1.NstanceShardGroupSpec{Group: "web", Shard: name, Size: ptr.To(int32(size)), Template: "base"},
			Status: infrav1.NstanceShardGroupStatus{
				ObservedGeneration: 1, Replicas: int32(size), LastSyncTime: &metav1.Time{Time: start},
				Conditions: []metav1.Condition{{Type: infrav1.ConditionReady, Status: metav1.ConditionTrue, Reason: infrav1.ReasonReady}},
			},
		}
		s := shard{
			configured: true, connection: shards.Status{State: shards.Ready}, gone: map[string]bool{},
			synced: inventory.State{GroupsSynced: true, InstancesSynced: true},
		}
		for n := range size {
			id := fmt.Sprintf("%s%d", name, n+1)
			st.shardGroups[name].Status.ProviderIDs = append(st.shardGroups[name].Status.ProviderIDs, "nstance://"+name+"/"+id)
			s.instances = append(s.instances, &nstancev1.InstanceStatus{
				InstanceId: id, Group: "web", Status: "running", ProviderUri: "nstance://" + name + "/" + id,
				CreatedAt: timestamppb.New(start.Add(time.Duration(n-100) * time.Hour)),
			})
			st.machines[id] = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: id}}
			st.machines[id].Status.NodeRef = clusterv1.MachineNodeReference{Name: "node-" + id}
			meta.SetStatusCondition(&st.machines[id].Status.Conditions, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue})
			st.infraMachines[id] = &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Name: id}}
		}
		st.shards[name] = s
	}
	return st
}

func (st *state) with(changes ...func(*state)) state {
	for _, change := range changes {
		change(st)
	}
	return *st
}

func replicas(n int32) func(*state) { return func(st *state) { st.machinePool.Spec.Replicas = &n } }

func ending(st *state) { st.machinePool.DeletionTimestamp = &metav1.Time{Time: start} }

func marked(ids ...string) func(*state) {
	return func(st *state) {
		for i, id := range ids {
			at := start.Add(time.Duration(i) * time.Second).Format(time.RFC3339)
			st.machines[id].Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: at}
		}
	}
}

func unreachable(name string, since time.Duration) func(*state) {
	return func(st *state) {
		s := st.shards[name]
		s.connection = shards.Status{State: shards.Unreachable, Since: start.Add(-since)}
		s.synced = inventory.State{}
		st.shards[name] = s
	}
}

func full(name string, ago time.Duration) func(*state) {
	return func(st *state) {
		s := st.shards[name]
		s.coolOff = inventory.CoolOff{}.Refused(start.Add(-ago), inventory.Refusal{Why: "no room"})
		st.shards[name] = s
	}
}

func lists(names ...string) func(*state) {
	return func(st *state) {
		st.pool.Spec.Shards = names
		for _, name := range names {
			if _, ok := st.shards[name]; !ok {
				st.shards[name] = shard{
					configured: true, connection: shards.Status{State: shards.Ready},
					synced: inventory.State{GroupsSynced: true, InstancesSynced: true},
				}
			}
		}
	}
}

func policy(change func(*infrav1.NstanceMachinePoolSpec)) func(*state) {
	return func(st *state) { change(&st.pool.Spec) }
}

// writes says what a plan writes, one shard group after the other, such as "b=1[b2] a=4 ends c".
func (p plan) text() string {
	var words []string
	for _, w := range p.writes {
		word := fmt.Sprintf("%s=%d", w.shard, w.size())
		if len(w.spec.Retiring) > 0 {
			word += fmt.Sprint(w.spec.Retiring)
		}
		if w.surge != "" {
			word += "+surge"
		}
		if w.retireAfter != "" {
			word += "+retiring"
		}
		words = append(words, word)
	}
	for _, e := range p.ends {
		words = append(words, "ends "+e.shard)
	}
	return strings.Join(words, " ")
}

func TestO4_O6_Decide(t *testing.T) {
	static := func(name string) func(*state) {
		return func(st *state) {
			s := st.shards[name]
			s.group = &nstancev1.GroupStatus{IsStatic: true, Size: 2}
			st.shards[name] = s
			st.shardGroups[name].Spec.Template = ""
		}
	}
	retires := func(shard string, gone bool, id string) func(*state) {
		return func(st *state) {
			st.shardGroups[shard].Spec.Retiring = []string{id}
			st.shards[shard].gone[id] = gone
		}
	}
	never := policy(func(s *infrav1.NstanceMachinePoolSpec) { s.Rebalance = infrav1.RebalanceNever })
	hold := policy(func(s *infrav1.NstanceMachinePoolSpec) { s.UnreachablePolicy = infrav1.UnreachableHold })
	for _, test := range []struct {
		name string
		st   state
		want string
	}{
		{"nothing to do", settled(3, 2).with(), ""},
		{"a new pool", settled().with(lists("a", "b"), replicas(5)), "a=3 b=2"},
		{"up: what grows first", settled(3, 2).with(replicas(6)), "b=3"},
		{"down: the oldest of the greatest", settled(3, 2).with(replicas(4)), "a=2[a1]"},
		{"down by two", settled(3, 3).with(replicas(4)), "a=2[a1] b=2[b1]"},
		{"the one that was named", settled(3, 2).with(replicas(4), marked("b2")), "b=1[b2]"},
		{"marks alone change nothing", settled(3, 2).with(marked("b2")), ""},
		{"of two that were named the older", settled(3, 3).with(replicas(5), marked("b2", "a3")), "b=2[b2]"},
		{"newest", settled(2, 1).with(replicas(2), policy(func(s *infrav1.NstanceMachinePoolSpec) { s.DeletePolicy = infrav1.DeleteNewest })), "a=1[a2]"},
		{
			"one that never became a Node goes before the oldest", settled(3).with(replicas(2), func(st *state) {
				st.machines["a2"].Status = clusterv1.MachineStatus{}
			}), "a=2[a2]",
		},
		{
			"what the server makes anew is not chosen", settled(3).with(replicas(2), func(st *state) {
				st.shards["a"].instances[0].Condemned = &nstancev1.Condemned{Reason: "unhealthy"}
			}), "a=2",
		},
		{"M84: one that is on hold goes last", settled(3).with(replicas(1), onHold("a", "a1")), "a=1[a2 a3]"},
		{"M84: unless somebody named it", settled(3).with(replicas(2), onHold("a", "a1"), marked("a1")), "a=2[a1]"},
		{"without Machines the server chooses", settled(3).with(replicas(2), func(st *state) { st.asMachines = false }), "a=2"},
		{"a retiring one that is gone is forgotten", settled(2, 2).with(retires("b", true, "b9")), "b=2"},
		{"a retiring one that is there is not", settled(2, 2).with(retires("b", false, "b9")), ""},
		{"a shard just lost: growth waits for it", settled(2, 2).with(replicas(6), unreachable("b", 0)), "a=3 b=3"},
		{"a shard lost for a minute: growth goes elsewhere", settled(2, 2).with(replicas(6), unreachable("b", time.Minute)), "a=4"},
		{"the same under Hold", settled(2, 2).with(replicas(6), unreachable("b", time.Minute), hold), "a=3 b=3"},
		{"a shard that is not seen loses nobody", settled(2, 2).with(replicas(2), unreachable("b", time.Minute)), "a=1[a1]"},
		{"but who was named there", settled(2, 2).with(replicas(3), unreachable("b", time.Minute), marked("b1")), "b=1[b1]"},
		{"no room: growth goes elsewhere", settled(2, 2).with(replicas(6), full("b", 0)), "a=4"},
		{
			"no room: what is not filled goes elsewhere", settled(2, 2).with(full("b", time.Minute), func(st *state) {
				s := st.shards["b"]
				s.instances = s.instances[:1]
				st.shards["b"] = s
			}), "a=3 b=1",
		},
		{
			"no room, and the pool waits", settled(2, 2).with(hold, full("b", time.Minute), func(st *state) {
				s := st.shards["b"]
				s.instances = s.instances[:1]
				st.shards["b"] = s
			}), "",
		},
		{"uneven: one instance more first", settled(4, 1).with(), "b=2+surge"},
		{"uneven, and nobody wants it even", settled(4, 1).with(never), ""},
		{
			"the move is made: the mark comes off", settled(4, 2).with(replicas(5), func(st *state) {
				st.shardGroups["b"].Annotations[infrav1.AnnotationSurge] = stamp(start)
			}), "b=2",
		},
		{"the mark is off: the other one shrinks", settled(4, 2).with(replicas(5)), "a=3[a1]"},
		{
			"the move is open, and the pool grows", settled(4, 2).with(replicas(7), func(st *state) {
				st.shardGroups["b"].Annotations[infrav1.AnnotationSurge] = stamp(start)
			}), "b=3",
		},
		{
			"the move never gets ready", settled(4, 2).with(replicas(5), func(st *state) {
				st.shardGroups["b"].Annotations[infrav1.AnnotationSurge] = stamp(start.Add(-planner.MoveTimeout))
				st.machines["b2"].Status = clusterv1.MachineStatus{}
			}), "b=1[b2]",
		},
		{"a shard is added", settled(3, 3).with(lists("a", "b", "c")), "c=1+surge"},
		{"a shard is taken off", settled(2, 2, 2).with(lists("a", "b"), replicas(6)), "a=3 b=3 c=2+retiring"},
		{
			"a shard was taken off, the others are ready", settled(3, 3, 2).with(lists("a", "b"), replicas(6), func(st *state) {
				st.shardGroups["c"].Annotations[infrav1.AnnotationRetireAfter] = stamp(start.Add(time.Minute))
			}), "ends c",
		},
		{
			"a shard is back on the list", settled(3, 3).with(func(st *state) {
				st.shardGroups["b"].Annotations[infrav1.AnnotationRetireAfter] = stamp(start.Add(time.Minute))
			}), "b=3",
		},
		{
			"a person deletes a part: the others take over", settled(2, 2).with(func(st *state) {
				st.shardGroups["b"].DeletionTimestamp = &metav1.Time{Time: start}
			}), "a=4",
		},
		{"a static part gets no template", settled(2, 2).with(static("a"), replicas(5)), "a=3"},
		{
			"a setting of the pool goes to every part", settled(1, 1).with(func(st *state) { st.pool.Spec.InstanceType = "large" }),
			"a=1 b=1",
		},
		{
			"a group that a server has already keeps what it has", settled().with(lists("a", "b"), replicas(5), func(st *state) {
				s := st.shards["a"]
				s.group = &nstancev1.GroupStatus{Key: "web", Size: 4}
				st.shards["a"] = s
			}), "a=4 b=1",
		},
		{"more than a pool can have", settled(3).with(replicas(MaxReplicas + 1)), ""},
		{"paused", settled(3).with(replicas(0), func(st *state) { st.paused = true }), ""},
		{"another pool has the group", settled(3).with(replicas(0), func(st *state) { st.otherPools = []string{"first"} }), ""},
		{"no MachinePool", settled(3).with(func(st *state) { st.machinePool = nil }), ""},
		{"no size is said", settled(3).with(func(st *state) { st.machinePool.Spec.Replicas = nil }), ""},
		{"the MachinePool is being deleted, and is to grow", settled(3).with(replicas(5), ending), ""},
		{"the MachinePool is being deleted, and is to shrink", settled(3).with(replicas(2), ending), "a=2[a1]"},
		{"the MachinePool is being deleted, and is uneven", settled(4, 2).with(replicas(6), ending), ""},
		{"the pool is being deleted", settled(3).with(replicas(0), func(st *state) { st.pool.DeletionTimestamp = &metav1.Time{Time: start} }), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := decide(test.st, start)
			if diff := cmp.Diff(test.want, p.text()); diff != "" {
				t.Error(diff)
			}
			if again := decide(test.st, start); !slices.EqualFunc(p.writes, again.writes, func(a, b write) bool { return a.String() == b.String() }) {
				t.Errorf("asked again: %q", again.text())
			}
		})
	}
}

// What takes something away is decided from what the API server itself has.
func TestF36_WhatShrinksIsDecidedTwice(t *testing.T) {
	for name, test := range map[string]struct {
		st   state
		want bool
	}{
		"up":                     {settled(3, 2).with(replicas(6)), false},
		"down":                   {settled(3, 2).with(replicas(4)), true},
		"down without Machines":  {settled(3).with(replicas(2), func(st *state) { st.asMachines = false }), true},
		"a shard has to go":      {settled(3, 0).with(lists("a"), func(st *state) { st.shardGroups["b"].Annotations[infrav1.AnnotationRetireAfter] = stamp(start) }), true},
		"nothing":                {settled(3).with(), false},
		"a setting of the parts": {settled(3).with(func(st *state) { st.pool.Spec.InstanceType = "large" }), false},
	} {
		if got := decide(test.st, start).needsLiveRead(test.st); got != test.want {
			t.Errorf("%s: needsLiveRead is %v", name, got)
		}
	}
}

func TestO5_ARemovedPartIsRemembered(t *testing.T) {
	st := settled(2, 2).with(func(st *state) { st.shardGroups["b"].DeletionTimestamp = &metav1.Time{Time: start} })
	removed := decide(st, start).annotations[infrav1.AnnotationRemovedShards]
	if removed != "b=2026-01-02T03:00:00Z" {
		t.Fatalf("annotation %q", removed)
	}
	st.pool.Annotations[infrav1.AnnotationRemovedShards] = removed
	delete(st.shardGroups, "b") // the object is gone
	st.shardGroups["a"].Spec.Size = ptr.To[int32](4)
	for _, test := range []struct {
		after time.Duration
		want  string
	}{{removedShardTTL - time.Second, ""}, {removedShardTTL, "b=1+surge"}} {
		if got := decide(st, start.Add(test.after)).text(); got != test.want {
			t.Errorf("after %v: %q, want %q", test.after, got, test.want)
		}
	}
	st.pool.Spec.Shards = []string{"a"}
	if got := decide(st, start).annotations[infrav1.AnnotationRemovedShards]; got != "" {
		t.Errorf("a shard that is not listed any more is remembered: %q", got)
	}
}

// The template gets into the spec once the status says that it is not locked any more.
func TestO5_AGroupThatIsNoLongerStaticKeepsItsTemplate(t *testing.T) {
	released := func(changes ...func(*state)) state {
		return settled(2, 2).with(append([]func(*state){func(st *state) {
			st.pool.Status.IsStatic, st.pool.Spec.Template = true, ""
			for _, shardGroup := range st.shardGroups {
				shardGroup.Spec.Template, shardGroup.Status.Config = "", &infrav1.GroupConfig{Template: "theirs"}
			}
		}}, changes...)...)
	}
	written := func(st *state) { st.pool.Annotations[infrav1.AnnotationReleasedTemplate] = "theirs" }
	unlocked := func(st *state) { st.pool.Status.IsStatic = false }
	type answer struct{ Kept, Release string }
	for _, test := range []struct {
		name string
		st   state
		want answer
	}{
		{"released", released(), answer{Kept: "theirs"}},
		{"which is written down", released(written), answer{Kept: "theirs"}},
		{"and the status says so", released(written, unlocked), answer{Release: "theirs"}},
		{"the pool says something else", released(written, unlocked, func(st *state) { st.pool.Spec.Template = "mine" }), answer{Release: "theirs"}},
		{"the pool says something else, and is locked", released(func(st *state) { st.pool.Spec.Template = "mine" }), answer{Kept: "theirs"}},
		{"one part is still", released(written, func(st *state) { st.shardGroups["b"].Status.IsStatic = true }), answer{Kept: "theirs"}},
		{"it has never been", released(unlocked), answer{}},
		{"no server said anything", released(func(st *state) { st.shardGroups["a"].Status.Config, st.shardGroups["b"].Status.Config = nil, nil }), answer{}},
	} {
		p := decide(test.st, start)
		got := answer{Kept: p.annotations[infrav1.AnnotationReleasedTemplate]}
		if p.takeover != nil {
			got.Release = p.takeover.template
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestO7_ProviderIDsStayUntilTheyAreKnownToBeGone(t *testing.T) {
	a1, b1 := "nstance://a/a1", "nstance://b/b1"
	old := func(st *state) { st.pool.Spec.ProviderIDList = []string{a1, b1} }
	for _, test := range []struct {
		name string
		st   state
		want []string
	}{
		{"all parts know theirs", settled(1, 1).with(old), []string{a1, b1}},
		{"an instance is gone", settled(1, 0).with(old), []string{a1}},
		{"a part is new, and its shard has not been heard", settled(1, 0).with(old, func(st *state) { st.shardGroups["b"].Status = infrav1.NstanceShardGroupStatus{} }), []string{a1, b1}},
		{"a part is not there", settled(1, 0).with(old, func(st *state) { delete(st.shardGroups, "b") }), []string{a1, b1}},
		{
			"a person took the part out", settled(1, 0).with(old, func(st *state) {
				delete(st.shardGroups, "b")
				st.pool.Annotations[infrav1.AnnotationRemovedShards] = "b=" + stamp(start)
			}), []string{a1},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.st.providerIDs()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestO13_ProviderIDsThatEndAlike(t *testing.T) {
	ids := []string{"proxmox://r1/100", "proxmox://r1/101"}
	got := duplicates(ids, append(ids, "proxmox://r2/100"))
	if diff := cmp.Diff([]string{"proxmox://r1/100"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOrphanedPools(t *testing.T) {
	young := func(st *state) { st.pool.CreationTimestamp = metav1.NewTime(start.Add(-4 * time.Second)) }
	says := func(key, value string) func(*state) {
		return func(st *state) { st.pool.Annotations[key] = value }
	}
	none := func(st *state) { st.machinePool = nil }
	type answer struct {
		Make     bool
		Replicas int32
		Wait     time.Duration
	}
	for _, test := range []struct {
		name string
		st   state
		want answer
	}{
		{"as large as its group is", settled(3, 2).with(none), answer{Make: true, Replicas: 5}},
		{"as large as its author says", settled(3, 2).with(none, says(infrav1.AnnotationInitialReplicas, "7")), answer{Make: true, Replicas: 7}},
		{"its author may still make one", settled(3).with(none, young), answer{Wait: 6 * time.Second}},
		{"its author wants none", settled(3).with(none, says(infrav1.AnnotationNoMachinePool, "true")), answer{}},
		{"it is being imported", settled(3).with(none, says(infrav1.AnnotationImportedFrom, "a=3")), answer{}},
		{"it has one", settled(3).with(), answer{}},
		{"how large it is is not known", settled(3, 2).with(none, unreachable("b", 0)), answer{Wait: machinePoolGrace}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got answer
			got.Make, got.Replicas, got.Wait = test.st.missingMachinePool(start)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// onHold has an instance be on hold.
func onHold(shard, id string) func(*state) {
	return func(st *state) {
		s := st.shards[shard]
		s.held = map[string]time.Time{id: time.Now().Add(time.Hour)}
		st.shards[shard] = s
	}
}
