package cli_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/admin/cli"
	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// withAssignments returns a console whose shard has a node that runs, one that is built, and a
// host that waits.
func withAssignments(t *testing.T) *console {
	t.Helper()
	c := newConsole(t)
	since := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(shardtest.Epoch.Add(d)) }
	content := func(n int32, digit string) *nstancev1.MachineConfigurationVersion {
		return &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: n, Uid: "uid-gpu", Hash: "sha256:" + strings.Repeat(digit, 64)}
	}
	c.local.SetMachine("knd068a3cp3thz5z2mv1gejwfta01", &nstancev1.MachineState{
		Connected: true, AgentVersion: "1.2.3", ReportedAt: since(time.Hour),
		Status: &nstancev1.MachineStatus{Epoch: 4, Stage: nstancev1.MachineStage_MACHINE_STAGE_RUNNING},
		Assignment: &nstancev1.AssignmentState{
			MachineName: "knd068a3cp3thz5z2mv1gejwfta01", MachineUid: "uid-1", Epoch: 4, Mode: nstancev1.MachineMode_MACHINE_MODE_REPAVE,
			Configuration: content(2, "2"), At: since(0), ConfirmedAt: since(time.Minute),
			Confirmed: &nstancev1.NodeConfirmed{Epoch: 4, NodeUid: "node-uid", BootId: "boot"},
		},
	})
	c.local.SetMachine("knd068a3cp3thz5z2mv1gejwfta02", &nstancev1.MachineState{
		Connected: true, AgentVersion: "1.2.3", ReportedAt: since(time.Hour),
		Status: &nstancev1.MachineStatus{Epoch: 1, Stage: nstancev1.MachineStage_MACHINE_STAGE_FETCH, LastError: "fetch: no space left on device"},
		Assignment: &nstancev1.AssignmentState{
			MachineName: "m2", MachineUid: "uid-2", Epoch: 1, Mode: nstancev1.MachineMode_MACHINE_MODE_PAVE,
			Configuration: content(1, "1"), At: since(time.Hour), CredentialMissing: true,
		},
	})
	c.local.SetMachine("knd068a3cp3thz5z2mv1gejwfta03", &nstancev1.MachineState{Connected: true, AgentVersion: "1.2.3"})
	return c
}

func TestM40_AssignmentsAreShown(t *testing.T) {
	for _, format := range []string{"table", "wide", "json", "yaml", "name"} {
		golden(t, "machine-assignments."+format, withAssignments(t).ok(t, "machine", "assignments", "-o", format))
	}
	if got := newConsole(t).ok(t, "machine", "assignments", "-o", "name"); got != "" {
		t.Errorf("a shard without machines lists %q", got)
	}
	c := newConsole(t)
	c.local.OfBefore = true
	if got := c.fails(t, cli.ExitFailed, "machine", "assignments"); !strings.Contains(got, "the server knows no host machines; upgrade it") {
		t.Errorf("a server of before: %q", got)
	}
}
