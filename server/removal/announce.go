package removal

import (
	"context"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
	"nstance.dev/server/retry"
)

// Announce tells watchers that an instance is going to be deleted, once no
// load balancer sends it new work.
func (r *Remover) Announce(id identity.ID) {
	if !r.opts.Balancers.Behind(id) {
		r.opts.Announce(id, "pending_deletion")
		return
	}
	r.opts.Go(func() {
		r.leaveBalancers(r.ctx, id, 0)
		if r.ctx.Err() == nil {
			r.opts.Announce(id, "pending_deletion")
		}
	})
}

// leaveBalancers takes an instance from behind its load balancers, as far as they
// answer in time, before anything else is done to remove it.
func (r *Remover) leaveBalancers(ctx context.Context, id identity.ID, extra time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Groups.Config().Server.RequestTimeout.Std()+extra)
	defer cancel()
	r.opts.Balancers.Leave(ctx, id)
}

// admit waits until a delete may be sent in a group. Its token is taken last:
// those who waited for the end of a pause go on at the pace of the bucket (S21).
func (r *Remover) admit(ctx context.Context, group fleet.GroupID) error {
	for {
		for r.opts.DeletesBlocked(group) {
			if err := retry.Wait(ctx, time.Second); err != nil {
				return err
			}
		}
		if err := r.opts.Provider.WaitDelete(ctx, group); err != nil {
			return err
		}
		if !r.opts.DeletesBlocked(group) {
			return nil
		}
	}
}
