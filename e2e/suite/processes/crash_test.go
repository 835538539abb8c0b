package processes_test

import (
	"testing"

	"nstance.dev/e2e/env/crash"
)

// What an exercise wants stands with it. Here the storage is a directory, which is
// never away; e2e/env/storage has the same with servers of S3 and Google Cloud Storage.

func TestF12_ServerKilledInTheMiddleOfAScaleUp(t *testing.T) {
	crash.KilledInTheMiddleOfAScaleUp(t, crash.Storage{}, *rounds)
}

func TestS4_ScaleUpAndBackToNothingLeavesNothing(t *testing.T) {
	crash.ScaledUpAndBack(t, crash.Storage{}, *crowd)
}

func TestL2_StandbyServesWhenTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	crash.LeaderKilled(t, crash.Storage{})
}

func TestL2_LeaseOfAKilledLeaderIsGivenBack(t *testing.T) {
	t.Parallel()
	crash.LeaseGivenBack(t, crash.Storage{})
}

func TestL2_StandbyServesWhenTheLeaderIsStopped(t *testing.T) {
	t.Parallel()
	crash.LeaderStopped(t, crash.Storage{})
}

func TestM84_M85_PowerCycleWhoseLeaderIsKilledBetweenOffAndOn(t *testing.T) {
	t.Parallel()
	crash.PowerCycledOverALeader(t, crash.Storage{})
}

func TestF6_LeaderStoppedForThreeLeases(t *testing.T) {
	t.Parallel()
	crash.LeaderFrozen(t, crash.Storage{})
}

func TestS16_ServerKilledAndStartedAgainChangesNothing(t *testing.T) {
	t.Parallel()
	t.Run("with its cache", func(t *testing.T) { crash.ServerKilledAndStartedAgain(t, crash.Storage{}, false) })
	t.Run("without its cache", func(t *testing.T) { crash.ServerKilledAndStartedAgain(t, crash.Storage{}, true) })
}

func TestL1_KilledMachinesAreReplaced(t *testing.T) {
	t.Parallel()
	crash.MachinesKilled(t, crash.Storage{})
}
