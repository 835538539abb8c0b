package reclaim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/drain"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// A budget lets no Pod go, and then one that it does: the Node is cordoned when the answer is given, and reported when it
// is empty.
func TestBudgetOfZeroThenOne(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		w.pod("web", "n0")
		w.blocked = true
		w.want("answer", w.instruct(0, true, 10*time.Minute), "1 started")
		n := w.node(0)
		if !n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationCordonedBy] != infrav1.CordonedByOperator || n.Annotations[infrav1.AnnotationDrainRequest] != "rcl-m0-1" {
			t.Errorf("when it is answered the Node has %v", n.Annotations)
		}
		w.want("phase", string(w.upcoming(0).Status.Phase), string(demandv1.UpcomingNodeDraining))
		w.live(5 * time.Minute)
		w.want("while the budget holds", w.told(), "")
		w.blocked = false
		w.live(5 * time.Second)
		w.want("after it does not", w.told(), "m0 rcl-m0-1 drained")
		w.want("phase", string(w.upcoming(0).Status.Phase), string(demandv1.UpcomingNodeDrained))
		w.live(time.Minute)
		w.want("later", w.told(), "")
		w.want("counted", fmt.Sprint(w.counted), "[started drained]")
	})
}

// What is voluntary is never forced: it ends with an error, and is undone when the shard takes it back. What is not is.
func TestForce(t *testing.T) {
	for _, voluntary := range []bool{true, false} {
		run(t, 2, func(t *testing.T, w *world) {
			w.pod("web", "n0")
			w.blocked = true
			w.instruct(0, voluntary, 2*time.Minute)
			w.live(2*time.Minute + 5*time.Second)
			if !voluntary {
				w.want("preempted", w.told(), "m0 rcl-m0-1 drained")
				return
			}
			w.want("surplus", w.told(), "m0 rcl-m0-1 failed with 1 left")
			u := w.upcoming(0)
			w.want("phase", string(u.Status.Phase), string(demandv1.UpcomingNodeFailed))
			if !strings.Contains(u.Status.LastError, "1 Pods are left") {
				t.Errorf("lastError %q", u.Status.LastError)
			}
			w.want("cancel", w.instruct(0, true, 0, cancels), "0 started")
			w.live(time.Second)
			if n := w.node(0); n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationDrainInstance] != "" || len(n.Spec.Taints) > 0 {
				t.Errorf("after the shard has taken it back: %v %+v", n.Annotations, n.Spec)
			}
		})
	}
}

// A cordon of somebody else stays.
func TestCancelLeavesTheCordonOfOthers(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		w.pod("web", "n0")
		w.blocked = true
		w.change(0, func(n *corev1.Node) { n.Spec.Unschedulable = true })
		w.want("answer", w.instruct(0, true, time.Minute), "1 started")
		w.live(3 * time.Second)
		w.instruct(0, true, 0, func(in *demandpb.ReclaimInstruction) { in.Cancel, in.InstructionId = true, "rcl-m0-0" })
		w.live(3 * time.Second)
		w.want("another instruction is taken back", w.node(0).Annotations[infrav1.AnnotationDrainRequest], "rcl-m0-1")
		w.instruct(0, true, 0, cancels)
		w.live(3 * time.Second)
		if n := w.node(0); !n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationDrainInstance] != "" {
			t.Errorf("%v %+v", n.Annotations, n.Spec)
		}
	})
}

// An instruction that is known is answered again, begins nothing, and is reported once more.
func TestRepeatedInstruction(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		w.pod("web", "n0")
		w.blocked = true
		w.instruct(0, true, time.Minute)
		w.live(10 * time.Second)
		before := w.node(0).Annotations[infrav1.AnnotationDrainDeadline]
		w.change(0, func(n *corev1.Node) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, demandv1.AnnotationDoNotReclaim, "true")
		})
		w.want("repeated", w.instruct(0, true, time.Minute), "1 started")
		w.want("deadline", w.node(0).Annotations[infrav1.AnnotationDrainDeadline], before)
		w.blocked = false
		w.live(5 * time.Second)
		w.want("ended", w.told(), "m0 rcl-m0-1 drained")
		w.want("repeated after its end", w.instruct(0, true, time.Minute), "1 started")
		w.live(time.Second)
		w.want("told again", w.told(), "m0 rcl-m0-1 drained")
	})
}

// Neither the end of a session nor that of the process stops a drain: the shard hears of its end when it is there again.
func TestDrainSurvives(t *testing.T) {
	for _, process := range []bool{false, true} {
		t.Run(fmt.Sprintf("process %t", process), func(t *testing.T) {
			run(t, 2, func(t *testing.T, w *world) {
				w.pod("web", "n0")
				w.blocked = true
				w.instruct(0, true, 10*time.Minute)
				w.live(10 * time.Second)
				w.silent = true
				if process {
					w.restart()
				}
				w.live(time.Minute)
				w.blocked = false
				w.live(10 * time.Second)
				if w.evicted != 1 {
					t.Fatalf("%d Pods were evicted", w.evicted)
				}
				w.silent = false
				w.reclaim.Resynced(shard)
				w.want("asked again", w.instruct(0, true, 8*time.Minute), "1 started")
				w.live(time.Second)
				w.want("told", w.told(), "m0 rcl-m0-1 drained")
			})
		})
	}
}

// That the shard has taken its instruction back did not arrive: its machine serves, so the Node does.
func TestLostCancel(t *testing.T) {
	for _, process := range []bool{false, true} {
		run(t, 2, func(t *testing.T, w *world) {
			w.pod("web", "n0")
			w.blocked = true
			w.instruct(0, true, 10*time.Minute)
			w.live(10 * time.Second)
			if process {
				w.restart()
			}
			w.phase(0, demandv1.UpcomingNodeReady) // as of before the session broke
			w.live(time.Minute)
			if !w.node(0).Spec.Unschedulable {
				t.Fatal("uncordoned before the shard has said anything")
			}
			w.reclaim.Resynced(shard)
			w.phase(0, demandv1.UpcomingNodeDraining)
			w.live(time.Minute)
			if !w.node(0).Spec.Unschedulable {
				t.Fatal("uncordoned while the shard drains it")
			}
			w.phase(0, demandv1.UpcomingNodeReady)
			w.live(servesFor - 2*time.Second)
			if !w.node(0).Spec.Unschedulable {
				t.Fatal("uncordoned at once")
			}
			w.live(5 * time.Second)
			if n := w.node(0); n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationDrainRequest] != "" {
				t.Errorf("process %t: %v", process, n.Annotations)
			}
		})
	}
}

// The shard has asked for the machine and then condemned it: the Node is drained once, by the earlier deadline and the harsher
// force, and both hear of it.
func TestBothChannels(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		w.pod("web", "n0")
		w.blocked = true
		w.instruct(0, true, 10*time.Minute)
		w.live(10 * time.Second)
		deadline := time.Now().Add(2 * time.Minute)
		w.list(map[string]time.Time{"m0": deadline})
		w.live(5 * time.Second)
		n := w.node(0)
		w.want("deadline", n.Annotations[infrav1.AnnotationDrainDeadline], deadline.UTC().Format(time.RFC3339))
		w.want("force", n.Annotations[infrav1.AnnotationDrainForce], "AtDeadline")
		w.instruct(0, true, 0, cancels)
		w.live(5 * time.Second)
		if n := w.node(0); !n.Spec.Unschedulable || n.Annotations[infrav1.AnnotationDrainRequest] != "" {
			t.Fatalf("one of two is taken back: %v", n.Annotations)
		}
		w.want("asked again", w.instruct(0, true, 10*time.Minute), "1 started")
		w.live(2 * time.Minute)
		w.want("reported", w.told(), "m0 rcl-m0-1 drained")
		w.want("acknowledged", strings.Join(w.acked[:1], ""), "m0")
	})
}

func TestRefusals(t *testing.T) {
	annotate := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	for _, tt := range []struct {
		name    string
		prepare func(w *world)
		force   bool
		want    string
	}{
		{"room elsewhere", func(w *world) { w.pod("web", "n0") }, false, "1 started"},
		{"no room", func(w *world) {
			w.pod("web", "n0")
			w.pod("one", "n1")
			w.pod("two", "n1")
		}, false, "0 started, m0 DoesNotFit: no other Node takes Pod apps/web"},
		{"no room, and nobody looks for it", func(w *world) {
			w.options.AnnotationsAlone = true
			w.pod("web", "n0")
			w.pod("one", "n1")
			w.pod("two", "n1")
		}, false, "1 started"},
		{"no room, and it is taken for something more urgent", func(w *world) {
			w.pod("web", "n0")
			w.pod("one", "n1")
			w.pod("two", "n1")
		}, true, "1 started"},
		{"the author of the Node", func(w *world) {
			w.change(0, func(n *corev1.Node) { n.Annotations = map[string]string{demandv1.AnnotationDoNotReclaim: "true"} })
		}, false, "0 started, m0 DoNotReclaim: annotation nstance.dev/do-not-reclaim"},
		{"in the words of Karpenter", func(w *world) { w.pod("web", "n0", annotate("karpenter.sh/do-not-disrupt", "true")) }, false, "0 started, m0 DoNotEvict: annotation karpenter.sh/do-not-disrupt of Pod apps/web"},
		{"in the words of the cluster autoscaler", func(w *world) {
			w.pod("web", "n0", annotate("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"))
		}, false, "0 started, m0 DoNotEvict: annotation cluster-autoscaler.kubernetes.io/safe-to-evict of Pod apps/web"},
		{"in words that do not count", func(w *world) {
			w.options.ForeignAnnotations = false
			w.pod("web", "n0", annotate("karpenter.sh/do-not-disrupt", "true"))
		}, false, "1 started"},
		{"an annotation keeps nothing that is taken", func(w *world) { w.pod("web", "n0", annotate(demandv1.AnnotationDoNotEvict, "true")) }, true, "1 started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, 2, func(t *testing.T, w *world) {
				tt.prepare(w)
				w.restart() // with its options
				w.want("answer", w.instruct(0, !tt.force, time.Minute), tt.want)
				if cordoned := w.node(0).Spec.Unschedulable; cordoned != strings.HasPrefix(tt.want, "1") {
					t.Errorf("cordoned %t", cordoned)
				}
			})
		})
	}
}

// Two Nodes have room for one another's Pods, and only one of them may go, however close the instructions are.
func TestRoomIsGivenOnce(t *testing.T) {
	run(t, 3, func(t *testing.T, w *world) {
		for _, pod := range []string{"n0", "n1", "n2"} {
			w.pod("a-"+pod, pod)
		}
		w.pod("b-n2", "n2")
		answers := make(chan string)
		for i := range 2 {
			go func() { answers <- w.instruct(i, true, time.Minute) }()
		}
		started := 0
		for range 2 {
			if strings.HasPrefix(<-answers, "1") {
				started++
			}
		}
		if started != 1 {
			t.Errorf("%d may go", started)
		}
	})
}

// A Node that says it is a machine's, and whose address no server knows, is not cordoned, and the shard is not told that
// there is none.
func TestForgedLabel(t *testing.T) {
	run(t, 1, func(t *testing.T, w *world) {
		if err := w.client.Delete(t.Context(), w.node(0)); err != nil {
			t.Fatal(err)
		}
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", UID: "forged", Labels: map[string]string{infrav1.LabelInstanceID: "m0"}}})
		w.want("answer", w.instruct(0, false, time.Minute), "no answer")
		w.live(5 * time.Second)
		if w.node(0).Spec.Unschedulable {
			t.Error("somebody else's Node is cordoned")
		}
		if err := w.client.Delete(t.Context(), w.node(0)); err != nil {
			t.Fatal(err)
		}
		w.want("without any Node", w.instruct(0, false, time.Minute), "0 started")
	})
}

func TestNothingIsAnsweredWithoutTheAPIServer(t *testing.T) {
	run(t, 1, func(t *testing.T, w *world) {
		w.broken = errors.New("no route to host")
		w.want("answer", w.instruct(0, false, time.Minute), "no answer")
		w.broken = nil
		w.want("asked again", w.instruct(0, false, time.Minute), "1 started")
	})
}

// The Node goes while it is drained, and the machine is used again: its new Node is not drained for the old instruction.
func TestReusedMachine(t *testing.T) {
	for _, process := range []bool{false, true} {
		run(t, 2, func(t *testing.T, w *world) {
			w.instruct(0, true, time.Minute)
			w.live(10 * time.Second)
			w.want("drained", w.told(), "m0 rcl-m0-1 drained")
			u := w.upcoming(0)
			if err := w.client.Delete(t.Context(), w.node(0)); err != nil {
				t.Fatal(err)
			}
			if process {
				w.restart()
			}
			w.work()
			w.told()
			if err := w.client.Delete(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			w.work()
			w.create(&demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: "m0"}, Spec: demandv1.UpcomingNodeSpec{MachineID: "m0", Shard: shard}})
			w.create(w.newNode(0, "second"))
			w.live(time.Minute)
			if n := w.node(0); n.Spec.Unschedulable || len(n.Annotations) > 0 || len(n.Spec.Taints) > 0 {
				t.Errorf("process %t: the new Node has %v %+v", process, n.Annotations, n.Spec)
			}
			w.want("reported of the new Node", w.told(), "")
		})
	}
}

// A Node that somebody deletes while it is drained has nothing left on it.
func TestNodeGoesMeanwhile(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		w.pod("web", "n0")
		w.blocked = true
		w.instruct(0, true, time.Minute)
		w.live(5 * time.Second)
		if err := w.client.Delete(t.Context(), w.node(0)); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		w.live(5 * time.Second)
		w.want("reported", w.told(), "m0 rcl-m0-1 drained")
	})
}

// A new process reports once in each session what an earlier one had drained, whether or not the shard asks again.
func TestEndIsToldInEachSession(t *testing.T) {
	run(t, 2, func(t *testing.T, w *world) {
		w.silent = true
		w.instruct(0, true, time.Minute)
		w.live(5 * time.Second)
		w.restart()
		w.live(2 * time.Second)
		w.silent = false
		for range 2 {
			w.reclaim.Resynced(shard)
			w.live(10 * time.Second)
			w.want("in a session", w.told(), "m0 rcl-m0-1 drained")
			w.live(10 * time.Second)
			w.want("and no more", w.told(), "")
		}
	})
}

func TestSource(t *testing.T) {
	requests := &Requests{}
	requests.begin("m0", instruction{shard: shard, node: "old", request: drain.Request{Instance: "m0", Instruction: "rcl-1"}})
	begun := drain.State{Instance: "m0", Instruction: "rcl-0", Phase: infrav1.DrainEvicting}
	for _, tt := range []struct {
		name   string
		target drain.Target
		want   string
	}{
		{"its Node", drain.Target{Instance: "m0", Node: "old"}, "rcl-1"},
		{"its Node, which is gone", drain.Target{Instance: "m0"}, "rcl-1"},
		{"a later Node of the machine", drain.Target{Instance: "m0", Node: "new"}, "none"},
		{"another machine", drain.Target{Instance: "m1"}, "none"},
		{"one that an earlier process began", drain.Target{Instance: "m1", State: begun}, "rcl-0"},
		{"one of a rollout, which no shard has asked for", drain.Target{Instance: "m1", State: drain.State{Instance: "m1", Instruction: "rollout/gpu/2/1", Phase: infrav1.DrainEvicting}}, "none"},
	} {
		r, ok := requests.Source(tt.target, time.Now())
		got := r.Instruction
		if !ok {
			got = "none"
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
