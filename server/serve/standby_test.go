package serve

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/peers"
)

// inStandby runs a test with a server that follows the stored configuration,
// which it looks at every 30 seconds, and what it logs.
func inStandby(t *testing.T, lock *election, test func(t *testing.T, p *process, store *memory.Store, logs *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		put(t, store, devConfig(t, 3))
		p := standby(t, store)
		var logs bytes.Buffer
		p.log = slog.New(slog.NewTextHandler(&logs, nil))
		p.shardLock = lock
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.followConfig(ctx) }()
		test(t, p, store, &logs)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func look(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestStandby_followsTheStoredConfiguration(t *testing.T) {
	inStandby(t, &election{}, func(t *testing.T, p *process, store *memory.Store, _ *bytes.Buffer) {
		look(time.Hour)
		if got := store.Calls(); got > 125 {
			t.Errorf("%d requests in an hour, want one each 30 s", got)
		}
		put(t, store, devConfig(t, 5))
		look(31 * time.Second)
		if got := sizeOf(p); got != 5 {
			t.Errorf("size %d, want the stored one, 5", got)
		}
	})
}

func TestStandby_believesTheLeader(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, devConfig(t, 3))
	p := standby(t, store)
	answer, at := peers.ETags{Config: p.shard.Static().ETag}, time.Now()
	p.peering = &peering{now: func() time.Time { return at }, heard: func() (peers.ETags, time.Time) { return answer, at }}
	put(t, store, devConfig(t, 5))
	for _, tt := range []struct {
		says string
		size int
	}{
		{answer.Config, 3}, // though storage has another: the leader leads with this one
		{"another", 5},
	} {
		answer.Config = tt.says
		if err := p.followOnce(t.Context()); err != nil || sizeOf(p) != tt.size {
			t.Errorf("the leader says %q: size %d, %v, want %d", tt.says, sizeOf(p), err, tt.size)
		}
	}
}

func TestS19_StandbyReportsABadConfigurationOnce(t *testing.T) {
	for name, bad := range map[string][]byte{"not valid": []byte(`{"nonsense": 1}`), "of another cluster": anotherCluster(t)} {
		t.Run(name, func(t *testing.T) {
			inStandby(t, &election{}, func(t *testing.T, p *process, store *memory.Store, logs *bytes.Buffer) {
				put(t, store, bad)
				look(time.Hour)
				if got := sizeOf(p); got != 3 {
					t.Errorf("size %d, want that of the last good configuration, 3", got)
				}
				if n := strings.Count(logs.String(), "not in force"); n != 1 {
					t.Errorf("reported %d times:\n%s", n, logs)
				}
				put(t, store, devConfig(t, 6))
				look(31 * time.Second)
				if got := sizeOf(p); got != 6 {
					t.Errorf("size %d after it was mended, want 6", got)
				}
			})
		})
	}
}

func TestStandby_reportsStorageThatIsAwayOnce(t *testing.T) {
	inStandby(t, &election{}, func(t *testing.T, p *process, store *memory.Store, logs *bytes.Buffer) {
		store.Down(true)
		look(time.Hour)
		if n := strings.Count(logs.String(), "not in force"); n != 1 {
			t.Errorf("reported %d times:\n%s", n, logs)
		}
		store.Down(false)
		put(t, store, devConfig(t, 4))
		look(31 * time.Second)
		if got := sizeOf(p); got != 4 {
			t.Errorf("size %d, want 4", got)
		}
	})
}

func TestStandby_aLeaderDoesNotLook(t *testing.T) {
	alone := &election{always: func(context.Context) {}}
	inStandby(t, alone, func(t *testing.T, _ *process, store *memory.Store, _ *bytes.Buffer) {
		before := store.Calls()
		look(time.Hour)
		if got := store.Calls() - before; got != 0 {
			t.Errorf("%d requests in an hour", got)
		}
	})
}
