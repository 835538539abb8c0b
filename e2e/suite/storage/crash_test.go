//go:build storage

package storage_test

import (
	"flag"
	"testing"
	"time"

	"nstance.dev/e2e/env/crash"
	"nstance.dev/e2e/env/storage"
	"nstance.dev/server/objectstore/backends"
)

var rounds = flag.Int("rounds", 2, "how often a server is killed in the middle of a scale-up")

// onEach carries an exercise out on each kind of storage server. That of S3 is
// killed and started again; the emulator of Google Cloud Storage keeps its objects
// in memory, and is frozen instead: what it is asked meanwhile hangs.
func onEach(t *testing.T, exercise func(*testing.T, crash.Storage)) {
	t.Helper()
	t.Run("s3", func(t *testing.T) {
		server := storage.S3(t)
		server.Setenv(t)
		exercise(t, crash.Storage{Location: location(t, server), Away: server.Crash})
	})
	t.Run("gcs", func(t *testing.T) {
		server := storage.GCS(t)
		server.Setenv(t)
		exercise(t, crash.Storage{Location: location(t, server), Away: server.Freeze, Lease: 10 * time.Second})
	})
}

// location is an empty bucket of a server.
func location(t *testing.T, server *storage.Server) backends.Location {
	t.Helper()
	return backends.Location{Kind: server.Kind, Bucket: server.NewBucket(t), Prefix: "env"}
}

func TestF12_ServerKilledInTheMiddleOfAScaleUp(t *testing.T) {
	onEach(t, func(t *testing.T, s crash.Storage) { crash.KilledInTheMiddleOfAScaleUp(t, s, *rounds) })
}

func TestS4_ScaleUpAndBackToNothingLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s crash.Storage) { crash.ScaledUpAndBack(t, s, 200) })
}

func TestL2_StandbyServesWhenTheLeaderIsKilled(t *testing.T) { onEach(t, crash.LeaderKilled) }

func TestL2_StandbyServesWhenTheLeaderIsStopped(t *testing.T) { onEach(t, crash.LeaderStopped) }

func TestF6_LeaderStoppedForThreeLeases(t *testing.T) { onEach(t, crash.LeaderFrozen) }

func TestS16_ServerKilledAndStartedAgainChangesNothing(t *testing.T) {
	for name, loseCache := range map[string]bool{"with its cache": false, "without its cache": true} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s crash.Storage) { crash.ServerKilledAndStartedAgain(t, s, loseCache) })
		})
	}
}

func TestL1_KilledMachinesAreReplaced(t *testing.T) { onEach(t, crash.MachinesKilled) }

func TestF1_StorageAwayForTenLeases(t *testing.T) { onEach(t, crash.StorageAwayForTenLeases) }
