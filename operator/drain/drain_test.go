package drain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

func TestForcePoint(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{
		20 * time.Second:  10 * time.Second, // not in the first half
		30 * time.Second:  15 * time.Second,
		2 * time.Minute:   105 * time.Second,
		121 * time.Second: 91 * time.Second,
		150 * time.Second: 2 * time.Minute,
		10 * time.Minute:  8 * time.Minute,
	} {
		if got := ForcePoint(start, at(window)); !got.Equal(at(want)) {
			t.Errorf("of %v: after %v, want %v", window, got.Sub(start), want)
		}
	}
}

func TestO10_Classes(t *testing.T) {
	around := classifier{daemonSets: newWorld(t, 0).o.DaemonSets, self: "self", now: start}
	silent := around
	silent.unreachable = true
	for _, tt := range []struct {
		name   string
		around classifier
		pod    corev1.Pod
		want   Class
	}{
		{"of a ReplicaSet", around, pod("p"), Evicts},
		{"of nobody", around, pod("p", unmanaged), Evicts},
		{"of a DaemonSet", around, pod("p", ownedBy("DaemonSet", "ds")), Stays},
		{"of a DaemonSet that is no more", around, pod("p", ownedBy("DaemonSet", "gone")), Evicts},
		{"a mirror", around, pod("p", unmanaged, mirror), Stays},
		{"succeeded", around, pod("p", inPhase(corev1.PodSucceeded)), Ignored},
		{"failed", around, pod("p", inPhase(corev1.PodFailed)), Ignored},
		{"running", around, pod("p", inPhase(corev1.PodRunning)), Evicts},
		{"asks to be left", around, pod("p", drains("skip")), Stays},
		{"asks for the time to end", around, pod("p", drains("wait-completed")), Waits},
		{"asks for something unknown", around, pod("p", drains("x")), Evicts},
		{"ends", around, pod("p", terminating(0)), Waits},
		{"ends long ago", around, pod("p", terminating(-time.Hour)), Waits},
		{"ends long ago on a silent node", silent, pod("p", terminating(-31*time.Second)), Ignored},
		{"ends on a silent node", silent, pod("p", terminating(-30*time.Second)), Waits},
		{"this program", around, pod("self"), Self},
		{"without a UID", classifier{now: start}, corev1.Pod{}, Evicts},
	} {
		if got := tt.around.class(&tt.pod); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestGraceEndsBeforeTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		name     string
		pod      corev1.Pod
		deadline time.Time
		silent   bool
		want     int64
	}{
		{"its own", pod("p", withGrace(90)), at(time.Hour), false, 90},
		{"the default", pod("p"), at(time.Hour), false, 30},
		{"without a deadline", pod("p", withGrace(9000)), time.Time{}, false, 9000},
		{"as long as there is time", pod("p"), at(25 * time.Second), false, 20},
		{"a second at least", pod("p"), at(3 * time.Second), false, 1},
		{"none if it wants none", pod("p", withGrace(0)), at(3 * time.Second), false, 0},
		{"on a silent node", pod("p"), at(time.Hour), true, 1},
	} {
		if got := grace(&tt.pod, tt.deadline, tt.silent, start); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}
	if unreachable(node) {
		t.Error("without the taint")
	}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable}}
	if !unreachable(node) {
		t.Error("with condition and taint it is reachable")
	}
	node.Status.Conditions[0].Status = corev1.ConditionFalse
	if unreachable(node) {
		t.Error("not ready is not silent")
	}
}

func TestResultOf(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	budget := apierrors.NewTooManyRequests("Cannot evict pod", 10)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web needs 2"}}
	ending := apierrors.NewForbidden(pods, "p", errors.New("x"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	many := apierrors.NewInternalError(errors.New("more than one budget"))
	for _, tt := range []struct {
		name string
		err  error
		want Result
	}{
		{"accepted", nil, Result{Outcome: Leaves}},
		{"gone", apierrors.NewNotFound(pods, "p"), Result{Outcome: Leaves}},
		{"budget", budget, Result{Outcome: Blocked, RetryAfter: 10 * time.Second, Message: "The disruption budget web needs 2"}},
		{"slow down", apierrors.NewTooManyRequests("slow", 0), Result{Outcome: Blocked, Message: "slow"}},
		{"conflict", apierrors.NewConflict(pods, "p", errors.New("x")), Result{Outcome: Conflict, Message: `Operation cannot be fulfilled on pods "p": x`}},
		{"namespace", ending, Result{Outcome: Terminating, Message: `pods "p" is forbidden: x`}},
		{"permission", apierrors.NewForbidden(pods, "p", errors.New("x")), Result{Outcome: Failed, Message: `pods "p" is forbidden: x`}},
		{"two budgets", many, Result{Outcome: Impossible, Message: "Internal error occurred: more than one budget"}},
		{"no answer", errors.New("EOF"), Result{Outcome: Failed, Message: "EOF"}},
		{"no answer in time", apierrors.NewTimeoutError("conflicts", 10), Result{Outcome: Failed, Message: "Timeout: conflicts"}},
	} {
		tt.want.Pod = "p"
		if diff := cmp.Diff(tt.want, ResultOf("p", tt.err)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// one step on a world as it is.
func TestStep(t *testing.T) {
	deadline := 5 * time.Minute
	acknowledge := Acknowledge{Instance: "i1"}
	for _, tt := range []struct {
		name    string
		change  func(*world)
		actions []Action
		again   time.Duration
		over    bool
		why     string
	}{
		{
			"a phase that another version may have written", func(w *world) {
				w.run(time.Second)
				w.state.Phase = "Paused"
			},
			[]Action{PublishEvent{Reason: "DrainRestarted", Warning: true, Message: `internal error in the drain (no transition from phase "Paused" to "Evicting"); restarting it, nothing is lost`}}, quick, false,
			`internal error in the drain (no transition from phase "Paused" to "Evicting"); restarting it, nothing is lost`,
		},
		{"the machine is gone", func(w *world) { w.o.InstanceState = InstanceDeleted }, nil, 0, true, "the machine is gone"},
		{"the machine is being deleted", func(w *world) { w.o.InstanceState = InstanceDeleting }, nil, 0, false, "the machine is being deleted"},
		{"retained before it began", func(w *world) { w.o.InstanceState = InstanceRetained }, nil, 0, true, "the instance is no longer condemned"},
		{
			"the nodes cannot be read", func(w *world) { w.o.NodeUnknown, w.o.Node = true, nil },
			nil, slow, false, "whether there is a node is not known",
		},
		{
			"it never registered", func(w *world) { w.o.Node, w.o.RegisteredAt = nil, time.Time{} },
			[]Action{acknowledge}, time.Second, false, "it never registered, and has no node",
		},
		{
			"it registered a short time ago", func(w *world) { w.o.Node, w.o.RegisteredAt = nil, at(-young+1) },
			nil, quick, false, "its node is looked for",
		},
		{
			"it registered a short time ago, and was looked for", func(w *world) {
				w.o.Node, w.o.RegisteredAt, w.o.NoticedAt = nil, at(-young+1), at(-lookFor)
			},
			[]Action{acknowledge}, time.Second, false, "it has no node",
		},
		{
			"it registered long ago", func(w *world) { w.o.Node = nil },
			[]Action{acknowledge}, time.Second, false, "it has no node",
		},
		{
			"its node vanished", func(w *world) { w.run(time.Second); w.o.Node = nil },
			[]Action{acknowledge}, time.Second, false, "its node is gone",
		},
		{
			"Cluster API drains", func(w *world) { w.o.DrainedByClusterAPI = true },
			nil, slow, false, "1 pods are left for Cluster API to drain",
		},
		{
			"Cluster API has drained", func(w *world) { w.o.DrainedByClusterAPI, w.o.Pods = true, nil },
			[]Action{acknowledge}, time.Second, false, "Cluster API has drained it",
		},
		{
			"somebody took the cordon off", func(w *world) { w.run(time.Second); w.o.Node.Spec.Unschedulable = false },
			[]Action{WriteState{}}, quick, false, "to be cordoned",
		},
		{
			"another node of that name", func(w *world) { w.run(time.Second); w.o.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "n2"}} },
			[]Action{WriteState{}, PublishEvent{Reason: "DrainStarted", Message: "instance i1 is drained until 2026-01-02T03:09:05Z: expired"}},
			Immediately, false, "cordoned",
		},
		{
			"its node joined after all", func(w *world) {
				node := w.o.Node
				w.o.Request.Acknowledge, w.o.Node = false, nil
				w.run(time.Second)
				w.o.Node = node
			},
			[]Action{WriteState{}, PublishEvent{Reason: "DrainStarted", Message: "instance i1 is drained until 2026-01-02T03:09:05Z: expired"}},
			Immediately, false, "cordoned",
		},
		{
			"nobody is to be told", func(w *world) { w.o.Request.Acknowledge, w.o.Node = false, nil },
			nil, 0, true, "it has no node",
		},
		{
			"two budgets for one pod", func(w *world) {
				w.run(time.Second)
				w.o.Results = []Result{{Pod: "web", Outcome: Impossible, Message: "more than one budget"}}
			},
			[]Action{PublishEvent{Reason: "PodCannotBeEvicted", Warning: true, Message: "more than one budget"}},
			slow, false, "1 pods are left; d/web cannot be evicted: more than one budget",
		},
		{
			"no permission to evict", func(w *world) {
				w.run(time.Second)
				w.o.Results = []Result{{Pod: "web", Outcome: Failed, Message: "forbidden"}}
			},
			nil, slow, false, "1 pods are left; d/web failed: forbidden",
		},
		{
			"the drain of another instance on this node was done", func(w *world) {
				w.o.Node = WithState(w.o.Node, State{Instance: "i0", Phase: infrav1.DrainDone})
				w.state, _, _ = ParseState(w.o.Node.Annotations)
			},
			[]Action{WriteState{}, PublishEvent{Reason: "DrainStarted", Message: "instance i1 is drained until 2026-01-02T03:09:05Z: expired"}},
			Immediately, false, "cordoned",
		},
		{
			"retained, and what stands on the node cannot be read", func(w *world) {
				w.run(time.Second)
				w.state, w.o.InstanceState = State{}, InstanceRetained
			},
			[]Action{ClearState{}, PublishEvent{Reason: "DrainCancelled", Message: "the instance is no longer condemned"}},
			0, true, "the instance is no longer condemned",
		},
		{
			"a spot machine's deadline is near, whatever is said now", func(w *world) {
				w.o.Request.Reason = ReasonSpot
				w.run(time.Second)
				w.o.Request.Deadline = at(time.Hour)
				w.now = at(deadline + time.Second)
			},
			nil, quick, false, "1 pods are left, and there is no more time",
		},
		{
			"the deadline is near", func(w *world) {
				w.run(time.Second)
				w.now = at(deadline - quickFor)
				w.step()
				w.now = w.now.Add(time.Second)
			},
			nil, quick, false, "1 pods were deleted and have not ended",
		},
		{
			"a node that is to be drained after its force point", func(w *world) { w.step(); w.now = at(deadline - time.Second) },
			[]Action{
				WriteState{}, PublishEvent{Reason: "DrainForced", Warning: true, Message: "d/web"}, DeletePod{Namespace: "d", Name: "web", UID: "web", Grace: 1},
			},
			quick, false, "1 pods were deleted and have not ended",
		},
		{
			"and there is a pod that nobody makes anew", func(w *world) {
				w.step()
				w.o.Pods = []corev1.Pod{pod("alone", unmanaged)}
				w.now = at(deadline - time.Second)
			},
			[]Action{
				WriteState{}, PublishEvent{Reason: "DrainForced", Warning: true, Message: "d/alone"},
				PublishEvent{Reason: "PodWillBeLost", Warning: true, Message: "d/alone has no controller that would recreate it"},
				DeletePod{Namespace: "d", Name: "alone", UID: "alone", Grace: 1},
			},
			quick, false, "1 pods were deleted and have not ended",
		},
		{
			"at the force point a pod ends in time by itself", func(w *world) {
				w.step()
				w.o.Pods = []corev1.Pod{pod("soon", terminating(deadline-5*time.Second)), pod("late", terminating(deadline-4*time.Second))}
				w.now = at(deadline - 50*time.Second)
			},
			[]Action{
				WriteState{}, PublishEvent{Reason: "DrainForced", Warning: true, Message: "d/late, d/soon"}, DeletePod{Namespace: "d", Name: "late", UID: "late", Grace: 30},
			},
			quick, false, "2 pods were deleted and have not ended",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, deadline, pod("web"))
			w.budgets["web"], w.stubborn = at(time.Hour), []string{"web"}
			tt.change(w)
			d := Step(w.state, w.o, w.now)
			if diff := cmp.Diff(tt.actions, d.Actions); diff != "" {
				t.Error(diff)
			}
			if d.RequeueAfter != tt.again || d.Over != tt.over || d.Why != tt.why {
				t.Errorf("again %v, over %t, why %q", d.RequeueAfter, d.Over, d.Why)
			}
			if LooksAtPods(w.state, w.o) {
				return
			}
			w.o.Pods = nil
			if diff := cmp.Diff(tt.actions, Step(w.state, w.o, w.now).Actions); diff != "" {
				t.Errorf("it looked at pods: %s", diff)
			}
		})
	}
}

func TestO10_TheMostUrgentFirst(t *testing.T) {
	requests := []Request{
		{Instance: "never"}, {Instance: "late", Deadline: at(time.Hour)}, {Instance: "b", Deadline: at(time.Minute)},
		{Instance: "spot-late", Reason: ReasonSpot, Deadline: at(2 * time.Hour)}, {Instance: "a", Deadline: at(time.Minute)},
		{Instance: "spot", Reason: ReasonSpot, Deadline: at(time.Hour)},
	}
	slices.SortFunc(requests, Compare)
	var got []string
	for _, r := range requests {
		got = append(got, r.Instance)
	}
	if diff := cmp.Diff([]string{"spot", "spot-late", "a", "b", "late", "never"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestForcedEventNamesTenPods(t *testing.T) {
	w := newWorld(t, time.Minute)
	for i := range 12 {
		w.o.Pods = append(w.o.Pods, pod(string(rune('a'+i))))
	}
	w.step()
	w.now = at(50 * time.Second)
	w.step()
	i := slices.IndexFunc(w.log, func(l string) bool { return strings.Contains(l, "DrainForced") })
	if want := "50s DrainForced: d/a, d/b, d/c, d/d, d/e, d/f, d/g, d/h, d/i, d/j, and 2 more"; i < 0 || w.log[i] != want {
		t.Error(w.log)
	}
}

func TestStateStandsOnTheNode(t *testing.T) {
	s := State{
		Instance: "i1", Reason: "expired", StartedAt: start, Deadline: at(time.Hour), Phase: infrav1.DrainForcing, Cordoned: true,
	}
	node := &corev1.Node{}
	node.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "by a person"}
	node.Spec.Taints = []corev1.Taint{{Key: "other"}, {Key: infrav1.TaintDraining, Value: "old"}}
	written := WithState(WithState(node, s), s)
	got, draining, err := ParseState(written.Annotations)
	if diff := cmp.Diff(s, got); diff != "" || !draining || err != nil {
		t.Error(draining, err, diff)
	}
	if diff := cmp.Diff([]corev1.Taint{{Key: "other"}, {Key: infrav1.TaintDraining, Value: "expired", Effect: corev1.TaintEffectNoSchedule}}, written.Spec.Taints); diff != "" {
		t.Error(diff)
	}
	if got := WithoutState(written).Labels[corev1.LabelNodeExcludeBalancers]; got != "by a person" {
		t.Errorf("a label of somebody else became %q", got)
	}
	if len(node.Annotations) > 0 || node.Spec.Unschedulable {
		t.Error("the node was changed in place")
	}
	for key, value := range map[string]string{
		infrav1.AnnotationDrainPhase: "Resting", infrav1.AnnotationDrainStartedAt: "today", infrav1.AnnotationDrainDeadline: "",
	} {
		broken := WithState(node, s)
		broken.Annotations[key] = value
		if _, draining, err := ParseState(broken.Annotations); err == nil || draining || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%q: %t, %v", key, value, draining, err)
		}
	}
	if _, draining, err := ParseState(nil); draining || err != nil {
		t.Errorf("a node without annotations: %t, %v", draining, err)
	}
}

// A taint is refused as a whole if its value is not one.
func TestMarkedWithAReasonThatIsNoLabel(t *testing.T) {
	written := WithState(&corev1.Node{}, State{Instance: "i1", Reason: "drift: other image", Phase: infrav1.DrainCordoned})
	if diff := cmp.Diff([]corev1.Taint{{Key: infrav1.TaintDraining, Effect: corev1.TaintEffectNoSchedule}}, written.Spec.Taints); diff != "" {
		t.Error(diff)
	}
	if got := written.Annotations[infrav1.AnnotationDrainReason]; got != "drift: other image" {
		t.Errorf("reason %q", got)
	}
}

func FuzzParseState(f *testing.F) {
	f.Add("i1", "expired", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+02:00", "Evicting", "nstance-operator", "rcl-i1-1", "Never")
	f.Add("i1", "", "0000-01-01T00:00:00Z", "", "", "", "", "never")
	f.Fuzz(func(t *testing.T, instance, reason, started, deadline, phase, by, instruction, force string) {
		s, draining, err := ParseState(map[string]string{
			infrav1.AnnotationDrainInstance: instance, infrav1.AnnotationDrainReason: reason, infrav1.AnnotationDrainStartedAt: started,
			infrav1.AnnotationDrainDeadline: deadline, infrav1.AnnotationDrainPhase: phase, infrav1.AnnotationCordonedBy: by,
			infrav1.AnnotationDrainRequest: instruction, infrav1.AnnotationDrainForce: force,
		})
		if !draining || err != nil {
			if diff := cmp.Diff(State{}, s); diff != "" {
				t.Fatal(diff)
			}
			return
		}
		if s.StartedAt.Nanosecond() != 0 || s.Deadline.Nanosecond() != 0 || s.StartedAt.Year() > 9999 || s.StartedAt.Year() < 0 || s.Deadline.Year() > 9999 || s.Deadline.Year() < 0 || s.Deadline.IsZero() {
			return // more than a Node is ever given
		}
		again, _, err := ParseState(WithState(&corev1.Node{}, s).Annotations)
		if diff := cmp.Diff(s, again); diff != "" || err != nil {
			t.Fatal(err, diff)
		}
	})
}

// Whatever happens in whatever order: no step fails, the input stays as it is, nothing is
// evicted before the Node is cordoned or after the server is told, nothing is deleted
// directly before the force point, and the server is not told while Pods may still go.
func TestS20_AnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rapid.SampledFrom([]time.Duration{20 * time.Second, 2 * time.Minute, 10 * time.Minute}).Draw(rt, "window"))
		names := []string{"a", "b", "c"}
		for _, name := range names {
			w.o.Pods = append(w.o.Pods, pod(name))
		}
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "event") {
			case 0:
				w.budgets[rapid.SampledFrom(names).Draw(rt, "pod")] = w.now.Add(time.Minute)
			case 1:
				w.stubborn = append(w.stubborn, rapid.SampledFrom(names).Draw(rt, "pod"))
			case 2:
				w.o.Request.Deadline = w.now.Add(time.Duration(rapid.IntRange(1, 300).Draw(rt, "seconds")) * time.Second)
			case 3:
				w.restart()
			case 4:
				w.o.Repeated = true
			case 5:
				w.o.Pods = append(w.o.Pods, pod("tolerant"))
			case 6:
				w.o.Node.Spec.Unschedulable = false
			default:
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 10).Draw(rt, "pass")) * time.Second)
			}
			before := w.state.clone()
			cordoned := w.o.Node.Spec.Unschedulable
			d := w.step()
			s := d.State
			for _, a := range d.Actions {
				switch a := a.(type) {
				case Evict:
					if !cordoned || s.Phase != infrav1.DrainEvicting {
						rt.Fatalf("%s evicted, cordoned %t, in %s", a.Name, cordoned, s.Phase)
					}
				case DeletePod:
					if w.now.Before(ForcePoint(s.StartedAt, s.Deadline)) {
						rt.Fatalf("%s killed before the force point", a.Name)
					}
				case Acknowledge:
					if a.Left > 0 && s.Phase != infrav1.DrainForcing && before.Phase != infrav1.DrainDone {
						rt.Fatalf("acknowledged with %d pods in %s", a.Left, s.Phase)
					}
				}
			}
			if again := Step(before, w.o, w.now); again.State.Phase == None {
				rt.Fatal("a drain that began is forgotten")
			}
		}
	})
}
