package reports

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func machine(id string, epoch int64) *nstancev1.MachineEvent {
	return &nstancev1.MachineEvent{InstanceId: id, Type: "machine", Machine: &nstancev1.MachineState{Connected: true, Status: &nstancev1.MachineStatus{Epoch: epoch}}}
}

// A shard is believed from the end of a snapshot on, and what a later snapshot lacks is gone.
func TestSnapshots(t *testing.T) {
	s := New()
	s.MachinesOpened("a")
	s.MachineEvent("a", machine("m", 1))
	s.MachineEvent("a", machine("n", 1))
	if h := s.Host("a", "m"); h.Known {
		t.Error("believed before the end of the snapshot")
	}
	s.MachineEvent("a", &nstancev1.MachineEvent{Type: "snapshot_end"})
	if h := s.Host("a", "m"); !h.Known || !h.Connected || h.Report.Epoch != 1 {
		t.Errorf("%+v", h)
	}
	s.MachinesOpened("a")
	if h := s.Host("a", "n"); h.Known {
		t.Error("believed while the next snapshot comes")
	}
	s.MachineEvent("a", machine("m", 2))
	s.MachineEvent("a", &nstancev1.MachineEvent{Type: "snapshot_end"})
	if m, n := s.Host("a", "m"), s.Host("a", "n"); m.Report.Epoch != 2 || n.Report != nil || !n.Known {
		t.Errorf("%+v, %+v", m, n)
	}
	s.MachineEvent("a", &nstancev1.MachineEvent{InstanceId: "m", Type: "removed"})
	if h := s.Host("a", "m"); h.Report != nil || s.State("a", "m") != nil {
		t.Errorf("%+v", h)
	}
	// Known ends with its stream, not with one before it.
	first := s.MachinesOpened("a")
	second := s.MachinesOpened("a")
	s.MachineEvent("a", machine("m", 3))
	s.MachineEvent("a", &nstancev1.MachineEvent{Type: "snapshot_end"})
	first()
	if h := s.Host("a", "m"); !h.Known || h.Report.Epoch != 3 {
		t.Errorf("after the end of the stream before: %+v", h)
	}
	second()
	if h := s.Host("a", "m"); h.Known || h.Report == nil {
		t.Errorf("after its end: %+v", h)
	}
	if h := s.Host("b", "m"); h.Known {
		t.Error("a shard that said nothing is believed")
	}
}

// Nothing is asked of a shard before somebody wants it.
func TestWanted(t *testing.T) {
	s := New()
	select {
	case <-s.MachinesWanted("a"):
		t.Error("wanted by nobody")
	case <-s.Wanted():
		t.Error("wanted by nobody")
	default:
	}
	s.Want("a")
	s.Want("a")
	<-s.MachinesWanted("a")
	<-s.Wanted()
	select {
	case <-s.MachinesWanted("b"):
		t.Error("another shard is wanted")
	default:
	}
}

// News come to those who listen, until they end.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		ctx, stop := context.WithCancel(t.Context())
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		source := s.Source(func(_ context.Context, instance string) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "of-" + instance}}}
		})
		if err := source.Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		s.MachinesOpened("a")
		s.MachineEvent("a", machine("m", 1))
		s.MachineEvent("a", machine("n", 1))
		synctest.Wait()
		if queue.Len() != 0 {
			t.Errorf("%d requests before the end of the snapshot", queue.Len())
		}
		s.MachineEvent("a", &nstancev1.MachineEvent{Type: "snapshot_end"})
		synctest.Wait()
		var got []string
		for range 2 {
			r, _ := queue.Get()
			got = append(got, r.Name)
			queue.Done(r)
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"of-m", "of-n"}) {
			t.Errorf("asked for %v", got)
		}
		stop()
		synctest.Wait()
		s.MachineEvent("a", machine("m", 2))
		synctest.Wait()
		if queue.Len() != 0 || len(s.listeners) != 0 {
			t.Errorf("%d requests and %d listeners after the end", queue.Len(), len(s.listeners))
		}
	})
}

// What the wire says, in the words of a life.
func TestObserve(t *testing.T) {
	v := &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: 2, Uid: "u", Hash: "sha256:x"}
	ref := hostsv1.VersionReference{Name: "gpu", Version: 2, UID: "u", Hash: "sha256:x"}
	got := observe(true, &nstancev1.MachineState{
		Connected: true,
		Status: &nstancev1.MachineStatus{
			Epoch: 2, Stage: nstancev1.MachineStage_MACHINE_STAGE_FAILED, Attempts: 3, LastError: "e", CredentialNeeded: true, Previous: v,
			Slots: []*nstancev1.MachineSlot{{Name: "a", State: nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, Configuration: v, Epoch: 1, BootId: "b"}},
			Preflight: []*nstancev1.PreflightCheck{
				{Id: "root", Result: nstancev1.PreflightResult_PREFLIGHT_RESULT_PASSED}, {Id: "cgroup-v2", Result: nstancev1.PreflightResult_PREFLIGHT_RESULT_DEGRADED},
				{Id: "swap", Result: nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED, Message: "on"}, {Id: "disk"},
			},
			Failure: &nstancev1.MachineFailure{Epoch: 2, Stage: nstancev1.MachineStage_MACHINE_STAGE_JOIN, Reason: "JoinTimeout", Message: "m", Outcome: nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_HELD},
			Drift:   []*nstancev1.MachineDrift{{Path: "/x"}},
		},
		Assignment: &nstancev1.AssignmentState{
			MachineUid: "mu", Epoch: 2, Mode: nstancev1.MachineMode_MACHINE_MODE_REPAVE, Configuration: v, CredentialMissing: true, Confirmed: &nstancev1.NodeConfirmed{NodeUid: "nu", BootId: "nb"},
		},
	})
	want := lifecycle.Host{
		Known: true, Connected: true,
		Report: &lifecycle.Report{
			Epoch: 2, Stage: lifecycle.StageFailed, Attempts: 3, LastError: "e", CredentialNeeded: true, Previous: &ref, Drifted: 1,
			Slots:     []lifecycle.Slot{{State: hostsv1.SlotRunning, Version: ref, Epoch: 1, BootID: "b"}},
			Preflight: []lifecycle.Check{{ID: "root"}, {ID: "cgroup-v2"}, {ID: "swap", Message: "on", Failed: true}, {ID: "disk", Message: "it was not checked yet", Failed: true}},
			Failure:   &lifecycle.Failure{Epoch: 2, Stage: lifecycle.StageJoin, Reason: "JoinTimeout", Message: "m", Outcome: lifecycle.OutcomeHeld},
		},
		Stored: &lifecycle.Stored{Epoch: 2, Mode: hostsv1.ModeRepave, MachineUID: "mu", Version: ref, Confirmed: "nu", ConfirmedBootID: "nb", CredentialMissing: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for stage := range nstancev1.MachineStage_name {
		if stage != 0 && Stage(nstancev1.MachineStage(stage)) == "" {
			t.Errorf("stage %d is not known", stage)
		}
	}
}
