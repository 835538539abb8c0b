package hosts

import (
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/refusal"
)

const (
	// maxOrders is how many operations of a host may not be over.
	maxOrders = 16
	// sendOrderAgain is how long after it was sent an operation is sent again that its host does not
	// report, when something is heard of the host or asked of it.
	sendOrderAgain = 10 * time.Second
	// settleAfter is how long after its deadline an operation is forgotten that its host says nothing of.
	settleAfter = 24 * time.Hour
)

// order is an operation that a host was asked for, and that is not known to be over.
type order struct {
	message   *nstancev1.MachineOrder
	at        time.Time // when it was taken
	cancelled bool      // it is not to begin
	// Of the stream of the agent:
	sentAt     time.Time // zero: it is to be sent
	cancelSent bool
	// adopted: another leader has sent it, so this one does not.
	adopted bool
	// Of one that hands logs over:
	storing  bool                         // logs have come, and are being stored
	storedAt time.Time                    // when some were stored last
	logs     *nstancev1.MachineLogsStored // what has become of them; nil: none have come
	logsSent bool
}

// orders are the operations of a host that are not known to be over, in the order in which they came.
type orders []*order

// hostView is what is known of a host that is asked for an operation.
type hostView struct {
	id     identity.ID
	open   bool // a stream of its agent is
	status *nstancev1.MachineStatus
}

// OrderRequest asks for an operation that a host carries out.
type OrderRequest struct {
	ID       string // made by the caller; the same one again is the same operation
	Name     string
	Params   map[string]string
	Deadline time.Time
}

// errNotConnected is the refusal of an operation whose host cannot be told.
func errNotConnected(id identity.ID) error {
	return refusal.New(refusal.FailedPrecondition, "NOT_CONNECTED", "the agent of instance %q is not connected, or has no paver", id)
}

// take notes an operation to be sent, and returns what is known of it.
func (all *orders) take(req OrderRequest, h hostView, now time.Time) (status *nstancev1.OperationStatus, taken bool, err error) {
	exists := refusal.New(refusal.AlreadyExists, "OPERATION_EXISTS", "id: operation %q is another one; use a new id", req.ID)
	if r := reportOf(h.status, req.ID); r != nil {
		if r.GetName() != req.Name {
			return nil, false, exists
		}
		return statusOf(h.id, r, all.find(req.ID)), false, nil
	}
	if o := all.find(req.ID); o != nil {
		if o.message.GetName() != req.Name || !maps.Equal(o.message.GetParameters(), req.Params) {
			return nil, false, exists
		}
		return statusOf(h.id, nil, o), false, nil
	}
	switch {
	case !req.Deadline.After(now):
		return nil, false, refusal.New(refusal.InvalidArgument, "INVALID_OPERATION", "deadline: it has passed")
	case !h.open:
		return nil, false, errNotConnected(h.id)
	case h.status == nil:
		return nil, false, refusal.New(refusal.FailedPrecondition, "NOT_REPORTED", "the host of instance %q has not said which operations it offers", h.id)
	case !offers(h.status, req.Name):
		return nil, false, refusal.New(refusal.FailedPrecondition, "OPERATION_NOT_OFFERED", "the host of instance %q does not offer operation %q", h.id, req.Name)
	case len(*all) >= maxOrders:
		return nil, false, refusal.New(refusal.FailedPrecondition, "TOO_MANY_OPERATIONS", "%d operations of instance %q are not over; wait for one", len(*all), h.id)
	}
	o := &order{at: now, message: &nstancev1.MachineOrder{
		Id: req.ID, Name: req.Name, Parameters: maps.Clone(req.Params), Deadline: timestamppb.New(req.Deadline), TakesLogs: true,
	}}
	*all = append(*all, o)
	return statusOf(h.id, nil, o), true, nil
}

// offers reports whether a host says that it carries operations of a name out.
func offers(s *nstancev1.MachineStatus, name string) bool {
	for _, e := range s.GetExecutors() {
		for _, one := range e.GetOperations() {
			if one == name {
				return true
			}
		}
	}
	return false
}

// reportOf is what a host says of an operation; nil: nothing.
func reportOf(s *nstancev1.MachineStatus, id string) *nstancev1.MachineOperationReport {
	for _, r := range s.GetOperations() {
		if r.GetId() == id {
			return r
		}
	}
	return nil
}

// find returns an operation that was asked for; nil: it was not, or is over.
func (all orders) find(id string) *order {
	for _, o := range all {
		if o.message.GetId() == id {
			return o
		}
	}
	return nil
}

// settle forgets the operations that the host says are over, and those that can be no more. One that it
// says nothing of is sent again: it may have been lost on its way.
func (all *orders) settle(s *nstancev1.MachineStatus, now time.Time) {
	left := (*all)[:0]
	for _, o := range *all {
		r := reportOf(s, o.message.GetId())
		if over(r) || !now.Before(o.message.GetDeadline().AsTime().Add(settleAfter)) {
			continue
		}
		if r == nil && now.Sub(o.sentAt) >= sendOrderAgain {
			o.sentAt, o.cancelSent, o.logsSent = time.Time{}, false, false
		}
		left = append(left, o)
	}
	clear((*all)[len(left):])
	*all = left
}

// adopt notes an operation that another leader has sent.
func (all *orders) adopt(r *nstancev1.MachineOperationReport, now time.Time) *order {
	o := &order{at: now, sentAt: now, adopted: true, message: &nstancev1.MachineOrder{Id: r.GetId(), Name: r.GetName(), Deadline: timestamppb.New(now)}}
	*all = append(*all, o)
	return o
}

func over(r *nstancev1.MachineOperationReport) bool {
	switch r.GetState() {
	case nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_COMPLETE, nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_FAILED:
		return true
	default:
		return false
	}
}

// unsend has all operations sent again, as on a new stream.
func (all orders) unsend() {
	for _, o := range all {
		o.sentAt, o.cancelSent, o.logsSent = time.Time{}, false, false
	}
}

// next is the next message about an operation that the host lacks, its kind in metrics, and what is to be called
// once it is queued; nil: it lacks none.
func (all orders) next(now time.Time) (message *nstancev1.MachineWork, kind string, queued func()) {
	for _, o := range all {
		switch {
		case o.sentAt.IsZero() && !o.adopted:
			message = &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Operation{Operation: o.message}}
			return message, "operation", func() { o.sentAt = now }
		case o.cancelled && !o.cancelSent:
			message = &nstancev1.MachineWork{Work: &nstancev1.MachineWork_CancelOperation{CancelOperation: &nstancev1.MachineOrderCancel{Id: o.message.GetId()}}}
			return message, "cancellation", func() { o.cancelSent = true }
		case o.logs != nil && !o.logsSent:
			message = &nstancev1.MachineWork{Work: &nstancev1.MachineWork_LogsStored{LogsStored: o.logs}}
			return message, "logs", func() { o.logsSent = true }
		}
	}
	return nil, "", nil
}

// states are those of operations as hosts say them.
var states = map[nstancev1.MachineOperationState]nstancev1.OperationState{
	nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_ACCEPTED:    nstancev1.OperationState_OPERATION_STATE_PENDING,
	nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_IN_PROGRESS: nstancev1.OperationState_OPERATION_STATE_IN_PROGRESS,
	nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_COMPLETE:    nstancev1.OperationState_OPERATION_STATE_COMPLETE,
	nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_FAILED:      nstancev1.OperationState_OPERATION_STATE_FAILED,
}

// statusOf is what callers are told of an operation: by what its host says, or by what was asked for.
func statusOf(id identity.ID, r *nstancev1.MachineOperationReport, o *order) *nstancev1.OperationStatus {
	out := &nstancev1.OperationStatus{InstanceId: id.String(), State: nstancev1.OperationState_OPERATION_STATE_PENDING}
	if o != nil {
		out.Id, out.Name, out.StartedAt, out.Deadline = o.message.GetId(), o.message.GetName(), timestamppb.New(o.at), o.message.GetDeadline()
	}
	if r != nil {
		out.Id, out.Name, out.State, out.Reason, out.Message, out.Results = r.GetId(), r.GetName(), states[r.GetState()], r.GetReason(), r.GetMessage(), r.GetResults()
		out.StartedAt, out.FinishedAt = r.GetStartedAt(), r.GetFinishedAt()
	}
	return out
}
