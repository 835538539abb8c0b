package crowd_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/e2e/env/crowd"
	"nstance.dev/e2e/env/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// await waits until a shard has that many machines of the group web, all of which have registered.
func await(t *testing.T, c *shards.Cluster, want int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		registered := 0
		all, complete, err := c.Instances(t.Context(), "a")
		for _, in := range all {
			if in.GetRegisteredAt() != nil {
				registered++
			}
		}
		if err == nil && complete && registered == want && len(all) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d machines, %d have registered, want %d: %v", len(all), registered, want, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Machines register without an agent of their own, and are gone with their processes.
func TestRun(t *testing.T) {
	c := shards.New(t, map[string]shards.Groups{"a": {"web": 3}}, shards.Unbound, shards.UserData(crowd.UserData))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- crowd.Run(ctx, c.MachineDirs(), slog.New(slog.DiscardHandler)) }()
	await(t, c, 3)
	c.UpsertGroup("a", "more", 2)
	await(t, c, 5)
	c.DeleteGroup("a", "more")
	await(t, c, 3)
	cancel()
	if err := <-ended; err != nil {
		t.Error(fmt.Errorf("the crowd: %w", err))
	}
}
