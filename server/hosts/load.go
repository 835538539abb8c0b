package hosts

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/retry"
)

// readsAtOnce bounds the objects that are read in parallel.
const readsAtOnce = 32

// longestRetry is the longest pause before storage is asked again.
const longestRetry = 10 * time.Second

// Run reads the stored assignments, as soon as it is called, and serves until ctx ends: then
// all watches end. The instances of the shard must be known by then.
func (m *Machines) Run(ctx context.Context) error {
	defer m.opts.Metrics.over()
	defer m.watchers.close()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, longestRetry) {
		err := m.load(ctx)
		if err == nil {
			break
		}
		if m.opts.Over(err) || ctx.Err() != nil {
			return nil
		}
		m.opts.Log.WarnContext(ctx, "reading assignments will be repeated", "retry_in", pause, "error", err)
		if retry.Wait(ctx, pause) != nil {
			return nil
		}
	}
	m.tidyLogs(ctx)
	return nil
}

// load reads all assignments, unless no instance can have one.
func (m *Machines) load(ctx context.Context) error {
	rows := m.opts.Cache.All()
	if slices.ContainsFunc(rows, func(in cache.Instance) bool { return in.Machine.On }) {
		if err := m.readAll(ctx); err != nil {
			return err
		}
	}
	close(m.loaded)
	for _, in := range rows {
		if assigned, _ := m.Node(in.ID); assigned {
			m.opts.Heard(in.ID)
		}
	}
	return nil
}

// readAll reads every assignment of the shard. Only the listing is an error: an object that
// cannot be had now is asked for again until it can.
func (m *Machines) readAll(ctx context.Context) error {
	var reads errgroup.Group
	reads.SetLimit(readsAtOnce)
	var failed error
	for info, err := range objectstore.ListAll(ctx, m.opts.Store, layout.MachinePrefix(m.opts.Shard)) {
		if failed = err; err != nil {
			break
		}
		_, tenant, id, err := layout.ParseMachineKey(info.Key)
		if err != nil {
			m.opts.Log.WarnContext(ctx, "object among the assignments is left alone", "key", info.Key, "error", err)
			continue
		}
		reads.Go(func() error { return m.readUntilDone(ctx, id, tenant) })
	}
	return errors.Join(failed, reads.Wait())
}

// readUntilDone is readOne, repeated until storage answers. The error is that the term is over.
func (m *Machines) readUntilDone(ctx context.Context, id identity.ID, tenant string) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, longestRetry) {
		err := m.readOne(ctx, id, tenant)
		if err == nil || m.opts.Over(err) {
			return err
		}
		m.opts.Log.WarnContext(ctx, "reading an assignment will be repeated", "instance", id, "retry_in", pause, "error", err)
		if err := retry.Wait(ctx, pause); err != nil {
			return err
		}
	}
}

// readOne reads the assignment of an instance, has it sent, and deletes one whose instance is
// gone.
func (m *Machines) readOne(ctx context.Context, id identity.ID, tenant string) error {
	if in, ok := m.opts.Cache.Instance(id); !ok {
		return m.sweep(ctx, id, tenant)
	} else if in.Group.Tenant != tenant || in.State == fleet.Deleted {
		return nil // a deleted one takes it along with its record
	}
	unlock, err := m.writing.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	known := m.open(id, tenant, func(known *machine) { known.pinned = true })
	err = m.read(ctx, known)
	known.mu.Lock()
	known.pinned = false
	if known.damaged != nil {
		err = nil // it was reported, and keeps nobody else waiting
	}
	m.deliver(known)
	known.mu.Unlock()
	m.book.close(known)
	m.watchers.tell(tenant, id)
	return err
}

// sweep deletes an assignment that was left when the record of its instance was deleted. That
// there is no record is asked for once more: one that cannot be read is in no list (S8).
func (m *Machines) sweep(ctx context.Context, id identity.ID, tenant string) error {
	_, err := m.opts.Store.Get(ctx, layout.InstanceKey(m.opts.Shard, tenant, id))
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, objectstore.ErrNotFound):
		return wrap(id, err)
	}
	m.opts.Log.InfoContext(ctx, "deleting assignment", "instance", id, "tenant", tenant, "reason", "the record of its instance is gone")
	return m.Drop(ctx, id, tenant)
}

// Look reads the assignment of an instance that has become known while this server leads, as
// one that was adopted. It returns at once.
func (m *Machines) Look(id identity.ID) {
	in, ok := m.opts.Cache.Instance(id)
	if !ok || !in.Machine.On {
		return
	}
	m.opts.Go(func() {
		if m.wait(m.ctx) != nil {
			return
		}
		_ = m.readUntilDone(m.ctx, id, in.Group.Tenant) // it said why
	})
}
