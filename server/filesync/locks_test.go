package filesync

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/fleet"
)

// full is a line that takes nothing.
type full struct{}

func (full) Offer(*nstancev1.ServerMessage) bool { return false }
func (full) Room() int                           { return 0 }

// TestNobodyIsCalledUnderALock: each function among the options may call the Syncer.
func TestNobodyIsCalledUnderALock(t *testing.T) {
	rows, err := cache.Open(t.Context(), os.DevNull+"/none", cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const id = identity.ID("vmx-a")
	var s *Syncer
	called := map[string]bool{}
	enter := func(who string) { // takes each lock of the package
		called[who] = true
		s.Disconnect(id, nil)
		s.Undelivered(web)
		s.Forget("vmx-b")
	}
	s = New(Options{
		Shard: testShard, Cache: rows, Metrics: NewMetrics(nil), Log: slog.New(slog.DiscardHandler),
		Describe: func(identity.ID) (Machine, bool) {
			enter("describe")
			return Machine{Group: web, Config: &effective.Group{}}, true
		},
		Generation:         func() uint64 { enter("generation"); return 1 },
		Trouble:            func(identity.ID, fleet.GroupID, string) { enter("trouble") },
		UndeliveredChanged: func(fleet.GroupID) { enter("standing") },
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Connect(id, full{})
		s.Greet(id, full{})
		s.Heard(id, &nstancev1.HealthReport{Files: map[string]*nstancev1.FileStatus{
			"app.env": {State: &nstancev1.FileStatus_Error{Error: "disk full"}},
		}})
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("dead-lock: a function was called under a lock that it takes")
	}
	s.Close()
	_ = rows.Close()
	if len(called) != 4 {
		t.Errorf("called were %v, want all four", called)
	}
}
