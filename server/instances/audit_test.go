package instances

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/lease"
	"nstance.dev/server/objectstore/memory"
)

// TestS1_TheAuditWarnsOfWhatWentWrong, and ends the term of a leader that was superseded.
func TestS1_TheAuditWarnsOfWhatWentWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r, id := started(t)
		var log bytes.Buffer
		var over error
		r.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		r.opts.Over = func(err error) bool {
			if errors.Is(err, lease.ErrSuperseded) {
				over = err
			}
			return over != nil
		}
		ctx, end := context.WithCancel(r.ctx)
		done := make(chan struct{})
		go func() { r.audit(ctx); close(done) }()
		pass := func(d time.Duration, warnings int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if n := strings.Count(log.String(), "records not compared"); n != warnings {
				t.Errorf("%d warnings so far, want %d: %s", n, warnings, log.String())
			}
		}
		pass(firstAudits[0], 0)
		a.store.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Before: errors.New("no answer")} })
		pass(firstAudits[1], 1)
		a.store.SetFaults(nil)
		rec, etag, _ := r.records.stored(id)
		rec.Term = 9
		data, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.store.PutIfMatch(t.Context(), rec.Key(), data, etag); err != nil {
			t.Fatal(err)
		}
		if pass(auditInterval, 1); over == nil {
			t.Error("its term goes on")
		}
		end()
		<-done
	})
}
