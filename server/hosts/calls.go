package hosts

import (
	"context"
	"errors"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/refusal"
)

// Put stores an assignment for an instance, durably, and has it sent to its host. A repeat
// changes nothing but the credential. The instance is one of the caller's tenant.
func (m *Machines) Put(ctx context.Context, in cache.Instance, req *nstancev1.PutAssignmentRequest) error {
	a := req.GetAssignment()
	err := check(a)
	if err == nil {
		err = checkCredential(req.Credential, a, m.opts.Now())
	}
	if err != nil {
		return m.answer("put", refused, err)
	}
	known, done, err := m.turn(ctx, in, a.Mode == nstancev1.MachineMode_MACHINE_MODE_RESET)
	if err != nil {
		return m.answer("put", refused, err)
	}
	defer done()
	what, err := m.change(known, func(stored *assignment) (*assignment, verdict, error) {
		what, err := decide(stored, a, req.ExpectedEpoch)
		if err != nil || what == repeated {
			return stored, what, err
		}
		rec := layout.MachineRecord{InstanceID: in.ID, Tenant: in.Group.Tenant}
		if stored != nil {
			rec = stored.rec // with what a newer version may have written there
		}
		rec.At, rec.Confirmed = layout.At(m.opts.Now()), nil
		next, err := newAssignment(a, rec)
		return next, what, err
	})
	if err != nil {
		return m.answer("put", what, err)
	}
	known.mu.Lock()
	renewed := known.takeCredential(req.Credential)
	m.deliver(known)
	known.mu.Unlock()
	if what == accepted || renewed {
		m.opts.Log.InfoContext(ctx, "assignment taken", "instance", in.ID, "tenant", in.Group.Tenant, "group", in.Group.Name,
			"machine", a.MachineName, "epoch", a.Epoch, "mode", a.Mode.String(), "configuration", a.GetConfiguration().GetName(),
			"version", a.GetConfiguration().GetVersion(), "stored", what == accepted, "credential", req.Credential.GetSequence(),
			"reason", "its operator has put it")
		m.changed(known)
	}
	return m.answer("put", what, nil)
}

// Delete forgets the assignment of an instance and its credential. The host goes on with what
// it has.
func (m *Machines) Delete(ctx context.Context, in cache.Instance, req *nstancev1.DeleteAssignmentRequest) error {
	known, done, err := m.turn(ctx, in, true)
	if err != nil {
		return m.answer("delete", refused, err)
	}
	defer done()
	what, err := m.change(known, func(stored *assignment) (*assignment, verdict, error) {
		if stored == nil {
			return nil, repeated, nil
		}
		if want := req.ExpectedEpoch; want != nil && *want != stored.epoch() {
			return nil, refused, refusal.New(refusal.Aborted, "EPOCH_CHANGED", "expected_epoch: the stored epoch is %d, and not %d", stored.epoch(), *want)
		}
		return nil, accepted, nil
	})
	if err == nil && what == accepted {
		m.opts.Log.InfoContext(ctx, "assignment deleted", "instance", in.ID, "tenant", in.Group.Tenant, "group", in.Group.Name,
			"reason", "its operator has deleted it")
		m.changed(known)
	}
	return m.answer("delete", what, err)
}

// Confirm notes, durably, that the machine of an assignment has joined, and has its host told.
func (m *Machines) Confirm(ctx context.Context, in cache.Instance, req *nstancev1.ConfirmNodeRequest) error {
	if err := checkConfirmation(req); err != nil {
		return m.answer("confirm", refused, err)
	}
	known, done, err := m.turn(ctx, in, true)
	if err != nil {
		return m.answer("confirm", refused, err)
	}
	defer done()
	what, err := m.change(known, func(stored *assignment) (*assignment, verdict, error) {
		switch {
		case stored == nil:
			return nil, refused, refusal.New(refusal.NotFound, "NO_ASSIGNMENT", "instance %q has no assignment", in.ID)
		case stored.epoch() != req.Epoch:
			return nil, refused, refusal.New(refusal.FailedPrecondition, "EPOCH_CHANGED", "epoch: the stored epoch is %d, and not %d", stored.epoch(), req.Epoch)
		case stored.rec.Confirmed != nil && stored.rec.Confirmed.NodeUID == req.NodeUid && stored.rec.Confirmed.BootID == req.BootId:
			return stored, repeated, nil
		}
		next := *stored
		next.rec.Confirmed = &layout.NodeConfirmation{NodeUID: req.NodeUid, BootID: req.BootId, At: layout.At(m.opts.Now())}
		return &next, accepted, nil
	})
	if err == nil && what == accepted {
		known.mu.Lock()
		m.deliver(known)
		known.mu.Unlock()
		m.opts.Log.InfoContext(ctx, "node confirmed", "instance", in.ID, "tenant", in.Group.Tenant, "group", in.Group.Name,
			"epoch", req.Epoch, "node_uid", req.NodeUid, "boot_id", req.BootId, "reason", "its operator has seen the Node of the machine")
		m.changed(known)
	}
	return m.answer("confirm", what, err)
}

func checkConfirmation(req *nstancev1.ConfirmNodeRequest) error {
	for _, f := range []struct{ name, value string }{{"node_uid", req.NodeUid}, {"boot_id", req.BootId}} {
		if f.value == "" || len(f.value) > maxUID {
			return refusal.New(refusal.InvalidArgument, "INVALID_CONFIRMATION", "%s: it must have 1 to %d characters", f.name, maxUID)
		}
	}
	return nil
}

// turn waits until the assignments are known and nobody else writes that of the instance, and
// keeps what is known of it until done is called. It refuses where there may be none; a
// leaving instance may have one where leaving says so.
func (m *Machines) turn(ctx context.Context, in cache.Instance, leaving bool) (known *machine, done func(), err error) {
	if err := m.wait(ctx); err != nil {
		return nil, nil, err
	}
	unlock, err := m.writing.Lock(ctx, in.ID)
	if err != nil {
		return nil, nil, err
	}
	if err := m.mayHave(in.ID, leaving); err != nil {
		unlock()
		return nil, nil, err
	}
	known = m.open(in.ID, in.Group.Tenant, func(known *machine) { known.pinned = true })
	return known, func() {
		known.mu.Lock()
		known.pinned = false
		known.mu.Unlock()
		if m.find(in.ID) != known { // its instance has gone meanwhile
			m.learn(known, nil, "")
		}
		m.book.close(known)
		unlock()
	}, nil
}

// mayHave reports why an instance cannot have an assignment.
func (m *Machines) mayHave(id identity.ID, leaving bool) error {
	in, ok := m.opts.Cache.Instance(id)
	switch {
	case !ok || in.State == fleet.Deleted:
		return refusal.New(refusal.NotFound, "NOT_FOUND", "instance %q not found", id)
	case !in.Machine.On:
		return refusal.New(refusal.FailedPrecondition, "NO_NODE_MACHINE",
			"instance %q was made from a template without node machines: set machine.enabled in its template and replace it", id)
	case in.RegisteredAt.IsZero():
		return refusal.New(refusal.FailedPrecondition, "NOT_REGISTERED", "the agent of instance %q has not registered yet", id)
	case in.State.Leaving() && !leaving:
		return refusal.New(refusal.FailedPrecondition, "INSTANCE_LEAVING", "instance %q is to be deleted: nothing more is built on it", id)
	}
	return nil
}

// changed tells whom it concerns that another assignment, confirmation or credential counts.
func (m *Machines) changed(known *machine) {
	m.watchers.tell(known.tenant, known.id)
	m.opts.Heard(known.id)
}

// answer counts a call, and says why it was not carried out.
func (m *Machines) answer(call string, what verdict, err error) error {
	var already *refusal.Error
	switch {
	case err == nil && what == repeated:
		m.opts.Metrics.called(call, "repeated")
	case err == nil:
		m.opts.Metrics.called(call, "stored")
	case errors.As(err, &already), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		m.opts.Metrics.called(call, "refused")
	default:
		m.opts.Metrics.called(call, "failed")
		m.opts.Over(err)
		return refusal.Storage(err, layout.ErrUnreadable, layout.ErrNewer, objectstore.ErrNotFound)
	}
	return err
}
