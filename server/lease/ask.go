package lease

import (
	"context"
	"errors"
	"time"
)

// ErrCannotAsk says that this server has no means yet to ask any other, such as
// the certificate of the authority by which it would know it. It is no sign
// that the leader is gone.
var ErrCannotAsk = errors.New("other servers can't be asked yet")

// ask observes the lock by what the leader says of it. A version that was not
// seen before counts as one that is seen in storage: the leader had stored it
// before it answered. One that was seen before prolongs nothing.
func (e *Elector) ask(ctx context.Context, limit time.Duration) error {
	callCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seen := e.sight.seen.doc
	doc, err := e.opts.Ask(callCtx, seen.LeaderAddr)
	if err == nil {
		err = e.sight.plausible(doc)
	}
	if err != nil {
		if ctx.Err() == nil && e.sight.unanswered(err, e.opts.Elapsed()) {
			e.opts.Log.InfoContext(ctx, "leader does not answer, the lock is read from storage",
				"leader", seen.LeaderID, "address", seen.LeaderAddr, "error", err)
		}
		return err
	}
	if e.sight.answered() {
		e.opts.Log.InfoContext(ctx, "leader answers", "leader", doc.LeaderID, "address", doc.LeaderAddr)
	}
	if doc.Term > seen.Term || doc.LastUpdated.After(seen.LastUpdated) {
		e.see(ctx, observation{doc: doc, heard: true})
		return nil
	}
	e.setProblem(nil)
	return nil
}
