package drain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// pod is a Pod in namespace d that a ReplicaSet keeps, with the UID of its name.
func pod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	yes := true
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "d", Name: name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: &yes}},
	}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func unmanaged(p *corev1.Pod) { p.OwnerReferences = nil }

func ownedBy(kind, uid string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].Kind, p.OwnerReferences[0].UID = kind, types.UID(uid) }
}

func withPriority(n int32) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Priority = &n } }

func withGrace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func drains(how string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{labelDrain: how} }
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func mirror(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
}

func terminating(until time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: at(until)} }
}

// world is a cluster with one Node that behaves: Pods end a second after they were told
// to, unless they are stubborn; a budget blocks a Pod's eviction until it frees.
type world struct {
	t        *testing.T
	now      time.Time
	state    State
	o        Observation
	budgets  map[string]time.Time // by Pod: when an eviction is allowed
	stubborn []string             // Pods that never end
	ends     map[types.UID]time.Time
	lostAcks int // so many acknowledgements do not arrive
	detachAt time.Time
	log      []string
}

func newWorld(t *testing.T, window time.Duration, pods ...corev1.Pod) *world {
	return &world{
		t: t, now: start,
		o: Observation{
			Request: Request{Instance: "i1", Reason: "expired", Decided: start, Deadline: start.Add(window), Acknowledge: true},
			Node:    &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}}, Pods: pods,
			DaemonSets: map[types.UID]bool{"ds": true}, Self: "self",
			NoticedAt: start, RegisteredAt: start.Add(-time.Hour),
		},
		budgets: map[string]time.Time{}, ends: map[types.UID]time.Time{},
	}
}

// step makes one step, and carries it out.
func (w *world) step() Decision {
	w.t.Helper()
	w.o.Pods = slices.DeleteFunc(w.o.Pods, func(p corev1.Pod) bool {
		end, acknowledged := w.ends[p.UID]
		return acknowledged && !w.now.Before(end)
	})
	w.o.Attachments = 0
	if w.now.Before(w.detachAt) {
		w.o.Attachments = 1
	}
	d := Step(w.state, w.o, w.now)
	w.state, w.o.Results, w.o.Acknowledged, w.o.Repeated = d.State, nil, false, false
	for _, a := range d.Actions {
		w.do(a)
	}
	return d
}

func (w *world) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%v ", w.now.Sub(start).Round(time.Second))+fmt.Sprintf(format, args...))
}

func (w *world) do(a Action) {
	switch a := a.(type) {
	case WriteState:
		w.say("mark %s", w.state.Phase)
		w.o.Node = WithState(w.o.Node, w.state)
	case ClearState:
		w.say("unmark")
		w.o.Node = WithoutState(w.o.Node)
	case Evict:
		result := Result{Pod: a.UID, Outcome: Leaves}
		if w.now.Before(w.budgets[a.Name]) {
			result = Result{Pod: a.UID, Outcome: Blocked, Message: "budget pdb needs 1"}
		} else {
			w.end(a.Name, a.UID, a.Grace)
		}
		w.o.Results = append(w.o.Results, result)
		w.say("evict %s %ds", a.Name, a.Grace)
	case DeletePod:
		w.end(a.Name, a.UID, a.Grace)
		w.o.Results = append(w.o.Results, Result{Pod: a.UID, Outcome: Leaves})
		w.say("kill %s %ds", a.Name, a.Grace)
	case Acknowledge:
		w.say("ack forced=%t evicted=%d left=%d", a.Forced, a.Evicted, a.Left)
		w.lostAcks--
		w.o.Acknowledged = w.lostAcks < 0
	case PublishEvent:
		w.say("%s: %s", a.Reason, a.Message)
	}
}

// end tells a Pod to end.
func (w *world) end(name string, uid types.UID, grace int64) {
	for i := range w.o.Pods {
		if p := &w.o.Pods[i]; p.UID == uid && p.DeletionTimestamp == nil {
			p.DeletionTimestamp = &metav1.Time{Time: w.now.Add(time.Duration(grace) * time.Second)}
		}
	}
	if !slices.Contains(w.stubborn, name) {
		w.ends[uid] = w.now.Add(time.Second)
	}
}

// run steps until the drain is over, or until that time.
func (w *world) run(until time.Duration) Decision {
	w.t.Helper()
	for range 10_000 {
		d := w.step()
		if d.Over || d.RequeueAfter == 0 || w.now.Add(d.RequeueAfter).After(at(until)) {
			return d
		}
		w.now = w.now.Add(d.RequeueAfter)
	}
	w.t.Fatal("never over:", w.log)
	return Decision{}
}

func (w *world) want(log ...string) {
	w.t.Helper()
	if diff := cmp.Diff(log, w.log); diff != "" {
		w.t.Error(diff)
	}
}

// restart is another leader: it knows what stands on the Node.
func (w *world) restart() {
	w.t.Helper()
	s, _, err := ParseState(w.o.Node.Annotations)
	if err != nil {
		w.t.Fatal(err)
	}
	w.state, w.o.Results, w.o.Acknowledged = s, nil, false
	w.say("restart in %q", s.Phase)
}

func TestO10_EveryKindOfPod(t *testing.T) {
	w := newWorld(
		t, 5*time.Minute,
		pod("web"), pod("alone", unmanaged), pod("dns", withPriority(criticalPriority)), pod("important", withPriority(1000)),
		pod("agent", ownedBy("DaemonSet", "ds")), pod("orphan", ownedBy("DaemonSet", "deleted")), pod("static", mirror),
		pod("job", inPhase(corev1.PodSucceeded)), pod("failed", inPhase(corev1.PodFailed)), pod("left", drains("skip")),
		pod("self"),
	)
	w.run(time.Hour)
	w.want(
		"0s mark Cordoned",
		"0s DrainStarted: instance i1 is drained until 2026-01-02T03:09:05Z: expired",
		"0s mark Evicting",
		"0s PodWillBeLost: d/alone has no controller that would recreate it",
		"0s evict alone 30s", "0s evict orphan 30s", "0s evict web 30s", "0s evict important 30s",
		"2s evict dns 30s",
		"4s mark Detaching", "4s ack forced=false evicted=5 left=0",
		"5s mark Done", "5s Drained: drained after 5s: 5 pods left the node, 0 stayed",
		"5s evict self 30s",
	)
}

func TestF38_BudgetsAreRespectedUntilTheForcePoint(t *testing.T) {
	w := newWorld(t, 2*time.Minute, pod("web"), pod("never", withGrace(600)))
	w.budgets["web"] = at(20 * time.Second)
	w.budgets["never"] = at(time.Hour)
	w.run(50 * time.Second)
	if slices.ContainsFunc(w.log, func(l string) bool { return strings.Contains(l, "kill") }) {
		t.Error(w.log)
	}
	d := w.step()
	if diff := cmp.Diff(Counts{Total: 2, Evicted: 1, Blocked: 1, Left: 1}, d.Counts); diff != "" {
		t.Error(diff)
	}
	if want := "1 pods are left; d/never blocked by its budget: budget pdb needs 1"; d.Why != want {
		t.Errorf("why: %s", d.Why)
	}
	w.log = nil
	w.now = at(104 * time.Second)
	w.run(time.Hour)
	w.want(
		"1m44s evict never 11s",
		"1m45s mark Forcing", "1m45s DrainForced: d/never (budget pdb needs 1)", "1m45s kill never 10s",
		"1m46s mark Detaching", "1m46s ack forced=true evicted=2 left=0",
		"1m47s mark Done", "1m47s Drained: drained after 1m47s: 2 pods left the node, 0 stayed",
	)
}

func TestF38_WithoutForceTheDeadlineDecides(t *testing.T) {
	w := newWorld(t, 2*time.Minute, pod("never"))
	w.o.Request.Force = Never
	w.budgets["never"] = at(time.Hour)
	d := w.run(time.Hour)
	for _, line := range w.log {
		if strings.Contains(line, "kill") || strings.Contains(line, "ack") {
			t.Error(line)
		}
	}
	if last := w.log[len(w.log)-1]; last != "1m57s evict never 1s" || !d.Over || w.now.Truncate(time.Second) != at(3*time.Minute) {
		t.Errorf("the last was %q, over %t at %v", last, d.Over, w.now)
	}
}

func TestO10_WhatNothingMovesIsGivenUp(t *testing.T) {
	w := newWorld(t, 10*time.Minute, pod("zombie"))
	w.stubborn = []string{"zombie"}
	w.run(time.Hour)
	got := w.log[len(w.log)-6:]
	want := []string{
		"8m0s mark Forcing", "8m0s DrainForced: d/zombie", "8m0s kill zombie 30s",
		"8m40s ack forced=true evicted=0 left=1",
		"8m41s mark Done",
		"8m41s Drained: not even a deletion moves the pods that are left: d/zombie after 8m41s: 0 pods left the node, 1 stayed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What another leader has to know of a shard's instruction stands on the Node: which it is, and that nothing is forced.
func TestF38_AnInstructionIsNeverForcedAfterARestart(t *testing.T) {
	w := newWorld(t, 2*time.Minute, pod("never"))
	w.o.Request.Force, w.o.Request.Instruction = Never, "rcl-i1-1"
	w.budgets["never"] = at(time.Hour)
	w.run(50 * time.Second)
	w.restart()
	if w.state.Force != Never || w.state.Instruction != "rcl-i1-1" {
		t.Fatalf("after a restart: %+v", w.state)
	}
	w.o.Request = Target{State: w.state}.Remembered() // the shard has not repeated it yet
	w.run(time.Hour)
	if i := slices.IndexFunc(w.log, func(l string) bool { return strings.Contains(l, "kill") || strings.Contains(l, "Forc") }); i >= 0 {
		t.Error(w.log[i])
	}
}

// The shard condemns an instance that it has reclaimed before, and takes the instruction back.
func TestO10_ADrainFollowsItsMergedRequest(t *testing.T) {
	w := newWorld(t, 10*time.Minute, pod("never"))
	w.budgets["never"] = at(time.Hour)
	condemned := w.o.Request
	reclaim := Request{Instance: "i1", Reason: "surplus", Instruction: "rcl-i1-1", Force: Never, Deadline: at(20 * time.Minute)}
	for _, tt := range []struct {
		request  Request
		deadline time.Time
		force    string
		id       string
	}{
		{reclaim, reclaim.Deadline, "Never", "rcl-i1-1"},
		{Merge(condemned, reclaim), condemned.Deadline, "", "rcl-i1-1"},
		{condemned, condemned.Deadline, "", ""},
	} {
		w.o.Request = tt.request
		w.run(w.now.Sub(start) + 10*time.Second)
		a := w.o.Node.Annotations
		if a[infrav1.AnnotationDrainDeadline] != tt.deadline.Format(time.RFC3339) || a[infrav1.AnnotationDrainForce] != tt.force || a[infrav1.AnnotationDrainRequest] != tt.id {
			t.Errorf("for %+v: %v", tt.request, a)
		}
	}
}

// What the API server did not hear is no reason to give a Pod up.
func TestS20_DeletionsWithoutAnAnswerAreRepeated(t *testing.T) {
	w := newWorld(t, 2*time.Minute, pod("never", withGrace(1)))
	w.budgets["never"], w.stubborn = at(time.Hour), []string{"never"}
	w.run(104 * time.Second)
	w.log = nil
	w.now = at(105 * time.Second)
	for range 13 {
		w.step()
		w.o.Pods[0].DeletionTimestamp, w.o.Results = nil, nil // it did not arrive
		w.now = w.now.Add(time.Second)
	}
	if slices.ContainsFunc(w.log, func(l string) bool { return strings.Contains(l, "ack") }) {
		t.Error(w.log)
	}
	if last := w.log[len(w.log)-1]; last != "1m57s kill never 1s" {
		t.Errorf("the last was %q", last)
	}
}

func TestO10_LostAcknowledgementsAreRepeated(t *testing.T) {
	w := newWorld(t, time.Minute)
	w.lostAcks = 4
	w.run(time.Hour)
	w.want(
		"0s mark Cordoned", "0s DrainStarted: instance i1 is drained until 2026-01-02T03:05:05Z: expired",
		"0s mark Detaching", "0s ack forced=false evicted=0 left=0", "1s ack forced=false evicted=0 left=0",
		"3s ack forced=false evicted=0 left=0", "7s ack forced=false evicted=0 left=0", "15s ack forced=false evicted=0 left=0",
		"25s mark Done", "25s Drained: drained after 25s: 0 pods left the node, 0 stayed",
	)
	w.log = nil
	w.step()
	w.o.Repeated = true
	w.run(time.Hour)
	w.want("25s ack forced=false evicted=0 left=0")
	w.restart()
	w.o.Acknowledged = false
	w.run(time.Hour)
	w.want("25s ack forced=false evicted=0 left=0", `26s restart in "Done"`, "26s ack forced=false evicted=0 left=0")
}

func TestO10_AcknowledgementsEndAMinuteAfterTheDeadline(t *testing.T) {
	w := newWorld(t, time.Minute)
	w.lostAcks = 1000
	if d := w.run(time.Hour); !d.Over || w.now.Before(at(2*time.Minute)) || w.now.After(at(2*time.Minute+10*time.Second)) {
		t.Errorf("over %t at %v", d.Over, w.now)
	}
}

func TestO10_VolumesAreWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		name             string
		window, detached time.Duration
		want             time.Duration
	}{
		{"until they are detached", 10 * time.Minute, 20 * time.Second, 20 * time.Second},
		{"for a minute", 10 * time.Minute, time.Hour, time.Minute},
		{"as long as there is time", 30 * time.Second, time.Hour, 25 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.window)
			w.detachAt = at(tt.detached)
			w.run(time.Hour)
			if i := slices.Index(w.log, fmt.Sprintf("%v ack forced=false evicted=0 left=0", tt.want)); i < 0 {
				t.Error(w.log)
			}
		})
	}
}

// A leader that is killed after any step leaves what the next one finishes.
func TestO10_TheNextLeaderGoesOn(t *testing.T) {
	for crash := range 40 {
		w := newWorld(t, 3*time.Minute, pod("a"), pod("b"), pod("zombie"), pod("dns", withPriority(criticalPriority)))
		w.budgets["b"] = at(time.Hour)
		w.stubborn = []string{"zombie"}
		w.detachAt = at(170 * time.Second)
		for range crash {
			w.now = w.now.Add(max(w.step().RequeueAfter, time.Second))
		}
		deadline, startedAt := w.state.Deadline, w.state.StartedAt
		if w.state.Phase != None {
			w.restart()
			if !w.state.Deadline.Equal(deadline) || !w.state.StartedAt.Equal(startedAt) {
				t.Fatalf("crash after %d: another window: %+v", crash, w.state)
			}
		}
		d := w.run(time.Hour)
		if !d.Over || !slices.ContainsFunc(w.log, func(l string) bool { return strings.Contains(l, "DrainForced") }) {
			t.Errorf("crash after %d: over %t: %q", crash, d.Over, w.log)
		}
		started := 0
		for _, line := range w.log {
			if strings.Contains(line, "DrainStarted") {
				started++
			}
		}
		if started != 1 {
			t.Errorf("crash after %d: begun %d times: %q", crash, started, w.log)
		}
	}
}

func TestO10_CancelledDrainsAreUndone(t *testing.T) {
	for _, byPerson := range []bool{false, true} {
		w := newWorld(t, 5*time.Minute, pod("web"))
		w.o.Node.Spec.Unschedulable = byPerson
		w.o.Node.Labels = map[string]string{"zone": "a"}
		before := w.o.Node.DeepCopy()
		w.budgets["web"] = at(time.Hour)
		w.run(10 * time.Second)
		if !w.o.Node.Spec.Unschedulable || len(w.o.Node.Spec.Taints) != 1 {
			t.Fatalf("not marked: %+v", w.o.Node)
		}
		w.o.InstanceState = InstanceRetained
		d := w.step()
		if diff := cmp.Diff(before.Spec.Unschedulable, w.o.Node.Spec.Unschedulable); diff != "" {
			t.Errorf("cordoned by a person %t: %s", byPerson, diff)
		}
		if diff := cmp.Diff(before.Labels, w.o.Node.Labels); diff != "" || len(w.o.Node.Annotations) > 0 || len(w.o.Node.Spec.Taints) > 0 {
			t.Errorf("something is left: %+v", w.o.Node)
		}
		if diff := cmp.Diff(Decision{
			Actions: []Action{ClearState{}, PublishEvent{Reason: "DrainCancelled", Message: "the instance is no longer condemned"}},
			Over:    true, Why: "the instance is no longer condemned", Counts: Counts{Total: 1, Blocked: 1, Left: 1},
		}, d); diff != "" {
			t.Error(diff)
		}
	}
}

// Who cordoned a Node stays known, whatever users do to it.
func TestO10_TheCordonIsRemembered(t *testing.T) {
	for _, tt := range []struct {
		name     string
		byPerson bool
		change   func(*world)
		want     bool // cordoned afterwards
	}{
		{"what stands on the node cannot be read", false, func(w *world) {
			w.o.Node.Annotations[infrav1.AnnotationDrainPhase] = "x"
			w.state = State{}
		}, false},
		{"a person's cordon, and what stands on the node cannot be read", true, func(w *world) {
			w.o.Node.Annotations[infrav1.AnnotationDrainPhase] = "x"
			w.state = State{}
		}, true},
		{"a person took the own cordon off", true, func(w *world) { w.o.Node.Spec.Unschedulable = false }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 5*time.Minute, pod("web"))
			w.o.Node.Spec.Unschedulable = tt.byPerson
			w.budgets["web"] = at(time.Hour)
			w.run(10 * time.Second)
			tt.change(w)
			w.run(20 * time.Second)
			if !w.o.Node.Spec.Unschedulable {
				t.Fatal("not cordoned during the drain")
			}
			w.o.InstanceState = InstanceRetained
			w.step()
			if w.o.Node.Spec.Unschedulable != tt.want {
				t.Errorf("cordoned afterwards: %t", !tt.want)
			}
		})
	}
}

func TestO10_DeadlinesMove(t *testing.T) {
	for _, tt := range []struct {
		name, was, is string
		to, want      time.Duration
	}{
		{"nearer", "expired", "expired", time.Minute, time.Minute},
		{"further", "expired", "expired", 9 * time.Minute, 9 * time.Minute},
		{"a spot machine's nearer", ReasonSpot, ReasonSpot, time.Minute, time.Minute},
		{"a spot machine's further", ReasonSpot, ReasonSpot, 9 * time.Minute, 5 * time.Minute},
		{"to a spot machine's, nearer", "expired", ReasonSpot, time.Minute, time.Minute},
		{"by less than a Node can say", "expired", "expired", 5*time.Minute + time.Millisecond, 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 5*time.Minute, pod("web"))
			w.o.Request.Reason = tt.was
			w.budgets["web"] = at(time.Hour)
			w.run(10 * time.Second)
			w.o.Request.Reason, w.o.Request.Deadline = tt.is, at(tt.to)
			w.step()
			if s, _, err := ParseState(w.o.Node.Annotations); err != nil || !s.Deadline.Equal(at(tt.want)) {
				t.Errorf("on the node: %v, %v, want %v", s.Deadline, err, at(tt.want))
			}
		})
	}
	w := newWorld(t, 2*time.Minute, pod("web"))
	w.budgets["web"], w.stubborn = at(time.Hour), []string{"web"}
	w.run(106 * time.Second)
	w.o.Request.Deadline = at(time.Hour)
	w.step()
	if w.state.Phase != infrav1.DrainEvicting {
		t.Errorf("with an hour more it is still %s", w.state.Phase)
	}
}
