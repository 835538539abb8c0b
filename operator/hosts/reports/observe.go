package reports

import (
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// observe is what a word about a host means.
func observe(known bool, m *nstancev1.MachineState) lifecycle.Host {
	h := lifecycle.Host{Known: known, Connected: m.GetConnected()}
	if s := m.GetStatus(); s != nil {
		h.Report = report(s)
	}
	if a := m.GetAssignment(); a != nil {
		h.Stored = &lifecycle.Stored{
			Epoch: a.GetEpoch(), Mode: modes[a.GetMode()], MachineUID: a.GetMachineUid(), Version: Version(a.GetConfiguration()),
			Confirmed: a.GetConfirmed().GetNodeUid(), ConfirmedBootID: a.GetConfirmed().GetBootId(), CredentialMissing: a.GetCredentialMissing(),
		}
	}
	return h
}

func report(s *nstancev1.MachineStatus) *lifecycle.Report {
	r := &lifecycle.Report{
		Epoch: s.GetEpoch(), Stage: stages[s.GetStage()], Attempts: s.GetAttempts(), LastError: s.GetLastError(),
		CredentialNeeded: s.GetCredentialNeeded(), Drifted: len(s.GetDrift()),
		Progress: lifecycle.Progress{What: s.GetProgress().GetWhat(), Done: s.GetProgress().GetDoneBytes(), Total: s.GetProgress().GetTotalBytes()},
	}
	for _, slot := range s.GetSlots() {
		r.Slots = append(r.Slots, lifecycle.Slot{
			State: SlotState(slot.GetState()), Version: Version(slot.GetConfiguration()), Epoch: slot.GetEpoch(), BootID: slot.GetBootId(),
		})
	}
	for _, c := range s.GetPreflight() {
		check := lifecycle.Check{ID: c.GetId(), Message: c.GetMessage()}
		switch c.GetResult() {
		case nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED:
			check.Failed = true
		case nstancev1.PreflightResult_PREFLIGHT_RESULT_UNSPECIFIED:
			check.Failed, check.Message = true, "it was not checked yet"
		case nstancev1.PreflightResult_PREFLIGHT_RESULT_PASSED, nstancev1.PreflightResult_PREFLIGHT_RESULT_DEGRADED:
		}
		r.Preflight = append(r.Preflight, check)
	}
	if s.GetPrevious() != nil {
		v := Version(s.GetPrevious())
		r.Previous = &v
	}
	if f := s.GetFailure(); f != nil {
		r.Failure = &lifecycle.Failure{
			Epoch: f.GetEpoch(), Stage: stages[f.GetStage()], Reason: f.GetReason(), Message: f.GetMessage(), Outcome: outcomes[f.GetOutcome()],
		}
	}
	return r
}

// Version is a version of a configuration, as objects name it.
func Version(v *nstancev1.MachineConfigurationVersion) hostsv1.VersionReference {
	return hostsv1.VersionReference{
		Name: hostsv1.ConfigurationName(v.GetName()), Version: v.GetVersion(), UID: v.GetUid(), Hash: hostsv1.SHA256(v.GetHash()),
	}
}

// SlotState is the state of a slot, as objects name it; empty for one that is not known.
func SlotState(s nstancev1.MachineSlotState) hostsv1.SlotState { return slotStates[s] }

// Stage is how far a host is; empty for what is not known.
func Stage(s nstancev1.MachineStage) lifecycle.Stage { return stages[s] }

// What the wire says, in our words. What is not listed is not known, and is empty.
var (
	modes = map[nstancev1.MachineMode]hostsv1.AssignmentMode{
		nstancev1.MachineMode_MACHINE_MODE_PAVE:   hostsv1.ModePave,
		nstancev1.MachineMode_MACHINE_MODE_REPAVE: hostsv1.ModeRepave,
		nstancev1.MachineMode_MACHINE_MODE_ADOPT:  hostsv1.ModeAdopt,
		nstancev1.MachineMode_MACHINE_MODE_RESET:  hostsv1.ModeReset,
	}
	stages = map[nstancev1.MachineStage]lifecycle.Stage{
		nstancev1.MachineStage_MACHINE_STAGE_IDLE:      lifecycle.StageIdle,
		nstancev1.MachineStage_MACHINE_STAGE_FETCH:     lifecycle.StageFetch,
		nstancev1.MachineStage_MACHINE_STAGE_BUILD:     lifecycle.StageBuild,
		nstancev1.MachineStage_MACHINE_STAGE_GUARD:     lifecycle.StageGuard,
		nstancev1.MachineStage_MACHINE_STAGE_RETIRE:    lifecycle.StageRetire,
		nstancev1.MachineStage_MACHINE_STAGE_BOOT:      lifecycle.StageBoot,
		nstancev1.MachineStage_MACHINE_STAGE_JOIN:      lifecycle.StageJoin,
		nstancev1.MachineStage_MACHINE_STAGE_COMMIT:    lifecycle.StageCommit,
		nstancev1.MachineStage_MACHINE_STAGE_SWEEP:     lifecycle.StageSweep,
		nstancev1.MachineStage_MACHINE_STAGE_RUNNING:   lifecycle.StageRunning,
		nstancev1.MachineStage_MACHINE_STAGE_FAILED:    lifecycle.StageFailed,
		nstancev1.MachineStage_MACHINE_STAGE_RESETTING: lifecycle.StageResetting,
		nstancev1.MachineStage_MACHINE_STAGE_RESET:     lifecycle.StageReset,
	}
	slotStates = map[nstancev1.MachineSlotState]hostsv1.SlotState{
		nstancev1.MachineSlotState_MACHINE_SLOT_STATE_EMPTY:    hostsv1.SlotEmpty,
		nstancev1.MachineSlotState_MACHINE_SLOT_STATE_BUILDING: hostsv1.SlotBuilding,
		nstancev1.MachineSlotState_MACHINE_SLOT_STATE_SEALED:   hostsv1.SlotSealed,
		nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING:  hostsv1.SlotRunning,
		nstancev1.MachineSlotState_MACHINE_SLOT_STATE_STOPPED:  hostsv1.SlotStopped,
		nstancev1.MachineSlotState_MACHINE_SLOT_STATE_BROKEN:   hostsv1.SlotBroken,
	}
	outcomes = map[nstancev1.MachineFailureOutcome]lifecycle.Outcome{
		nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_KEPT:     lifecycle.OutcomeKept,
		nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_REVERTED: lifecycle.OutcomeReverted,
		nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_HELD:     lifecycle.OutcomeHeld,
	}
)
