package report_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/report"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

var (
	now  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	gpu1 = assignment.Configuration{Name: "gpu", Version: 1, Hash: "sha256:1"}
	up   = report.Slot{Exists: true, Observed: transition.Observed{Phase: journal.Running, BootID: "boot-1", Kubelet: true}}
	down = report.Slot{Exists: true}
)

func active() journal.Journal {
	return journal.Journal{V: 1, Active: journal.A, Epoch: 1, Contents: map[journal.Slot]journal.Content{journal.A: {Configuration: gpu1, Epoch: 1, BootID: "boot-1"}}}
}

func switching(stage journal.Stage, change func(*journal.Transition)) journal.Journal {
	j := active()
	j.Epoch = 2
	j.Transition = &journal.Transition{Kind: journal.KindBuild, Epoch: 2, From: journal.A, To: journal.B, Stage: stage, Since: now}
	if change != nil {
		change(j.Transition)
	}
	return j
}

// TestM44_StagesAreReported: how far a host is follows from its journal and from what runs.
func TestM44_StagesAreReported(t *testing.T) {
	newer, reset := &assignment.Assignment{Epoch: 3, Mode: assignment.Repave}, transition.Step{Kind: transition.ResetHost}
	outcome := active()
	outcome.Outcome = &journal.Outcome{Epoch: 1, Stage: journal.Join, Result: journal.Reverted, Error: "no join", Configuration: gpu1, At: now}
	reverting := switching(journal.Boot, nil)
	reverting.Outcome = &journal.Outcome{Epoch: 2, Result: journal.Reverting}
	refused := active()
	refused.Outcome = &journal.Outcome{Epoch: 1, Result: journal.Refused}
	for _, tt := range []struct {
		name   string
		in     report.Input
		stage  string
		needed bool
		reason string
	}{
		{"a fresh host", report.Input{}, "IDLE", false, ""},
		{"one that runs", report.Input{View: transition.View{Journal: active()}, Slots: map[journal.Slot]report.Slot{"a": up}}, "RUNNING", false, ""},
		{"one whose machine does not run", report.Input{View: transition.View{Journal: active()}, Slots: map[journal.Slot]report.Slot{"a": down}}, "BOOT", false, ""},
		{"a newer assignment", report.Input{View: transition.View{Journal: active(), Assignment: newer}}, "FETCH", true, ""},
		{"with its credential", report.Input{View: transition.View{Journal: active(), Assignment: newer, Credential: true}}, "FETCH", false, ""},
		{"building", report.Input{View: transition.View{Journal: switching(journal.Build, nil)}}, "BUILD", true, ""},
		{"booting with a credential in the slot", report.Input{View: transition.View{Journal: switching(journal.Boot, func(t *journal.Transition) { t.Marks.CredentialUntil = now.Add(time.Hour) })}}, "BOOT", false, ""},
		{"joining", report.Input{View: transition.View{Journal: switching(journal.Join, nil)}}, "JOIN", false, ""},
		{"held", report.Input{View: transition.View{Journal: switching(journal.Boot, func(t *journal.Transition) { t.Marks.Held = true })}}, "FAILED", false, ""},
		{"reverting", report.Input{View: transition.View{Journal: reverting}}, "BOOT", true, ""},
		{"reverted", report.Input{View: transition.View{Journal: outcome}, Slots: map[journal.Slot]report.Slot{"a": up}}, "FAILED", false, "JoinFailed"},
		{"refused", report.Input{View: transition.View{Journal: refused}}, "FAILED", false, "AdoptRefused"},
		{"resetting", report.Input{View: transition.View{Journal: active()}, Step: reset}, "RESETTING", false, ""},
		{"reset", report.Input{Reset: 4}, "RESET", false, ""},
	} {
		tt.in.Now = now
		s := report.Status(tt.in)
		if got := strings.TrimPrefix(s.GetStage().String(), "MACHINE_STAGE_"); got != tt.stage || s.GetCredentialNeeded() != tt.needed || s.GetFailure().GetReason() != tt.reason {
			t.Errorf("%s: %s, credential needed %v, failure %v", tt.name, got, s.GetCredentialNeeded(), s.GetFailure())
		}
	}
}

func TestSlots(t *testing.T) {
	broken, sealed := active(), active()
	broken.Contents[journal.B] = journal.Content{Configuration: gpu1, Broken: true}
	sealed.Contents[journal.B] = journal.Content{Configuration: gpu1, Epoch: 2}
	for _, tt := range []struct {
		name string
		j    journal.Journal
		b    report.Slot
		want string
	}{
		{"nothing", active(), report.Slot{}, "EMPTY"},
		{"a tree that nobody knows", active(), down, "BROKEN"},
		{"one that did not join", broken, down, "BROKEN"},
		{"one that was never booted", sealed, down, "SEALED"},
		{"one that is being built", switching(journal.Build, nil), report.Slot{}, "BUILDING"},
		{"leftovers", sealed, report.Slot{Exists: true, Observed: transition.Observed{Phase: journal.Orphan}}, "BROKEN"},
		{"one that runs", switching(journal.Join, nil), up, "RUNNING"},
	} {
		s := report.Status(report.Input{View: transition.View{Journal: tt.j}, Slots: map[journal.Slot]report.Slot{"a": down, "b": tt.b}, Now: now})
		if got := strings.TrimPrefix(s.GetSlots()[1].GetState().String(), "MACHINE_SLOT_STATE_"); got != tt.want || s.GetSlots()[1].GetName() != "b" {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
	previous := active()
	previous.Previous = journal.B
	previous.Contents[journal.B] = journal.Content{Configuration: gpu1, BootID: "boot-0"}
	s := report.Status(report.Input{View: transition.View{Journal: previous}, Slots: map[journal.Slot]report.Slot{"a": up, "b": down}, Now: now})
	if s.GetPrevious().GetName() != "gpu" || s.GetSlots()[1].GetState() != nstancev1.MachineSlotState_MACHINE_SLOT_STATE_STOPPED || s.GetSlots()[0].GetBootId() != "boot-1" || !s.GetKubeletActive() {
		t.Errorf("%v", s)
	}
}

func TestAReportIsBounded(t *testing.T) {
	in := report.Input{Now: now}
	for range 40 {
		in.Problems = append(in.Problems, &nstancev1.MachineProblem{})
	}
	if s := report.Status(in); len(s.GetProblems()) != 16 {
		t.Errorf("%d problems", len(s.GetProblems()))
	}
}

// A report that is too large would be dropped on its way, and the host be taken for silent.
func TestAReportIsNeverTooLarge(t *testing.T) {
	long := strings.Repeat("x", 4000)
	around := report.Surroundings{Host: &nstancev1.MachineHost{KernelArguments: long, Facts: &nstancev1.MachineFacts{ResolvConf: long, PodResolvConf: long, Paths: map[string]string{"/a": long, "/b": long, "/c": long}}}}
	for i := range 32 {
		s := report.Status(report.Input{View: transition.View{Journal: active()}, Slots: map[journal.Slot]report.Slot{"a": up}, Around: around, Now: now})
		if size := proto.Size(s); size > 63<<10 {
			t.Errorf("%d changed files: %d bytes", i, size)
		}
		if len(s.GetDrift()) == 0 != (i == 0) || (i < 11) != (s.GetHost().GetFacts() != nil) || around.Host.Facts == nil {
			t.Errorf("%d changed files: %d are told, facts %v", i, len(s.GetDrift()), s.GetHost().GetFacts() != nil)
		}
		around.Drift = append(around.Drift, &nstancev1.MachineDrift{Path: long})
	}
}
