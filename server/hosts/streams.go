package hosts

import (
	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Greeted says that the agent of an instance is connected, also when a stream goes on under
// this leader, and whether its host can build node machines. One that can is sent everything
// that is in force, whatever it was sent before.
func (m *Machines) Greeted(id identity.ID, able bool, version string) {
	row, ok := m.opts.Cache.Instance(id)
	switch {
	case !able, ok && !row.Machine.On: // whatever runs on the host, its template has no node machines
		m.Disconnected(id)
		return
	case !ok:
		return
	}
	known := m.open(id, row.Group.Tenant, func(known *machine) {
		known.stream = stream{open: true, version: version}
		known.orders.unsend()
		known.prebuild.sent = false
	})
	known.mu.Lock()
	m.deliver(known)
	known.mu.Unlock()
	m.watchers.tell(known.tenant, id)
}

// Disconnected says that the agent of an instance is not connected any more.
func (m *Machines) Disconnected(id identity.ID) {
	known := m.find(id)
	if known == nil {
		return
	}
	known.mu.Lock()
	known.stream = stream{version: known.stream.version}
	known.mu.Unlock()
	m.book.close(known)
	m.watchers.tell(known.tenant, id)
}

// Wake says that there is room on the stream of an instance again, where there was none.
func (m *Machines) Wake(id identity.ID) {
	if known := m.find(id); known != nil {
		known.mu.Lock()
		defer known.mu.Unlock()
		m.deliver(known)
	}
}

// Status takes what a host reports, of which the last one counts.
func (m *Machines) Status(id identity.ID, status *nstancev1.MachineStatus) {
	known := m.find(id)
	if known == nil {
		return
	}
	if size := proto.Size(status); size > MaxStatus {
		m.opts.Metrics.statuses.WithLabelValues("too_large").Inc()
		m.opts.Log.Warn("machine status dropped", "instance", id, "reason", "it is too large", "bytes", size, "limit", MaxStatus)
		return
	}
	m.opts.Metrics.statuses.WithLabelValues("taken").Inc()
	known.mu.Lock()
	if !known.stream.open {
		known.mu.Unlock()
		return
	}
	before := known.given()
	known.status, known.reportedAt = status, m.opts.Now()
	after := known.given()
	if status.GetCredentialNeeded() && status.GetEpoch() == known.assigned.epoch() {
		known.stream.sent.credential = 0 // what was sent is lost on the host
	}
	known.orders.settle(status, known.reportedAt)
	known.prebuild.settle(status)
	m.deliver(known)
	known.mu.Unlock()
	m.watchers.tell(known.tenant, id)
	if before != after {
		m.opts.Heard(id)
	}
}

// deliver queues what the host lacks, as far as there is room. The caller has the machine's
// lock.
func (m *Machines) deliver(known *machine) {
	for {
		w, ok, err := known.next(m.opts.Now())
		if err != nil {
			m.opts.Log.Error("assignment not sent", "instance", known.id, "error", err)
			return
		}
		if !ok {
			return
		}
		if err := m.opts.Agents().SendWork(known.id, w.message); err != nil {
			m.opts.Log.Debug("machine work not sent", "instance", known.id, "work", w.kind, "reason", err)
			return // the agent comes back, or there will be room
		}
		known.stream.sent = w.then
		if w.done != nil {
			w.done()
		}
		m.opts.Metrics.sent.WithLabelValues(w.kind).Inc()
	}
}
