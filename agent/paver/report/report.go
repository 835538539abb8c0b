// Package report says in the words of the contract how a host and its node machine are. It is a
// pure function of what was seen and decided.
package report

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Slot is what was seen of a slot.
type Slot struct {
	transition.Observed
	Exists bool // there is a tree
}

// Surroundings are what a report says beside the machine.
type Surroundings struct {
	Preflight []*nstancev1.PreflightCheck
	Drift     []*nstancev1.MachineDrift
	Problems  []*nstancev1.MachineProblem
	Executors []*nstancev1.MachineExecutor
	Sizes     map[journal.Slot]int64
	Host      *nstancev1.MachineHost
}

// Input is all that a report follows from.
type Input struct {
	View     transition.View
	Step     transition.Step
	Slots    map[journal.Slot]Slot
	Reset    int64 // epoch of the reset that was carried out; 0: none
	Sequence int32 // of the credential for the assignment; 0: there is none
	Around   Surroundings
	// Operations that are reported.
	Operations []operation.Record
	Problems   []*nstancev1.MachineProblem
	Version    string
	Now        time.Time
}

// mostProblems bounds the list of a report.
const mostProblems = 16

// Status returns the report.
func Status(in Input) *nstancev1.MachineStatus {
	j := in.View.Journal
	s := &nstancev1.MachineStatus{
		Epoch: epoch(in), Stage: stage(in), MachineUid: j.MachineUID, ActiveSlot: string(j.Active),
		CredentialSequence: in.Sequence, CredentialNeeded: credentialNeeded(in),
		Preflight: in.Around.Preflight, Executors: in.Around.Executors, Drift: in.Around.Drift, Host: in.Around.Host,
		Problems: append(in.Problems, in.Around.Problems...), PaverVersion: in.Version, ReportedAt: timestamppb.New(in.Now),
		Failure: failure(j.Outcome), Operations: Operations(in.Operations), Prebuild: prebuild(j.Prebuild),
	}
	if len(s.Problems) > mostProblems {
		s.Problems = s.Problems[:mostProblems]
	}
	for _, name := range journal.Slots() {
		s.Slots = append(s.Slots, slot(in, name))
		if seen := in.Slots[name]; seen.Phase == journal.Running && seen.Kubelet {
			s.KubeletActive = true
		}
	}
	if j.Previous != journal.None {
		s.Previous = j.Contents[j.Previous].Configuration.Message()
	}
	if t := j.Transition; t != nil {
		s.Attempts, s.LastError = int32(t.Attempts), t.LastError
		s.StageStartedAt = timestamppb.New(t.Since)
		if !t.Started.IsZero() {
			s.StartedAt = timestamppb.New(t.Started)
		}
	}
	Fit(s)
	return s
}

var (
	prebuildStates = map[journal.PrebuildStage]nstancev1.MachinePrebuildState{
		journal.PrebuildFetch:  nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FETCH,
		journal.PrebuildBuild:  nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_BUILD,
		journal.PrebuildDone:   nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE,
		journal.PrebuildFailed: nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FAILED,
	}
	scopes = map[journal.Scope]nstancev1.MachinePrebuildScope{
		journal.Images: nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_IMAGES, journal.WholeSlot: nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_SLOT,
	}
)

// prebuild says what has become of what is prepared; nil: nothing is.
func prebuild(p *journal.Prebuild) *nstancev1.MachinePrebuildStatus {
	if p == nil {
		return nil
	}
	s := &nstancev1.MachinePrebuildStatus{
		Configuration: p.Assignment.Configuration.Message(), Scope: scopes[p.Scope], State: prebuildStates[p.Stage],
		Attempts: int32(p.Attempts), LastError: p.LastError, //nolint:gosec // three at most
	}
	if p.Stage.Over() {
		s.FinishedAt = timestamppb.New(p.Since)
	}
	return s
}

var operationStates = map[operation.State]nstancev1.MachineOperationState{
	operation.Accepted:   nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_ACCEPTED,
	operation.InProgress: nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_IN_PROGRESS,
	operation.Complete:   nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_COMPLETE,
	operation.Failed:     nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_FAILED,
}

// Operations says what has become of operations.
func Operations(all []operation.Record) (reports []*nstancev1.MachineOperationReport) {
	at := func(t time.Time) *timestamppb.Timestamp {
		if t.IsZero() {
			return nil
		}
		return timestamppb.New(t)
	}
	for _, r := range all {
		reports = append(reports, &nstancev1.MachineOperationReport{
			Id: r.ID, Name: r.Name, State: operationStates[r.State], Reason: r.Reason, Message: r.Message, Results: r.Results,
			StartedAt: at(r.Began), FinishedAt: at(r.Ended),
		})
	}
	return reports
}

// mostSize is how large a report is: one of more than 64 KiB would be dropped on its way, with a little
// room for how far a stage is.
const mostSize = 63 << 10

// Fit leaves out of a report what can best be done without until it is not too large.
func Fit(s *nstancev1.MachineStatus) {
	if proto.Size(s) > mostSize && s.GetHost().GetFacts() != nil {
		s.Host = proto.CloneOf(s.Host) // others have it too
		s.Host.Facts = nil
	}
	for proto.Size(s) > mostSize && len(s.Drift) > 1 {
		s.Drift = s.Drift[:len(s.Drift)/2]
	}
	for proto.Size(s) > mostSize && len(s.Operations) > 0 {
		s.Operations = s.Operations[1:] // the oldest
	}
}

// epoch is the highest one that was accepted.
func epoch(in Input) int64 {
	highest := max(in.View.Journal.Epoch, in.Reset)
	if a := in.View.Assignment; a != nil {
		highest = max(highest, a.Epoch)
	}
	return highest
}

var stages = map[journal.Stage]nstancev1.MachineStage{
	journal.Fetch: nstancev1.MachineStage_MACHINE_STAGE_FETCH, journal.Build: nstancev1.MachineStage_MACHINE_STAGE_BUILD,
	journal.Guard: nstancev1.MachineStage_MACHINE_STAGE_GUARD, journal.Retire: nstancev1.MachineStage_MACHINE_STAGE_RETIRE,
	journal.Boot: nstancev1.MachineStage_MACHINE_STAGE_BOOT, journal.Join: nstancev1.MachineStage_MACHINE_STAGE_JOIN,
	journal.Commit: nstancev1.MachineStage_MACHINE_STAGE_COMMIT, journal.Sweep: nstancev1.MachineStage_MACHINE_STAGE_SWEEP,
}

func stage(in Input) nstancev1.MachineStage {
	j := in.View.Journal
	a := in.View.Assignment
	switch {
	case in.Step.Kind == transition.ResetHost:
		return nstancev1.MachineStage_MACHINE_STAGE_RESETTING
	case in.Reset > 0 && a == nil:
		return nstancev1.MachineStage_MACHINE_STAGE_RESET
	case j.Transition != nil && (j.Transition.Marks.Held || j.Transition.Marks.GaveUp):
		return nstancev1.MachineStage_MACHINE_STAGE_FAILED
	case j.Transition != nil:
		return stages[j.Transition.Stage]
	case a != nil && a.Epoch > j.Epoch:
		return nstancev1.MachineStage_MACHINE_STAGE_FETCH
	case j.Outcome != nil:
		return nstancev1.MachineStage_MACHINE_STAGE_FAILED
	case j.Active != journal.None && in.Slots[j.Active].Phase != journal.Running:
		return nstancev1.MachineStage_MACHINE_STAGE_BOOT
	case j.Active != journal.None:
		return nstancev1.MachineStage_MACHINE_STAGE_RUNNING
	}
	return nstancev1.MachineStage_MACHINE_STAGE_IDLE
}

// credentialNeeded is true as long as a machine is to be booted that has nothing to join with.
func credentialNeeded(in Input) bool {
	j, v := in.View.Journal, in.View
	t := j.Transition
	switch {
	case in.Step.Kind == transition.AskForSecret: // also for one that has too little time left
		return true
	case v.Credential:
		return false
	case v.Assignment != nil && v.Assignment.Epoch > j.Epoch:
		return v.Assignment.Mode == "Pave" || v.Assignment.Mode == "Repave"
	case t == nil || t.Kind != journal.KindBuild || t.Marks.Held || t.Marks.GaveUp:
		return false
	}
	switch t.Stage {
	case journal.Fetch, journal.Build, journal.Guard, journal.Retire, journal.Boot:
		return !in.Now.Before(t.Marks.CredentialUntil)
	}
	return false
}

func slot(in Input, name journal.Slot) *nstancev1.MachineSlot {
	j, seen := in.View.Journal, in.Slots[name]
	content, known := j.Contents[name]
	s := &nstancev1.MachineSlot{Name: string(name), SizeBytes: in.Around.Sizes[name]}
	if known {
		s.Configuration, s.Epoch = content.Configuration.Message(), content.Epoch
	}
	t := j.Transition
	switch {
	case seen.Phase == journal.Running:
		s.State, s.BootId = nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING, seen.BootID
	case t != nil && t.To == name && t.Stage == journal.Build, j.Prebuild != nil && j.Prebuild.Slot == name && j.Prebuild.Stage == journal.PrebuildBuild:
		s.State = nstancev1.MachineSlotState_MACHINE_SLOT_STATE_BUILDING
	case !seen.Exists:
		s.State = nstancev1.MachineSlotState_MACHINE_SLOT_STATE_EMPTY
	case content.Broken || seen.Phase == journal.Orphan || !known:
		s.State = nstancev1.MachineSlotState_MACHINE_SLOT_STATE_BROKEN
	case content.BootID == "":
		s.State = nstancev1.MachineSlotState_MACHINE_SLOT_STATE_SEALED
	default:
		s.State = nstancev1.MachineSlotState_MACHINE_SLOT_STATE_STOPPED
	}
	return s
}

// reasons are the words for what an assignment failed of.
var reasons = map[journal.Stage]string{
	journal.Fetch: "FetchFailed", journal.Build: "BuildFailed", journal.Guard: "GuardFailed", journal.Retire: "StopFailed",
	journal.Boot: "BootFailed", journal.Join: "JoinFailed",
}

var outcomes = map[journal.Result]nstancev1.MachineFailureOutcome{
	journal.Kept: nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_KEPT, journal.Refused: nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_KEPT,
	journal.Reverted: nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_REVERTED, journal.Held: nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_HELD,
}

// failure is told once it is final; while the old machine is being started again it is not.
func failure(o *journal.Outcome) *nstancev1.MachineFailure {
	if o == nil || o.Result == journal.Reverting {
		return nil
	}
	f := &nstancev1.MachineFailure{
		Epoch: o.Epoch, Configuration: o.Configuration.Message(), Stage: stages[o.Stage], Reason: reasons[o.Stage], Message: o.Error, Outcome: outcomes[o.Result],
	}
	if o.Result == journal.Refused {
		f.Reason = "AdoptRefused"
	}
	if !o.At.IsZero() {
		f.At = timestamppb.New(o.At)
	}
	return f
}
