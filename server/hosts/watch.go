package hosts

import (
	"context"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/refusal"
)

// Watch sends what is known of each machine of a tenant, a mark, and then every change and a
// heartbeat, until ctx or the term ends.
func (m *Machines) Watch(ctx context.Context, tenant string, send func(*nstancev1.MachineEvent) error) error {
	one := m.watchers.add(tenant)
	defer m.watchers.remove(one)
	if err := m.wait(ctx); err != nil {
		return err
	}
	m.watchers.take(one) // what has changed until now is in the snapshot
	for _, id := range m.of(tenant) {
		if ev := m.event(id); ev.Machine != nil {
			if err := send(ev); err != nil {
				return err
			}
		}
	}
	if err := send(&nstancev1.MachineEvent{Type: "snapshot_end"}); err != nil {
		return err
	}
	ticker := time.NewTicker(Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := send(&nstancev1.MachineEvent{Type: "heartbeat"}); err != nil {
				return err
			}
		case <-one.wake:
			changed, over := m.watchers.take(one)
			if over {
				return refusal.ErrTermOver
			}
			for _, id := range changed {
				if err := send(m.event(id)); err != nil {
					return err
				}
			}
		}
	}
}

// event says what is known of a machine now.
func (m *Machines) event(id identity.ID) *nstancev1.MachineEvent {
	if known := m.find(id); known != nil {
		if view := known.view(m.opts.Now()); view != nil {
			return &nstancev1.MachineEvent{InstanceId: id.String(), Type: "machine", Machine: view}
		}
	}
	return &nstancev1.MachineEvent{InstanceId: id.String(), Type: "removed"}
}
