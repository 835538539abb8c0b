package host

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/hosts/images"
	"nstance.dev/operator/hosts/lifecycle"
	"nstance.dev/operator/testworld"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func pbTime(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

func machineKind() *infrav1.NstanceMachine { return &infrav1.NstanceMachine{} }

// testLog logs to the test.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(text []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(text)))
	return len(text), nil
}

// M6, M22, M42, M45, M47, M48: the life of a machine, from the first pave to a repave with the newest
// version and back.
func TestM22M42M45M47M48_JoinAndRepave(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		m := w.settle("m")
		w.want(m, hostsv1.PhaseAwaitingConfiguration, "AgentConnected=True/Connected", "Paved=False/NotAssigned")
		if len(w.shard.puts) > 0 || w.issued > 0 {
			t.Errorf("%d assignments and %d credentials without a configuration", len(w.shard.puts), w.issued)
		}
		w.configuration("gpu", 1)
		m = w.settle("m")
		w.want(m, hostsv1.PhasePaving, "Paved=False/Waiting", "NodeJoined=False/Waiting")
		if !slices.Contains(m.Finalizers, hostsv1.Finalizer) || m.Status.Configuration.Assigned.VersionReference != w.reference("gpu", 1) || m.Status.Configuration.Assigned.Epoch != 1 {
			t.Errorf("finalizers %v, status %+v", m.Finalizers, m.Status.Configuration.Assigned)
		}
		if !slices.Contains(w.counts, "locked gpu-v1") {
			t.Error("nothing was locked")
		}
		a := w.shard.puts[0].GetAssignment()
		if a.GetEpoch() != 1 || a.GetMode() != nstancev1.MachineMode_MACHINE_MODE_PAVE || a.GetTemplate().GetImage().GetOci().GetReference() != "node:1" ||
			a.GetNodeName() != "m" || a.GetMachineUid() != string(m.UID) || a.GetApiServer().GetEndpoint() != "https://api.example.com:6443" {
			t.Errorf("told %v", a)
		}
		if c := w.shard.puts[0].GetCredential(); c.GetToken() != "marked-token-1" || c.GetSequence() != 1 || m.Status.Repave.Join.CredentialID != "JTI=m-1" {
			t.Errorf("credential %v, status %+v", c, m.Status.Repave.Join)
		}

		m = w.join("m", "node-1")
		w.want(m, hostsv1.PhaseReady, "Paved=True/Running", "NodeJoined=True/Joined", "Ready=True/NodeReady", "RepaveFailed=False/NotFailed")
		n := w.getNode("m")
		if n.Annotations[hostsv1.AnnotationConfiguration] != "gpu" || n.Annotations[hostsv1.AnnotationConfigurationVersion] != "1" ||
			n.Annotations[hostsv1.AnnotationMachineUID] != string(m.UID) || n.Labels[hostsv1.LabelMachine] != "m" {
			t.Errorf("the Node says %v %v", n.Labels, n.Annotations)
		}
		if m.Status.NodeRef.UID != "node-1" || m.Status.Configuration.Applied.Version != 1 || w.shard.host("m").Assignment.GetConfirmed().GetNodeUid() != "node-1" {
			t.Errorf("status %+v, stored %v", m.Status, w.shard.host("m").Assignment)
		}
		// What was changed by hand is set right.
		n.Annotations[hostsv1.AnnotationConfigurationVersion] = "7"
		w.must(w.api.Update(t.Context(), n))
		w.settle("m")
		if n = w.getNode("m"); n.Annotations[hostsv1.AnnotationConfigurationVersion] != "1" {
			t.Errorf("the Node says %v", n.Annotations)
		}
		w.faults.FailWrite(-1, false, nil)
		w.settle("m")
		if n := w.faults.Writes(); n > 0 {
			t.Errorf("%d writes although nothing has changed", n)
		}

		c := &hostsv1.MachineConfiguration{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "gpu"}, c))
		w.version(c, 2, false)
		w.settle("m")
		if len(w.shard.puts) != 1 {
			t.Errorf("a new version alone was published: %v", w.shard.puts[1:])
		}
		w.deleteNode("m")
		m = w.miss("m")
		w.want(m, hostsv1.PhaseRepaving, "NodeJoined=False/Waiting", "Ready=False/Waiting")
		told := w.tell()
		if !strings.Contains(told, "RepaveTriggered: HostMachine: Node m was deleted; epoch 2 builds version 2 of gpu") || strings.Contains(told, "RepavedUndrained") {
			t.Errorf("told\n%s", told)
		}
		if a = w.shard.puts[1].GetAssignment(); a.GetEpoch() != 2 || a.GetMode() != nstancev1.MachineMode_MACHINE_MODE_REPAVE || a.GetConfiguration().GetVersion() != 2 {
			t.Errorf("told %v", a)
		}
		m = w.join("m", "node-2")
		w.want(m, hostsv1.PhaseReady, "Ready=True/NodeReady")
		if m.Status.Configuration.Applied.Version != 2 || m.Status.NodeRef.UID != "node-2" {
			t.Errorf("status %+v", m.Status.Configuration)
		}
		if !slices.Contains(w.counts, "FirstPave Joined") || !slices.Contains(w.counts, "NodeDeleted Joined") {
			t.Errorf("counted %v", w.counts)
		}

		// And back, by the number that the machine names.
		w.change("m", func(m *hostsv1.HostMachine) {
			one := int32(1)
			m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "gpu", Version: &one}
		})
		w.deleteNode("m")
		w.miss("m")
		if m = w.join("m", "node-3"); m.Status.Configuration.Applied.Version != 1 || m.Status.Configuration.Assigned.Epoch != 3 {
			t.Errorf("status %+v", m.Status.Configuration)
		}
	})
}

// M52: for an hour the API server answers with anything but NotFound: no node is touched. M51: it is
// repaved when the API server says so, whoever was down meanwhile.
func TestM51M52_NoAnswerTouchesNothing(t *testing.T) {
	gr := schema.GroupResource{Resource: "nodes"}
	for name, answer := range map[string]error{
		"403": apierrors.NewForbidden(gr, "m", nil), "401": apierrors.NewUnauthorized("expired"), "500": apierrors.NewInternalError(errRefused),
		"a time-out": apierrors.NewTimeoutError("slow", 1), "429": apierrors.NewTooManyRequests("slow", 1), "no connection": errRefused,
		"404 of a proxy": apierrors.NewGenericServerResponse(http.StatusNotFound, "get", gr, "m", "404 page not found", 0, true),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *world) {
				w.machine("m")
				w.configuration("gpu", 1)
				w.settle("m")
				w.join("m", "node-1")
				w.deleteNode("m")
				w.live = func() error { return answer }
				for range 60 {
					w.must(w.pass("m"))
					w.after(time.Minute)
				}
				if len(w.shard.puts) != 1 || w.get("m").Status.NodeRef.UID != "node-1" {
					t.Fatalf("published %d times, status %+v", len(w.shard.puts), w.get("m").Status)
				}
				w.restart() // everybody was down
				w.live = nil
				if m := w.miss("m"); m.Status.Configuration.Assigned.Epoch != 2 {
					t.Errorf("status %+v", m.Status.Configuration.Assigned)
				}
			})
		})
	}
}

// M52: one answer is not enough, nor are two in a row that come too close.
func TestM52_OneAnswerIsNotEnough(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.settle("m")
		w.join("m", "node-1")
		w.deleteNode("m")
		for range 3 {
			w.must(w.pass("m"))
			w.after(500 * time.Millisecond)
		}
		if len(w.shard.puts) != 1 || w.last["m"].RequeueAfter != lifecycle.ConfirmAfter {
			t.Errorf("published %d times, looked at again after %v", len(w.shard.puts), w.last["m"].RequeueAfter)
		}
		w.after(time.Second)
		if w.settle("m"); len(w.shard.puts) != 2 {
			t.Errorf("published %d times", len(w.shard.puts))
		}
	})
}

// M49: what was decided from an old copy of a machine is not written: neither is an epoch assigned again, nor does
// the Node come back that was forgotten.
func TestM49_AnOldCopyDecidesNothing(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.settle("m")
		old := w.join("m", "node-1")
		w.deleteNode("m")
		w.miss("m")
		w.build("m")
		w.settle("m")
		w.stale = old
		for range 3 {
			if err := w.pass("m"); !apierrors.IsConflict(err) {
				t.Errorf("an old copy: %v", err)
			}
			w.after(lifecycle.ConfirmAfter)
		}
		w.stale = nil
		if m := w.get("m"); m.Status.Configuration.Assigned.Epoch != 2 || m.Status.NodeRef.UID != "" || m.Status.Repave.Reason != lifecycle.ReasonNodeDeleted {
			t.Errorf("status %+v, %+v", m.Status.Configuration.Assigned, m.Status.Repave)
		}
	})
}

// M50: a kubelet that has registered again is an impostor: it is cordoned, and its Node goes when the old
// machine is stopped.
func TestM50_Impostor(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.settle("m")
		w.join("m", "node-1")
		w.deleteNode("m")
		w.node("m", "node-2", "boot-1")
		m := w.miss("m")
		if n := w.getNode("m"); n == nil || !n.Spec.Unschedulable {
			t.Errorf("the impostor is %+v", n)
		}
		if m.Status.Repave.Reason != lifecycle.ReasonNodeReplaced || w.shard.puts[1].GetAssignment().GetExpectedNodeUid() != "node-2" {
			t.Errorf("status %+v, told %v", m.Status.Repave, w.shard.puts[1])
		}
		w.shard.report("m", &nstancev1.MachineStatus{Epoch: 2, Stage: nstancev1.MachineStage_MACHINE_STAGE_BUILD, Slots: []*nstancev1.MachineSlot{
			{Name: "a", State: nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, Epoch: 1, BootId: "boot-1"},
		}})
		w.settle("m")
		if w.getNode("m") == nil {
			t.Error("the Node is gone while its machine runs")
		}
		w.shard.report("m", &nstancev1.MachineStatus{Epoch: 2, Stage: nstancev1.MachineStage_MACHINE_STAGE_RETIRE})
		w.settle("m")
		if n := w.getNode("m"); n != nil {
			t.Errorf("the Node of the machine that is stopped is %v", n.UID)
		}
		if m = w.join("m", "node-3"); m.Status.NodeRef.UID != "node-3" {
			t.Errorf("status %+v", m.Status.NodeRef)
		}
	})
}

// M55: that a Node was deleted with Pods on it is told, and accepted.
func TestM55_NotDrained(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.settle("m")
		w.join("m", "node-1")
		for name, change := range map[string]func(*corev1.Pod){
			"work":   func(*corev1.Pod) {},
			"done":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
			"mirror": func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
			"daemon": func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", APIVersion: "apps/v1", UID: "d"}}
			},
		} {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}, Spec: corev1.PodSpec{NodeName: "m"}}
			change(p)
			w.must(w.api.Create(t.Context(), p))
		}
		w.deleteNode("m")
		w.miss("m")
		if told := w.tell(); !strings.Contains(told, "RepavedUndrained: HostMachine: Node m was deleted with 1 Pods on it") || len(w.shard.puts) != 2 {
			t.Errorf("published %d times, told\n%s", len(w.shard.puts), told)
		}
	})
}

// The process ends before or after each write of a repave, once or again and again: one assignment is
// made, and the machine joins. No mistake of the order may publish what the status does not say.
func TestM49_CrashesAtEveryWrite(t *testing.T) {
	for _, after := range []bool{false, true} {
		for crash := 1; crash <= 8; crash++ {
			t.Run(fmt.Sprintf("after %v, write %d", after, crash), func(t *testing.T) {
				run(t, func(w *world) {
					w.machine("m")
					w.configuration("gpu", 1)
					w.settle("m")
					w.join("m", "node-1")
					w.deleteNode("m")
					w.faults.FailWrite(crash, after, errRefused)
					for range 12 {
						if err := w.pass("m"); err != nil {
							w.restart()
						}
						w.after(lifecycle.ConfirmAfter)
						if m := w.get("m"); w.shard.host("m").Assignment.GetEpoch() > m.Status.Configuration.Assigned.Epoch {
							t.Fatalf("epoch %d is published, and the status says %d", w.shard.host("m").Assignment.GetEpoch(), m.Status.Configuration.Assigned.Epoch)
						}
					}
					w.build("m")
					w.node("m", "node-2", w.boot("m"))
					for range 6 {
						if err := w.pass("m"); err != nil {
							w.restart()
						}
					}
					m := w.settle("m")
					if m.Status.Configuration.Assigned.Epoch != 2 || m.Status.NodeRef.UID != "node-2" || w.shard.host("m").Assignment.GetConfirmed().GetNodeUid() != "node-2" {
						t.Errorf("assigned %+v, node %+v, stored %v", m.Status.Configuration.Assigned, m.Status.NodeRef, w.shard.host("m").Assignment)
					}
				})
			})
		}
	}
}

// M43: after a change of leader, or when half of its life is over, the credential is made anew under the
// same epoch; it stands in no object and no event.
func TestM43_Credentials(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.settle("m")
		w.build("m")
		w.shard.host("m").Assignment.CredentialMissing = true
		w.shard.tell("m")
		w.settle("m")
		last := w.shard.puts[len(w.shard.puts)-1]
		if last.GetCredential().GetSequence() != 1 || len(w.shard.puts) != 2 {
			t.Errorf("one that was made a moment ago: told %v", last.GetCredential())
		}
		w.after(time.Minute)
		w.shard.host("m").Assignment.CredentialMissing = true
		w.shard.tell("m")
		m := w.settle("m")
		last = w.shard.puts[len(w.shard.puts)-1]
		if last.GetAssignment().GetEpoch() != 1 || last.GetCredential().GetSequence() != 2 || m.Status.Repave.Join.CredentialID != "JTI=m-2" {
			t.Errorf("told %v, status %+v", last.GetCredential(), m.Status.Repave.Join)
		}
		w.after(31 * time.Minute)
		m = w.settle("m")
		if last = w.shard.puts[len(w.shard.puts)-1]; last.GetCredential().GetSequence() != 3 || m.Status.Repave.Join.Sequence != 3 {
			t.Errorf("after half of its life: told %v, status %+v", last.GetCredential(), m.Status.Repave.Join)
		}
		text := fmt.Sprintf("%+v %+v %s", m, m.Status.Repave, w.tell())
		if strings.Contains(text, "marked-token") {
			t.Error("the credential stands in an object or an event")
		}
		w.node("m", "node-1", "boot-1")
		m = w.settle("m")
		if m.Status.Repave.Join != nil || !slices.Contains(w.counts, "revoked") {
			t.Errorf("after it has joined: %+v", m.Status.Repave.Join)
		}
	})
}

// M99: pull secrets travel with the credential; without one nothing is published.
func TestM99_PullSecrets(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		v := &hostsv1.MachineConfigurationVersion{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "gpu-v1"}, v))
		v.Spec.Template.Image.OCI.PullSecret = "registry"
		w.must(w.api.Update(t.Context(), v))
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "gpu-v1"}, v))
		if m := w.settle("m"); len(w.shard.puts) > 0 || m.Status.Configuration != nil && m.Status.Configuration.Assigned != nil {
			t.Errorf("published %v, status %+v", w.shard.puts, m.Status.Configuration)
		}
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"marked":{}}}`)},
		}
		w.must(w.api.Create(t.Context(), s))
		m := w.settle("m")
		if got := string(w.shard.puts[0].GetCredential().GetPullSecrets()["registry"]); got != `{"auths":{"marked":{}}}` {
			t.Errorf("told %q", got)
		}
		if text := fmt.Sprintf("%+v %s %v", m.Status, w.tell(), w.shard.puts[0].GetAssignment()); strings.Contains(text, "marked") {
			t.Error("the pull secret stands in an object, an event or the assignment")
		}
	})
}

// M22: while the tag of an image is not resolved nothing is assigned, the machine says why, and it is tried again.
func TestM22_TagNotResolved(t *testing.T) {
	unresolved := fmt.Errorf("lock version gpu-v1: %w: image registry.example.com/node:1: the registry answers 404 Not Found", images.ErrUnresolved)
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.lock = unresolved
		m := w.settle("m")
		w.want(m, hostsv1.PhaseNotReady, "Paved=False/NotAssigned")
		c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionPaved)
		if len(w.shard.puts) > 0 || m.Status.Configuration.Assigned != nil || !strings.Contains(c.Message, "the registry answers 404 Not Found") || w.last["m"].RequeueAfter != images.Again {
			t.Errorf("published %d, status %+v, %q, again after %s", len(w.shard.puts), m.Status.Configuration, c.Message, w.last["m"].RequeueAfter)
		}
		w.must(w.pass("m"))
		if told := w.tell(); strings.Count(told, hostsv1.EventImageUnresolved) != 1 {
			t.Errorf("told %s", told)
		}
		w.lock = nil
		w.settle("m")
		w.join("m", "node-1")

		w.lock = unresolved
		w.deleteNode("m")
		m = w.miss("m")
		if held := m.Status.Repave.Held; held == nil || held.Reason != "ImageUnresolved" || !strings.Contains(held.Message, "404 Not Found") || len(w.shard.puts) != 1 {
			t.Errorf("held %+v, published %d", m.Status.Repave.Held, len(w.shard.puts))
		}
		if told := w.tell(); strings.Count(told, hostsv1.EventImageUnresolved) != 1 {
			t.Errorf("told %s", told)
		}
		w.lock = nil
		if m = w.settle("m"); m.Status.Configuration.Assigned.Epoch != 2 || m.Status.Repave.Held != nil {
			t.Errorf("status %+v, held %+v", m.Status.Configuration, m.Status.Repave.Held)
		}
	})
}

// M53: what holds a repave back is said, and when it is over the Node is missed again.
func TestM53_HeldBack(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.settle("m")
		w.join("m", "node-1")
		w.change("m", func(m *hostsv1.HostMachine) { m.Spec.Paused = true })
		w.deleteNode("m")
		m := w.miss("m")
		if h := m.Status.Repave.Held; h == nil || h.Reason != lifecycle.HeldPaused || len(w.shard.puts) != 1 {
			t.Errorf("held %+v, published %d times", h, len(w.shard.puts))
		}
		w.change("m", func(m *hostsv1.HostMachine) { m.Spec.Paused = false })
		w.instances(func(in *nstancev1.InstanceStatus) { in.Condemned = &nstancev1.Condemned{Reason: "expired"} })
		m = w.miss("m")
		if h := m.Status.Repave.Held; h == nil || h.Reason != lifecycle.HeldLeaving || h.Message != "the instance is condemned: expired" {
			t.Errorf("held %+v", h)
		}
		w.instances()
		m = w.miss("m")
		if m.Status.Repave.Held != nil || len(w.shard.puts) != 2 {
			t.Errorf("held %+v, published %d times", m.Status.Repave.Held, len(w.shard.puts))
		}
	})
}

// M60: what the host went back to is written down, and it is tried again when a user says so.
func TestM60_Reverted(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.settle("m")
		w.join("m", "node-1")
		c := &hostsv1.MachineConfiguration{}
		w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "gpu"}, c))
		w.version(c, 2, false)
		w.deleteNode("m")
		w.miss("m")
		one := w.reference("gpu", 1)
		w.shard.report("m", &nstancev1.MachineStatus{
			Epoch: 2, Stage: nstancev1.MachineStage_MACHINE_STAGE_FAILED,
			Slots: []*nstancev1.MachineSlot{{Name: "a", State: nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, Epoch: 1, BootId: "boot-back",
				Configuration: &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: 1, Uid: one.UID, Hash: string(one.Hash)}}},
			Failure: &nstancev1.MachineFailure{Epoch: 2, Stage: nstancev1.MachineStage_MACHINE_STAGE_JOIN, Reason: "JoinTimeout", Message: "no Node in 10m0s",
				Outcome: nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_REVERTED},
		})
		w.node("m", "node-2", "boot-back")
		m := w.settle("m")
		w.want(m, hostsv1.PhaseNotReady, "RepaveFailed=True/Reverted", "NodeJoined=True/Joined", "Ready=False/NotAssignedVersion")
		if m.Status.Configuration.Applied.Version != 1 || m.Status.Configuration.Assigned.Version != 2 || m.Status.NodeRef.UID != "node-2" {
			t.Errorf("status %+v", m.Status.Configuration)
		}
		if told := w.tell(); !strings.Contains(told, "Reverted: HostMachine: version 2 of gpu was given up in stage Join: JoinTimeout") || !slices.Contains(w.counts, "NodeDeleted Reverted") {
			t.Errorf("told\n%s\ncounted %v", told, w.counts)
		}
		if n := w.getNode("m"); n.Annotations[hostsv1.AnnotationConfigurationVersion] != "1" {
			t.Errorf("the Node says %v", n.Annotations)
		}
		w.change("m", func(m *hostsv1.HostMachine) { m.Annotations = map[string]string{hostsv1.AnnotationRetry: "1"} })
		for range 5 { // each write by itself: no reader sees the failure of epoch 2 beside epoch 3
			if err := w.pass("m"); err != nil && !apierrors.IsConflict(err) {
				t.Fatal(err)
			}
			if m = w.get("m"); m.Status.Configuration.Assigned.Epoch == 3 {
				break
			}
		}
		again := func() {
			t.Helper()
			w.want(m, hostsv1.PhaseRepaving, "RepaveFailed=False/NotFailed", "Paved=False/Waiting")
			if m.Status.Configuration.Assigned.Epoch != 3 || m.Status.Repave.Retry != "1" {
				t.Errorf("status %+v", m.Status.Configuration.Assigned)
			}
		}
		again()
		w.shard.store.MachinesOpened("a")() // and the shard is lost before the next look
		m = w.settle("m")
		again()
	})
}

// M3: the reset of a host that goes from cluster to cluster wipes what survives repaves, whether it is still bound or its
// binding has ended already; that of another one keeps it.
func TestM3_TheResetOfABoundMachineWipes(t *testing.T) {
	for _, binding := range []string{"", "bound", "idle"} {
		run(t, func(w *world) {
			w.binding = binding
			w.machine("m")
			w.configuration("gpu", 1)
			w.settle("m")
			w.join("m", "node-1")
			w.must(w.api.Delete(t.Context(), w.get("m")))
			w.settle("m")
			last := w.shard.puts[len(w.shard.puts)-1].GetAssignment()
			if last.GetMode() != nstancev1.MachineMode_MACHINE_MODE_RESET || last.GetWipePersistent() != (binding != "") {
				t.Errorf("binding %q: told %s, wipe %t", binding, last.GetMode(), last.GetWipePersistent())
			}
		})
	}
}

// M6: the host is reset, and everything of the machine goes. M87 has nothing to do with it.
func TestM6_Deletion(t *testing.T) {
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprintf("the agent answers: %v", answers), func(t *testing.T) {
			run(t, func(w *world) {
				w.machine("m")
				w.configuration("gpu", 1)
				w.settle("m")
				w.join("m", "node-1")
				w.must(w.api.Delete(t.Context(), w.get("m")))
				if !answers {
					w.shard.host("m").Connected = false
					w.shard.tell("m")
				}
				m := w.settle("m")
				if m == nil || m.Status.Phase != hostsv1.PhaseDeleting {
					t.Fatalf("it is %+v", m)
				}
				last := w.shard.puts[len(w.shard.puts)-1].GetAssignment()
				if last.GetMode() != nstancev1.MachineMode_MACHINE_MODE_RESET || last.GetEpoch() != 2 || last.GetTemplate() != nil {
					t.Errorf("told %v", last)
				}
				if answers {
					w.shard.report("m", &nstancev1.MachineStatus{Epoch: 2, Stage: nstancev1.MachineStage_MACHINE_STAGE_RESET})
				} else {
					w.after(lifecycle.ResetTimeout)
				}
				if m = w.settle("m"); m != nil {
					t.Errorf("it is there: %+v", m.Status)
				}
				if n := w.getNode("m"); n != nil {
					t.Errorf("Node %v is left", n)
				}
				// The reset of a host that is away waits for it at the shard.
				if kept := w.shard.host("m").Assignment; (kept == nil) != answers || kept != nil && kept.GetMode() != nstancev1.MachineMode_MACHINE_MODE_RESET {
					t.Errorf("the shard keeps %v", kept)
				}
				if told := w.tell(); strings.Contains(told, "ResetSkipped") == answers {
					t.Errorf("told\n%s", told)
				}
			})
		})
	}
}

// M6: a deletion that nobody saw for an hour: the host is reset all the same. While the shard has not
// said what it keeps, nothing is released.
func TestM6_NobodySawTheDeletion(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.settle("m")
		w.join("m", "node-1")
		w.must(w.api.Delete(t.Context(), w.get("m")))
		w.after(time.Hour)
		w.restart()
		w.shard.store.MachinesOpened("a") // and its snapshot has not ended
		w.must(w.pass("m"))
		w.must(w.pass("m"))
		if w.get("m").Status.Repave.Mode != hostsv1.ModeReset || w.getNode("m") == nil {
			t.Errorf("status %+v, Node %v", w.get("m").Status.Repave, w.getNode("m"))
		}
		w.restart()
		w.settle("m")
		if last := w.shard.puts[len(w.shard.puts)-1].GetAssignment(); last.GetMode() != nstancev1.MachineMode_MACHINE_MODE_RESET {
			t.Errorf("told %v", last)
		}
		w.shard.report("m", &nstancev1.MachineStatus{Epoch: 2, Stage: nstancev1.MachineStage_MACHINE_STAGE_RESET})
		if m := w.settle("m"); m != nil || strings.Contains(w.tell(), "ResetSkipped") {
			t.Errorf("it is there: %v", m)
		}
	})
}

// M42, M52: a first pave is begun by what the API server says, not by a cache that does not have the Node yet.
func TestM42M52_AFirstPaveAsksTheAPIServer(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.hidden = true
		w.node("m", "foreign", "boot-x")
		if m := w.settle("m"); len(w.shard.puts) > 0 || m.Status.Configuration.Assigned != nil {
			t.Fatalf("published %v over a Node that exists", w.shard.puts)
		}
		w.live = func() error { return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "m", nil) }
		w.deleteNode("m")
		if w.settle("m"); len(w.shard.puts) > 0 {
			t.Fatalf("published %v, and the API server does not answer", w.shard.puts)
		}
		w.live = nil
		if w.settle("m"); len(w.shard.puts) != 1 {
			t.Errorf("published %v", w.shard.puts)
		}
	})
}

// M43: a host that goes on reporting that it has no credential, as it is gone or its clock is wrong, is made one, and
// not one for each look at that report.
func TestM43_ACredentialIsNotMadeForEachLook(t *testing.T) {
	for _, gone := range []bool{false, true} {
		run(t, func(w *world) {
			w.machine("m")
			w.configuration("gpu", 1)
			w.settle("m")
			w.after(time.Minute)
			w.shard.report("m", &nstancev1.MachineStatus{Epoch: 1, Stage: nstancev1.MachineStage_MACHINE_STAGE_BOOT, CredentialNeeded: true})
			if gone {
				w.shard.host("m").Connected = false
				w.shard.tell("m")
			}
			before := w.issued
			w.settle("m")
			w.settle("m")
			if made := w.issued - before; made != map[bool]int{false: 1, true: 0}[gone] {
				t.Errorf("agent gone: %v: %d credentials for one report", gone, made)
			}
			w.after(30 * time.Second)
			w.settle("m")
			if made := w.issued - before; made != map[bool]int{false: 2, true: 0}[gone] {
				t.Errorf("agent gone: %v: %d credentials after another pause", gone, made)
			}
		})
	}
}

// M43, M49: a host that begins with nothing what had joined is told the next epoch.
func TestM43M49_AHostThatHasLostItsJournal(t *testing.T) {
	run(t, func(w *world) {
		w.machine("m")
		w.configuration("gpu", 1)
		w.settle("m")
		w.join("m", "node-1")
		w.shard.report("m", &nstancev1.MachineStatus{Epoch: 1, Stage: nstancev1.MachineStage_MACHINE_STAGE_GUARD, CredentialNeeded: true})
		m := w.settle("m")
		last := w.shard.puts[len(w.shard.puts)-1]
		if last.GetAssignment().GetEpoch() != 2 || last.GetAssignment().GetExpectedNodeUid() != "node-1" || last.GetCredential().GetEpoch() != 2 ||
			m.Status.Repave.Reason != lifecycle.ReasonRetried {
			t.Errorf("told %v, status %+v", last, m.Status.Repave)
		}
		// The kubelet of the new machine takes the Node that is left.
		w.build("m")
		n := w.getNode("m")
		n.Status.NodeInfo.BootID = w.boot("m")
		w.must(w.api.Status().Update(t.Context(), n))
		m = w.settle("m")
		if m.Status.NodeRef.UID != "node-1" || w.shard.host("m").Assignment.GetConfirmed().GetEpoch() != 2 {
			t.Errorf("status %+v, stored %v", m.Status.NodeRef, w.shard.host("m").Assignment)
		}
	})
}

// M62: while its host is repaved the Machine of Cluster API is not remediated; what a user has set
// stays.
func TestM62_Remediation(t *testing.T) {
	for _, users := range []bool{false, true} {
		run(t, func(w *world) {
			owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: "owner"}}
			if users {
				owner.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""}
			}
			w.must(w.api.Create(t.Context(), owner))
			infra := &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: testworld.Namespace, Name: "infra", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "owner", UID: owner.UID},
			}}, Spec: infrav1.NstanceMachineSpec{InstanceID: "m"}}
			w.must(w.api.Create(t.Context(), infra))
			annotations := func() (skip bool, epoch string) {
				w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(owner), owner))
				_, skip = owner.Annotations[clusterv1.MachineSkipRemediationAnnotation]
				return skip, owner.Annotations[capi.AnnotationRepaving]
			}
			w.machine("m")
			w.configuration("gpu", 1)
			w.settle("m")
			w.join("m", "node-1")
			if skip, epoch := annotations(); skip != users || epoch != "" {
				t.Errorf("while it runs: %v", owner.Annotations)
			}
			w.deleteNode("m")
			w.miss("m")
			if skip, epoch := annotations(); !skip || epoch != "2" {
				t.Errorf("while it is repaved: %v", owner.Annotations)
			}
			w.join("m", "node-2")
			if skip, epoch := annotations(); skip != users || epoch != "" {
				t.Errorf("afterwards: %v", owner.Annotations)
			}
			// A repave that waits is one too, and it stays one while the shard is out of sight or the API server says
			// nothing of the Node.
			w.change("m", func(m *hostsv1.HostMachine) { m.Spec.Paused = true })
			w.deleteNode("m")
			w.miss("m")
			w.shard.store.MachinesOpened("a")
			w.settle("m")
			w.live = func() error { return errRefused }
			w.settle("m")
			if skip, epoch := annotations(); !skip || epoch != "2" {
				t.Errorf("while it waits: %v", owner.Annotations)
			}
			w.live = nil
			w.restart()
			w.change("m", func(m *hostsv1.HostMachine) { m.Spec.Paused = false })
			w.miss("m")
			w.join("m", "node-3")
			if skip, epoch := annotations(); skip != users || epoch != "" {
				t.Errorf("afterwards: %v", owner.Annotations)
			}
			// A Machine that is being deleted is not repaved any more (M53).
			owner.Finalizers = []string{"x.example.com/y"}
			w.must(w.api.Update(t.Context(), owner))
			w.must(w.api.Delete(t.Context(), owner))
			w.deleteNode("m")
			if m := w.miss("m"); m.Status.Configuration.Assigned.Epoch != 3 || m.Status.Repave.Held.Message != "its Machine owner is being deleted" {
				t.Errorf("status %+v", m.Status.Repave)
			}
		})
	}
}

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
