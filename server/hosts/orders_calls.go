package hosts

import (
	"context"
	"iter"
	"regexp"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
	"nstance.dev/server/refusal"
)

var orderName = regexp.MustCompile(`^([a-z][A-Za-z0-9]{0,62}|[a-z0-9.-]{1,190}/[A-Za-z0-9._-]{1,62})$`)

// check reports what is wrong with a request. Whether its parameters are right the host judges.
func (r OrderRequest) check(now time.Time) error {
	field, why := "", ""
	switch {
	case !layout.ValidOperationID(r.ID):
		field, why = "id", "it must have 1 to 64 lower-case letters, digits and hyphens"
	case !orderName.MatchString(r.Name):
		field, why = "name", "it is no name of an operation"
	case r.Deadline.IsZero():
		field, why = "deadline", "it is missing"
	case r.Deadline.Sub(now) > longestOperation:
		field, why = "deadline", "it is more than a day ahead"
	case len(r.Params) > maxParams:
		field, why = "parameters", "there are too many"
	}
	for key, value := range r.Params {
		if len(key) > maxParamKey || len(value) > maxParamValue {
			field, why = "parameters", "one of them is too long"
		}
	}
	if field == "" {
		return nil
	}
	return refusal.New(refusal.InvalidArgument, "INVALID_OPERATION", "%s: %s", field, why)
}

// Order has the host of an instance carry an operation out, and returns what is known of it. It is kept
// in memory alone: its host makes it durable, and knows it by its id. The instance is one of the
// caller's tenant.
func (m *Machines) Order(ctx context.Context, in cache.Instance, req OrderRequest) (*nstancev1.OperationStatus, error) {
	now := m.opts.Now()
	err := req.check(now)
	if err == nil {
		err = m.mayHave(in.ID, false)
	}
	if err != nil {
		return nil, m.answerOrder("start", err)
	}
	known := m.find(in.ID)
	if known == nil {
		return nil, m.answerOrder("start", errNotConnected(in.ID))
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	known.orders.settle(known.status, now)
	status, taken, err := known.orders.take(req, hostView{known.id, known.stream.open, known.status}, now)
	if err != nil {
		return nil, m.answerOrder("start", err)
	}
	m.deliver(known)
	if taken {
		m.orderOf.note(req.ID, in.ID)
		m.opts.Log.InfoContext(ctx, "operation of a host taken", "operation", req.ID, "name", req.Name, "instance", in.ID, "tenant", in.Group.Tenant,
			"group", in.Group.Name, "deadline", req.Deadline, "reason", "its operator has asked for it")
	}
	return status, m.answerOrder("start", nil)
}

// Operation returns an operation of a tenant that a host was asked for.
func (m *Machines) Operation(tenant, id string) (*nstancev1.OperationStatus, error) {
	for known := range m.ordered(tenant, id) {
		known.mu.Lock()
		r, o := reportOf(known.status, id), known.orders.find(id)
		if o == nil && r.GetName() == collectLogs && !over(r) { // its operator waits for the logs, whichever leader has asked for them
			known.orders.adopt(r, m.opts.Now())
		}
		known.mu.Unlock()
		if r != nil || o != nil {
			m.orderOf.note(id, known.id)
			return statusOf(known.id, r, o), m.answerOrder("get", nil)
		}
	}
	return nil, m.answerOrder("get", refusal.New(refusal.NotFound, "NOT_FOUND", "operation %q not found", id))
}

// CancelOrder says that nobody wants an operation of a host any more. One that its host has begun goes on.
func (m *Machines) CancelOrder(ctx context.Context, tenant, id string) (*nstancev1.OperationStatus, error) {
	for known := range m.ordered(tenant, id) {
		if status := m.cancel(ctx, known, id); status != nil {
			return status, m.answerOrder("cancel", nil)
		}
	}
	return nil, m.answerOrder("cancel", refusal.New(refusal.NotFound, "NOT_FOUND", "operation %q not found", id))
}

// ordered are the machines of a tenant that may have an operation, the one that it was found at last before all others.
func (m *Machines) ordered(tenant, id string) iter.Seq[*machine] {
	return func(yield func(*machine) bool) {
		last, noted := m.orderOf.at(id)
		if known := m.find(last); noted && known != nil && known.tenant == tenant && !yield(known) {
			return
		}
		for _, instance := range m.of(tenant) {
			if known := m.find(instance); known != nil && (!noted || instance != last) && !yield(known) {
				return
			}
		}
	}
}

// cancel cancels an operation of a machine; nil: it has none of the id.
func (m *Machines) cancel(ctx context.Context, known *machine, id string) *nstancev1.OperationStatus {
	known.mu.Lock()
	defer known.mu.Unlock()
	r, o := reportOf(known.status, id), known.orders.find(id)
	switch {
	case r == nil && o == nil:
		return nil
	case over(r):
		return statusOf(known.id, r, o)
	case o == nil: // another leader has sent it
		o = known.orders.adopt(r, m.opts.Now())
	}
	if !o.cancelled {
		o.cancelled = true
		m.opts.Log.InfoContext(ctx, "operation of a host cancelled", "operation", id, "name", o.message.GetName(), "instance", known.id, "tenant", known.tenant,
			"reason", "its operator has asked for it")
	}
	m.deliver(known)
	return statusOf(known.id, r, o)
}

// answerOrder counts a call.
func (m *Machines) answerOrder(call string, err error) error {
	if err != nil {
		m.opts.Metrics.operated(call, "refused")
		return err
	}
	m.opts.Metrics.operated(call, "done")
	return nil
}
