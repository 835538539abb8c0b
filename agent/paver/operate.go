package paver

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/logs"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/report"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Executor does to the host what operations take. All of it may be repeated.
type Executor interface {
	// Offers are the names of the operations that this host can carry out.
	Offers() []string
	// Refusal says why the policy of the host does not allow an operation (M86); empty: it does.
	Refusal(name string) string
	// Unsupported says why this host cannot carry an operation out; empty: it can.
	Unsupported(r operation.Record) string
	// HostBootID is the boot of the host; empty: it cannot be read.
	HostBootID() string
	// Unit is what the systemd of a machine says of a unit, or that of the host if slot is None.
	Unit(ctx context.Context, slot journal.Slot, unit string) (operation.Unit, error)
	// RestartUnit has it restart a unit, and does not wait for that.
	RestartUnit(ctx context.Context, slot journal.Slot, unit string) error
	// StopMachine stops a machine in order.
	StopMachine(ctx context.Context, slot journal.Slot) error
	// GoDown stops a machine within a grace, and has the host rebooted, or powered off. It may return
	// before the host is down.
	GoDown(ctx context.Context, slot journal.Slot, grace time.Duration, off bool) error
	// Collect returns the logs of the host, and of a machine unless slot is None, without secrets. Among those are the ones given.
	Collect(ctx context.Context, r operation.Record, slot journal.Slot, secrets []string) (logs.Packed, error)
	// SetKeys sets the SSH keys of users of the host for the machine of a slot, and takes those of all others away.
	SetKeys(ctx context.Context, slot journal.Slot, users []*nstancev1.MachineSshUser) (operation.Keys, error)
	// Reset removes all that was ever built.
	Reset(ctx context.Context, j journal.Journal, wipe bool) error
}

// executors say which operations the host offers. An earlier release of the paver offers none.
func executors(e Executor) []*nstancev1.MachineExecutor {
	if e == nil {
		return nil
	}
	return []*nstancev1.MachineExecutor{{Name: "paver", Operations: e.Offers()}}
}

// orders are the operations that the host was asked for.
type orders struct {
	file operation.File
	book operation.Book
	// unreadable is why nothing is known of the operations of before; nil: it is.
	unreadable error
	// asked is the operation that this process has asked for, and retry when to try again.
	asked string
	retry time.Time
	// logs are those that were collected last, and what has become of them.
	logs collected
}

// operationID is the form of an id.
var operationID = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// takeOrder takes an operation in. It is durable before anything is done for it.
func (p *Paver) takeOrder(ctx context.Context, o *nstancev1.MachineOrder) error {
	id, name := o.GetId(), o.GetName()
	if p.opts.Executor == nil {
		return errors.New("an operation is ignored: this process carries none out")
	}
	if !operationID.MatchString(id) || name == "" || !o.GetDeadline().IsValid() {
		return fmt.Errorf("operation %.64q is ignored: it has no proper id, name or deadline", id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, is := p.orders.book.Find(id); is {
		if known.Name != name {
			return fmt.Errorf("operation %s is ignored: it is known as %s, and not as %.63q", id, known.Name, name)
		}
		return nil
	}
	now := p.opts.Now()
	if p.orders.readAgain(now) {
		delete(p.problems, "OperationsUnreadable")
		p.opts.Log.InfoContext(ctx, "operations read again", "path", p.orders.file.Path, "operations", len(p.orders.book.Records), "reason", "the file can be read, or was deleted")
	}
	r := operation.Record{ID: id, Name: name, Parameters: o.GetParameters(), Deadline: o.GetDeadline().AsTime(), TakesLogs: o.GetTakesLogs(), State: operation.Accepted, Taken: now}
	switch waiting := p.orders.book.Waiting(); {
	case p.orders.unreadable != nil: // it may have been done before
		message := "what is known of operations is lost: " + p.orders.unreadable.Error()
		p.orders.book = p.orders.book.With(r.End(operation.Outcome{Failed: true, Reason: operation.ReasonInterrupted, Message: message}, now), now)
		p.tell()
		return nil
	case waiting >= operation.MostWaiting:
		return fmt.Errorf("operation %s is ignored: %d others are not over", id, waiting)
	}
	if err := p.keepOrder(r, now); err != nil {
		return err
	}
	p.opts.Log.InfoContext(ctx, "operation taken", "operation", id, "name", name, "deadline", r.Deadline)
	p.tell()
	return nil
}

// readAgain reads the file of operations again that could not be read, and reports whether it can be now: somebody may have put
// it right, or deleted it. What was said since stays.
func (o *orders) readAgain(now time.Time) bool {
	if o.unreadable == nil {
		return false
	}
	book, err := o.file.Load()
	if o.unreadable = err; err != nil {
		return false
	}
	for _, r := range o.book.Records {
		book = book.With(r, now)
	}
	o.book = book
	return true
}

// cancelOrder notes that an operation is cancelled.
func (p *Paver) cancelOrder(ctx context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, known := p.orders.book.Find(id)
	if !known || r.State.Over() || r.Cancelled {
		return nil
	}
	r.Cancelled = true
	p.opts.Log.InfoContext(ctx, "operation cancelled", "operation", id, "name", r.Name, "reason", "its server has asked for it")
	return p.keepOrder(r, p.opts.Now())
}

// keepOrder makes a record durable, and then known. The caller has the lock.
func (p *Paver) keepOrder(r operation.Record, now time.Time) error {
	next := p.orders.book.With(r, now)
	if err := p.orders.file.Save(next); err != nil {
		return fmt.Errorf("operation %s: %w", r.ID, err)
	}
	p.orders.book = next
	return nil
}

// tell reports the operations as they are by now. The caller has the lock.
func (p *Paver) tell() {
	if p.status == nil {
		return
	}
	now := p.opts.Now()
	s := proto.CloneOf(p.status)
	s.Operations, s.ReportedAt = report.Operations(p.orders.book.Told(now)), timestamppb.New(now)
	report.Fit(s)
	p.report(s)
}

// turn is what came of the operation that comes next.
type turn struct {
	did   bool      // something was done: the host is to be looked at again
	alone bool      // nothing else may be done to the host
	until time.Time // when to look again at the latest; zero: there is no operation
}

// operate makes a step of the operation that comes next. Where machines are to be changed that goes first,
// but for operations which nothing may go beside.
func (p *Paver) operate(ctx context.Context, v transition.View, changing bool) turn {
	p.mu.Lock()
	r, is := p.orders.book.Current()
	p.mu.Unlock()
	if !is || p.opts.Executor == nil {
		return turn{}
	}
	view := p.operationView(r, v)
	view.Unit.Exists = true // until it was looked at
	step := operation.Next(r, view)
	if changing && !step.Alone && !step.Beside {
		return turn{until: view.Now}
	}
	if operation.Looks(r) && (r.State == operation.InProgress || step.Kind != operation.End) {
		if err := p.lookAtUnit(ctx, r, &view); err != nil {
			p.noteWaiting(r, "", err.Error())
			if view.Now.Before(r.Deadline) {
				return turn{until: view.Now.Add(failurePause)}
			}
		}
		step = operation.Next(r, view)
	}
	now := p.opts.Now()
	switch step.Kind {
	case operation.Wait:
		p.noteWaiting(r, operation.ReasonBusy, step.Reason)
		return turn{alone: step.Alone, until: step.Until}
	case operation.Begin:
		r = r.Begin(step.Marks, now)
	case operation.Tell:
		r = r.Tell(now)
	case operation.End:
		r = r.End(step.Outcome, now)
	default:
		return p.perform(ctx, r, step, v)
	}
	return afterRecord(p.record(ctx, r, step), step, now)
}

// errOvertaken is the error about a step that was decided before the operation was cancelled: it is to be decided again.
var errOvertaken = errors.New("the operation was cancelled meanwhile")

// record makes a record durable, and says so. What ends an operation is written whatever was said meanwhile.
func (p *Paver) record(ctx context.Context, r operation.Record, step operation.Step) error {
	p.mu.Lock()
	known, _ := p.orders.book.Find(r.ID)
	overtaken := known.Cancelled && !r.Cancelled && !r.State.Over()
	r.Cancelled = r.Cancelled || known.Cancelled
	var err error
	if !overtaken {
		err = p.keepOrder(r, p.opts.Now())
	}
	p.mu.Unlock()
	if overtaken {
		return errOvertaken
	}
	if err != nil {
		p.opts.Log.ErrorContext(ctx, "operation not written", "operation", r.ID, "error", err)
		p.problem("OperationNotWritten", err.Error())
		return err
	}
	p.solved("OperationNotWritten")
	p.opts.Log.InfoContext(ctx, "operation goes on", "operation", r.ID, "name", r.Name, "step", step.Kind, "state", r.State, "result", r.Reason, "reason", step.Reason)
	return nil
}

// afterRecord is what comes after a record was written, or was not.
func afterRecord(err error, step operation.Step, now time.Time) turn {
	if err != nil && !errors.Is(err, errOvertaken) {
		return turn{alone: step.Alone, until: now.Add(failurePause)}
	}
	return turn{did: true}
}

// noteWaiting says what an operation waits for, which need not be durable.
func (p *Paver) noteWaiting(r operation.Record, reason, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.State != operation.Accepted && reason == operation.ReasonBusy {
		return // what it is in the middle of its marks say
	}
	message = journal.Cut(message)
	if r.Message == message {
		return
	}
	if known, _ := p.orders.book.Find(r.ID); known.Cancelled {
		r.Cancelled = true // since the record was read
	}
	if r.Message = message; r.State == operation.Accepted {
		r.Reason = reason
	}
	p.orders.book = p.orders.book.With(r, p.opts.Now())
	p.tell()
}

// operationView is what is seen without asking a systemd.
func (p *Paver) operationView(r operation.Record, v transition.View) operation.View {
	e := p.opts.Executor
	active := v.Slots[v.Journal.Active]
	view := operation.View{
		Now: p.opts.Now(), HostBootID: e.HostBootID(), Slot: v.Journal.Active, Phase: active.Phase, BootID: active.BootID,
		Refused: e.Refusal(r.Name), Unsupported: e.Unsupported(r), Busy: busy(v),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.inbox.assignment; a != nil {
		view.Machine = a.MachineName
	}
	if p.orders.asked == r.ID {
		view.Sent = true
	}
	view.Retry, view.Stored = p.orders.retry, p.orders.logs.stored(r.ID)
	return view
}

// busy is why no operation may begin: a machine is being built or switched to.
func busy(v transition.View) string {
	t, a := v.Journal.Transition, v.Assignment
	switch {
	case a != nil && a.Epoch > v.Journal.Epoch && a.Mode != assignment.Adopt:
		return fmt.Sprintf("epoch %d is about to be built", a.Epoch)
	case t != nil && !t.Marks.Held && !t.Marks.GaveUp:
		return fmt.Sprintf("epoch %d is in stage %s", t.Epoch, t.Stage)
	}
	return ""
}

// lookAtUnit asks for the unit that an operation is about.
func (p *Paver) lookAtUnit(ctx context.Context, r operation.Record, view *operation.View) error {
	slot, unit := view.Slot, "kubelet.service"
	if r.Name == operation.RestartService {
		unit = r.Service()
		if r.OnHost() {
			slot = journal.None
		}
	}
	if (slot != journal.None || !r.OnHost()) && (view.Phase != journal.Running || view.BootID == "") {
		return nil // there is nothing to ask
	}
	limited, cancel := context.WithTimeout(ctx, unitLimit)
	defer cancel()
	var err error
	view.Unit, err = p.opts.Executor.Unit(limited, slot, unit)
	return err
}

// How long it may take to ask a systemd, to stop a machine, and to reset a host.
const (
	unitLimit    = 20 * time.Second
	machineLimit = 4 * time.Minute
	resetTime    = 15 * time.Minute
	logsLimit    = time.Minute
)

// perform does what a step says, once it is durable that it will.
func (p *Paver) perform(ctx context.Context, r operation.Record, step operation.Step, v transition.View) turn {
	r = r.Send(p.opts.Now())
	if err := p.record(ctx, r, step); err != nil {
		return afterRecord(err, step, p.opts.Now())
	}
	err := p.do(ctx, &r, step, v)
	now := p.opts.Now()
	p.mu.Lock()
	p.orders.asked, p.orders.retry = r.ID, time.Time{}
	if err != nil {
		p.orders.retry = now.Add(failurePause)
	}
	p.mu.Unlock()
	if ctx.Err() != nil {
		return turn{did: true}
	}
	if err != nil {
		p.opts.Log.WarnContext(ctx, "step of an operation failed", "operation", r.ID, "name", r.Name, "step", step.Kind, "error", err, "retry_in", failurePause.String())
		p.noteWaiting(r, "", err.Error())
	}
	return turn{did: true}
}

// do does what a step says. What ends with that is written down.
func (p *Paver) do(ctx context.Context, r *operation.Record, step operation.Step, v transition.View) error {
	e, slot := p.opts.Executor, v.Journal.Active
	limit := machineLimit + r.Grace()
	if makesWayFor(step.Kind) {
		background{p}.halt(ctx, step.Reason)
	}
	switch step.Kind {
	case operation.RestartUnit:
		limit = unitLimit
	case operation.Reset:
		limit = resetTime
	case operation.Collect:
		limit = logsLimit
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch step.Kind {
	case operation.RestartUnit:
		if r.OnHost() {
			slot = journal.None
		}
		return e.RestartUnit(limited, slot, r.Service())
	case operation.StopMachine:
		return e.StopMachine(limited, slot)
	case operation.RestartHost, operation.PowerOff:
		return e.GoDown(limited, slot, r.Grace(), step.Kind == operation.PowerOff)
	case operation.Collect:
		return handover{p}.collect(limited, *r, slot)
	case operation.SetKeys:
		came, err := e.SetKeys(limited, slot, r.SSHKeys())
		if err != nil {
			return err
		}
		*r = r.End(came.Outcome(), p.opts.Now())
		return p.record(ctx, *r, step)
	case operation.Reset:
		if err := e.Reset(limited, v.Journal, r.Wipe()); err != nil {
			return err
		}
		// The assignment stays: what it says is built again. A crash before the end is written down has all
		// of this done again, which changes nothing.
		if err := p.journal.Remove(); err != nil {
			return err
		}
		p.setState(journal.Journal{V: journal.Version})
		*r = r.End(step.Outcome, p.opts.Now())
		return p.record(ctx, *r, step)
	default:
		return fmt.Errorf("step %s of operation %s is none that is carried out", step.Kind, r.ID)
	}
}
