package creation

import (
	"context"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/seed"
	"nstance.dev/server/driver"
)

// Undo removes what a create in flight of an instance has made; there may be none. The
// caller holds the instance's turn, and has had the create marked.
func (cr *Creator) Undo(ctx context.Context, id identity.ID) error {
	if j := cr.reg.job(id); j != nil && cr.reg.Making(id) {
		return cr.undo(ctx, j)
	}
	return nil
}

// undo removes what a create has made that does not go on.
func (cr *Creator) undo(ctx context.Context, j *job) error {
	if err := cr.awaitIdle(ctx, j); err != nil {
		return err
	}
	j.release()
	if _, _, err := cr.machines.Sweep(ctx, driver.Ref{InstanceID: j.request.InstanceID}, 0); err != nil || j.stage < stageUpload {
		return err
	}
	return cr.machines.RemoveISO(ctx, cr.reg.progress(j).at.Node, seed.Volume(cr.opts.ISOStorage, j.request.InstanceID))
}

// awaitIdle waits until nothing is done to the machine of a create any more.
func (cr *Creator) awaitIdle(ctx context.Context, j *job) error {
	if j.upid != "" {
		if err := cr.api.Wait(ctx, j.upid, nil); err != nil && !api.TaskFailed(err) {
			return err
		}
		j.upid = ""
	}
	if !j.unanswered {
		return nil
	}
	for since := cr.opts.Now(); ; {
		m := cr.reg.progress(j).at
		ours, err := cr.settle(ctx, j, m)
		if err != nil || ours {
			j.unanswered = err != nil
			return err
		}
		if cr.opts.Now().Sub(since) > lateClone {
			j.unanswered = false
			return nil
		}
		select {
		case <-time.After(api.LongestPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
