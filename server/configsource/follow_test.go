package configsource

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/objectstore/memory"
)

// inStandby runs a test with a server that follows the stored configuration,
// which it looks at every 30 seconds, and what it logs.
func inStandby(t *testing.T, leads bool, test func(t *testing.T, r *Reloader, store *memory.Store, logs *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		put(t, store, testConfig(3))
		r := standby(t, store)
		var logs bytes.Buffer
		r.log = slog.New(slog.NewTextHandler(&logs, nil))
		r.opts.Leads = func() bool { return leads }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Follow(ctx)
		}()
		test(t, r, store, &logs)
		cancel()
		<-done
	})
}

func look(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestStandby_followsTheStoredConfiguration(t *testing.T) {
	inStandby(t, false, func(t *testing.T, r *Reloader, store *memory.Store, _ *bytes.Buffer) {
		look(time.Hour)
		if got := store.Calls(); got > 125 {
			t.Errorf("%d requests in an hour, want one each 30 s", got)
		}
		put(t, store, testConfig(5))
		look(31 * time.Second)
		if got := sizeOf(r); got != 5 {
			t.Errorf("size %d, want the stored one, 5", got)
		}
	})
}

func TestStandby_believesTheLeader(t *testing.T) {
	store := memory.New(memory.Options{})
	put(t, store, testConfig(3))
	r := standby(t, store)
	answer := r.target.Static().ETag
	r.opts.LeaderETag = func() (string, bool) { return answer, true }
	put(t, store, testConfig(5))
	for _, tt := range []struct {
		says string
		size int
	}{
		{answer, 3}, // though storage has another: the leader leads with this one
		{"another", 5},
	} {
		answer = tt.says
		if err := r.followOnce(t.Context()); err != nil || sizeOf(r) != tt.size {
			t.Errorf("the leader says %q: size %d, %v, want %d", tt.says, sizeOf(r), err, tt.size)
		}
	}
}

func TestS19_StandbyReportsABadConfigurationOnce(t *testing.T) {
	for name, bad := range map[string][]byte{"not valid": []byte(`{"nonsense": 1}`), "of another cluster": anotherCluster()} {
		t.Run(name, func(t *testing.T) {
			inStandby(t, false, func(t *testing.T, r *Reloader, store *memory.Store, logs *bytes.Buffer) {
				put(t, store, bad)
				look(time.Hour)
				if got := sizeOf(r); got != 3 {
					t.Errorf("size %d, want that of the last good configuration, 3", got)
				}
				if n := strings.Count(logs.String(), "not in force"); n != 1 {
					t.Errorf("reported %d times:\n%s", n, logs)
				}
				put(t, store, testConfig(6))
				look(31 * time.Second)
				if got := sizeOf(r); got != 6 {
					t.Errorf("size %d after it was mended, want 6", got)
				}
			})
		})
	}
}

func TestStandby_reportsStorageThatIsAwayOnce(t *testing.T) {
	inStandby(t, false, func(t *testing.T, r *Reloader, store *memory.Store, logs *bytes.Buffer) {
		store.Down(true)
		look(time.Hour)
		if n := strings.Count(logs.String(), "not in force"); n != 1 {
			t.Errorf("reported %d times:\n%s", n, logs)
		}
		store.Down(false)
		put(t, store, testConfig(4))
		look(31 * time.Second)
		if got := sizeOf(r); got != 4 {
			t.Errorf("size %d, want 4", got)
		}
	})
}

func TestStandby_aLeaderDoesNotLook(t *testing.T) {
	inStandby(t, true, func(t *testing.T, _ *Reloader, store *memory.Store, _ *bytes.Buffer) {
		before := store.Calls()
		look(time.Hour)
		if got := store.Calls() - before; got != 0 {
			t.Errorf("%d requests in an hour", got)
		}
	})
}
