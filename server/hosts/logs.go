package hosts

import (
	"context"
	"errors"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/hostlogs"
)

// collectLogs is the operation that hands logs over.
const collectLogs = "collectLogs"

// sweepLogs is how often logs are looked for that were kept for long enough.
const sweepLogs = time.Hour

// storeLogsAgain is how long logs that were stored are not stored again, however often a host sends them. One that was told
// nothing sends them after a minute.
const storeLogsAgain = 30 * time.Second

// Logs keep what hosts hand over. [hostlogs.Keeper] does.
type Logs interface {
	// Put stores logs and returns the key of their object. An error that matches [hostlogs.ErrRefused] says that they never will be.
	Put(ctx context.Context, tenant string, id identity.ID, operation string, content []byte) (key string, err error)
	// Sweep deletes what was kept for long enough, and returns how many are left.
	Sweep(ctx context.Context) (left int, err error)
}

// Logs takes logs of a host, if they were asked for. It does not wait: the host is told when they are stored, and sends them again if it is
// told nothing.
func (m *Machines) Logs(id identity.ID, l *nstancev1.MachineLogs) {
	known := m.find(id)
	if known == nil {
		return
	}
	known.mu.Lock()
	o := known.orders.find(l.GetOperationId())
	wanted := o != nil && o.message.GetName() == collectLogs && !o.storing && m.opts.Now().Sub(o.storedAt) >= storeLogsAgain
	if wanted {
		o.storing = true
	}
	known.mu.Unlock()
	if !wanted {
		m.opts.Log.Debug("logs of a host ignored", "instance", id, "operation", printableID(l.GetOperationId()), "reason", "they were not asked for, are being stored, or were just now")
		return
	}
	m.opts.Go(func() { m.storeLogs(known, o, l.GetContent()) })
}

// storeLogs stores logs, and has their host told.
func (m *Machines) storeLogs(known *machine, o *order, content []byte) {
	operation := o.message.GetId()
	key, err := m.opts.Logs.Put(m.ctx, known.tenant, known.id, operation, content)
	known.mu.Lock()
	defer known.mu.Unlock()
	o.storing = false
	switch {
	case errors.Is(err, hostlogs.ErrRefused):
		o.logs, o.logsSent = &nstancev1.MachineLogsStored{OperationId: operation, Refused: err.Error()}, false
		m.opts.Log.Warn("logs of a host refused", "instance", known.id, "tenant", known.tenant, "operation", operation, "error", err)
	case err != nil:
		if !m.opts.Over(err) {
			m.opts.Log.Warn("logs of a host not stored; it will send them again", "instance", known.id, "tenant", known.tenant, "operation", operation, "error", err)
		}
		return
	default:
		o.storedAt = m.opts.Now()
		o.logs, o.logsSent = &nstancev1.MachineLogsStored{OperationId: operation, Key: key}, false
	}
	m.deliver(known)
}

// tidyLogs deletes old logs now and then, until ctx ends. A leader that has seen no host lists nothing: a shard without host machines
// costs nothing. One whose last host is gone goes on until no logs are left.
func (m *Machines) tidyLogs(ctx context.Context) {
	ticker := time.NewTicker(sweepLogs)
	defer ticker.Stop()
	perhaps := false // there are logs of hosts that are gone
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		hosts := slices.ContainsFunc(m.opts.Cache.All(), func(in cache.Instance) bool { return in.Machine.On })
		if !hosts && !perhaps {
			continue
		}
		left, err := m.opts.Logs.Sweep(ctx)
		if err != nil {
			if !m.opts.Over(err) && ctx.Err() == nil {
				m.opts.Log.WarnContext(ctx, "old logs of hosts not looked for", "retry_in", sweepLogs.String(), "error", err)
			}
			continue
		}
		perhaps = hosts || left > 0
	}
}

// printableID cuts an id that a host says down to what may stand in a log.
func printableID(id string) string { return id[:min(len(id), 64)] }
