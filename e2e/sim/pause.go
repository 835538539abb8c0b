package sim

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/operatorapi"
	"nstance.dev/server/shard"
)

// pause pauses a group for a while. Between the answer and the request to go on
// nothing may be sent for it.
func (w *world) pause(g groupID, d time.Duration) {
	_, err := ask(w, "pause "+g.String(), nil, func(ctx context.Context, r *shard.Term) (*nstancev1.Pause, error) {
		return operatorapi.Of(r).SetPause(ctx, g.tenant, &nstancev1.SetPauseRequest{
			Scope: "group", Group: g.name, Reason: "simulated", Until: timestamppb.New(time.Now().Add(d + time.Hour)),
		})
	})
	w.told(err, "%s is paused", g)
	if err != nil {
		return
	}
	w.mu.Lock()
	if w.resuming[g] == 0 {
		w.paused[g] = time.Now()
	}
	w.mu.Unlock()
	if pause(w.ctx, d) == nil {
		w.unpause(g)
	}
}

// unpause lets a group go on, however long it takes.
func (w *world) unpause(g groupID) {
	answered := w.resumes(g)
	defer answered()
	for n := 0; ; n++ {
		_, err := ask(w, "unpause "+g.String(), nil, func(ctx context.Context, r *shard.Term) (struct{}, error) {
			return struct{}{}, operatorapi.Of(r).ClearPause(ctx, g.tenant, &nstancev1.ClearPauseRequest{Scope: "group", Group: g.name})
		})
		if isRefusal(err) || pause(w.ctx, time.Second) != nil {
			w.told(err, "%s goes on", g)
			return
		}
	}
}

// resumes notes that a call is made after which a group may go on. Until the call is
// answered it may end a pause as well that is promised meanwhile.
func (w *world) resumes(g groupID) (answered func()) {
	note := func(calls int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.resuming[g] += calls
		delete(w.paused, g)
		w.resumed[g] = time.Now()
	}
	note(1)
	return func() { note(-1) }
}

// forgetPauses notes which pauses end because their deleted group is forgotten: who has
// its name afterwards is another one.
func (w *world) forgetPauses(before, after *groupfile.File) {
	if before == nil || after == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for g := range w.paused {
		entry, _ := before.Group(g.tenant, g.name)
		if _, stays := after.Group(g.tenant, g.name); entry.DeletedAt != nil && !stays {
			delete(w.paused, g)
			w.resumed[g] = time.Now()
		}
	}
}

// unpauseAll ends every pause: also one that nobody was promised.
func (w *world) unpauseAll() {
	for _, g := range w.truth.groupsNow() {
		w.later(func() { w.unpause(g) })
	}
}
