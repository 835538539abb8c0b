package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/status"
)

// Options are the surroundings of a Reconciler; all are required, but for Finished.
type Options struct {
	// Client reads from a cache, which has the indexes of [Register], and writes.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Events events.EventRecorder
	Log    *slog.Logger
	Now    func() time.Time
	// Finished hears of each operation that has finished, once as far as it is known; nil: nobody does.
	Finished func(*hostsv1.MachineOperation)
}

// Reconciler looks at one MachineOperation at a time, which its requests name. New makes one; it is safe
// for concurrent use.
type Reconciler struct {
	opts   Options
	ledger ledger
	wakes  chan string

	mu       sync.Mutex
	counted  map[string]time.Time // when the counts of a parent were written last, by its name
	carriers map[string]Carrier   // by the name of the executor
	holds    Holds                // nil: not known yet
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Finished == nil {
		o.Finished = func(*hostsv1.MachineOperation) {}
	}
	return &Reconciler{opts: o, ledger: ledger{names: map[string]object{}}, wakes: make(chan string, 1024), counted: map[string]time.Time{}, carriers: map[string]Carrier{}}
}

var manager = status.FieldManager("hosts-operations")

// shortly is when an operation is looked at again that another one has just overtaken.
const shortly = 200 * time.Millisecond

// carryAgain is when the next step of an operation is made that is not done yet, and offerAgain when it is looked at whether
// somebody offers one: executors of this process may come later.
const (
	carryAgain = 5 * time.Second
	offerAgain = 30 * time.Second
)

// stopWithin is how long who carries an operation out has after its deadline to stop, and to say how far it was.
const stopWithin = 15 * time.Second

// countEvery is how often the counts of children are written at most, where nothing else is new.
const countEvery = time.Second

// Reconcile carries out what comes next for one operation.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if err := r.ledger.open(ctx, r.opts.Live); err != nil {
		return ctrl.Result{}, err
	}
	op := &hostsv1.MachineOperation{}
	if err := r.opts.Client.Get(ctx, request.NamespacedName, op); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.ledger.gone(request.Name, r.opts.Now())
			r.mu.Lock()
			delete(r.counted, request.Name)
			r.mu.Unlock()
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read MachineOperation %s: %w", request.Name, err)
	}
	r.ledger.note(op)
	if op.Spec.MachineRef == nil {
		return r.fanOut(ctx, op)
	}
	return r.single(ctx, op)
}

// single carries out what comes next for an operation on one machine.
func (r *Reconciler) single(ctx context.Context, op *hostsv1.MachineOperation) (ctrl.Result, error) {
	in, m, err := r.observe(ctx, op)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.release(ctx, op, m); err != nil {
		return ctrl.Result{}, err
	}
	done, step, err := r.carried(ctx, op)
	if err != nil || done {
		return step, err
	}
	d := operations.Decide(in, r.opts.Now())
	if d.Delete {
		return ctrl.Result{}, r.remove(ctx, op)
	}
	if d.Executor != "" && d.Status.State == hostsv1.OperationPending {
		if !r.ledger.take(op, limit(in.Parent)) {
			return ctrl.Result{RequeueAfter: shortly}, nil
		}
		if d, err = r.hold(ctx, op, m, d); err != nil {
			return ctrl.Result{}, err
		}
	}
	labels := maps.Clone(op.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[hostsv1.LabelMachine] = string(op.Spec.MachineRef.Name)
	had := labels[hostsv1.LabelExecutor]
	delete(labels, hostsv1.LabelExecutor)
	if d.Executor != "" {
		labels[hostsv1.LabelExecutor] = d.Executor
	}
	if err := r.write(ctx, op, d.Status); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.label(ctx, op, labels); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.claim(ctx, op, d.Executor); err != nil {
		return ctrl.Result{}, err
	}
	if d.Executor == "" && !operations.Finished(d.Status.State) {
		if err := r.settle(ctx, op, had != ""); err != nil {
			return ctrl.Result{}, err
		}
	}
	if in.Busy != "" { // whose object may be gone, and then nobody says that it has ended
		d.After = min(d.After, operations.LostAfter)
	}
	if d.Status.Reason == hostsv1.ReasonNoExecutor && d.After > 0 {
		d.After = min(d.After, offerAgain)
	}
	if step.RequeueAfter > 0 {
		return step, nil
	}
	return ctrl.Result{RequeueAfter: d.After}, nil
}

func limit(p *operations.Parent) int {
	if p == nil {
		return 0
	}
	return p.Limit
}

// settle forgets that an operation may be taken, once it is certain that no label says so.
func (r *Reconciler) settle(ctx context.Context, op *hostsv1.MachineOperation, withdrawn bool) error {
	if !r.ledger.has(op) {
		return nil
	}
	if !withdrawn { // a label that was to be written a moment ago may not be seen yet
		is := &hostsv1.MachineOperation{}
		if err := r.opts.Live.Get(ctx, client.ObjectKeyFromObject(op), is); err != nil {
			return client.IgnoreNotFound(err)
		}
		if is.UID == op.UID && (is.Labels[hostsv1.LabelExecutor] != "" || is.Status.State == hostsv1.OperationInProgress) {
			return nil // it is looked at again when that is seen
		}
	}
	r.ledger.drop(op)
	return nil
}

// write writes a status that says something new, and tells of it. The object is then as it is stored.
func (r *Reconciler) write(ctx context.Context, op *hostsv1.MachineOperation, next hostsv1.MachineOperationStatus) error {
	if equality.Semantic.DeepEqual(op.Status, next) {
		return nil
	}
	was := op.DeepCopy()
	op.Status = next
	err := r.opts.Client.Status().Patch(ctx, op, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), manager)
	if err != nil {
		return fmt.Errorf("write the status of MachineOperation %s: %w", op.Name, err)
	}
	r.tell(ctx, was, op)
	return nil
}

// tell tells what is new of an operation.
func (r *Reconciler) tell(ctx context.Context, was, is *hostsv1.MachineOperation) {
	name := is.Spec.OperationName
	log := r.opts.Log.With("operation", is.Name, "name", name, "state", string(is.Status.State))
	on := "machines"
	if is.Spec.MachineRef != nil {
		on = "HostMachine " + string(is.Spec.MachineRef.Name)
		log = log.With("machine", string(is.Spec.MachineRef.Name))
	}
	if meta.IsStatusConditionTrue(is.Status.Conditions, hostsv1.ConditionFinished) && !meta.IsStatusConditionTrue(was.Status.Conditions, hostsv1.ConditionFinished) {
		r.ledger.note(is)
		r.opts.Finished(is)
		log.InfoContext(ctx, "operation finished", "executor", is.Status.Executor, "reason", is.Status.Reason, "message", is.Status.Message)
		if is.Status.State == hostsv1.OperationComplete {
			r.opts.Events.Eventf(is, nil, corev1.EventTypeNormal, hostsv1.EventOperationComplete, "Finish", "%s of %s is complete", name, on)
		} else {
			r.opts.Events.Eventf(is, nil, corev1.EventTypeWarning, hostsv1.EventOperationFailed, "Finish", "%s of %s failed: %s: %s", name, on, is.Status.Reason, is.Status.Message)
		}
		return
	}
	if meta.IsStatusConditionTrue(is.Status.Conditions, hostsv1.ConditionClaimed) && !meta.IsStatusConditionTrue(was.Status.Conditions, hostsv1.ConditionClaimed) {
		log.InfoContext(ctx, "operation started", "executor", is.Status.Executor, "deadline", is.Status.Deadline.Time, "reason", "its executor has claimed it")
		r.opts.Events.Eventf(is, nil, corev1.EventTypeNormal, hostsv1.EventOperationStarted, "Start", "executor %s has started %s of %s", is.Status.Executor, name, on)
		return
	}
	if was.Status.Reason != is.Status.Reason || was.Status.State != is.Status.State {
		log.InfoContext(ctx, "operation waits", "reason", is.Status.Reason, "message", is.Status.Message)
	}
}

// label writes labels that differ.
func (r *Reconciler) label(ctx context.Context, op *hostsv1.MachineOperation, labels map[string]string) error {
	if maps.Equal(op.Labels, labels) {
		return nil
	}
	was := op.DeepCopy()
	op.Labels = labels
	if err := r.opts.Client.Patch(ctx, op, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), manager); err != nil {
		return fmt.Errorf("label MachineOperation %s: %w", op.Name, err)
	}
	r.opts.Log.InfoContext(ctx, "operation labelled", "operation", op.Name, "executor", labels[hostsv1.LabelExecutor], "was", was.Labels[hostsv1.LabelExecutor], "reason", op.Status.Reason)
	return nil
}

// remove deletes an operation whose time is over, and its children with it.
func (r *Reconciler) remove(ctx context.Context, op *hostsv1.MachineOperation) error {
	err := r.opts.Client.Delete(ctx, op, client.Preconditions{UID: &op.UID}, client.PropagationPolicy("Background"))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete MachineOperation %s: %w", op.Name, err)
	}
	if err == nil {
		r.opts.Log.InfoContext(ctx, "operation deleted", "operation", op.Name, "reason", "its ttlSecondsAfterFinished is over")
	}
	return nil
}

// observe is what a decision about an operation follows from, and its machine; nil: there is none.
func (r *Reconciler) observe(ctx context.Context, op *hostsv1.MachineOperation) (in operations.Input, m *hostsv1.HostMachine, err error) {
	in.Operation, m = op, &hostsv1.HostMachine{}
	switch err := r.opts.Client.Get(ctx, client.ObjectKey{Name: string(op.Spec.MachineRef.Name)}, m); {
	case err == nil:
		in.Machine = machine(m)
		in.Machine.Executors = r.offered(m)
		in.Machine.Hold = holdOf(m, r.opts.Now())
	case client.IgnoreNotFound(err) != nil:
		return in, nil, fmt.Errorf("read HostMachine %s: %w", op.Spec.MachineRef.Name, err)
	default:
		m = nil
	}
	var of hostsv1.MachineOperationList
	if err := r.opts.Client.List(ctx, &of, client.MatchingFields{IndexMachine: string(op.Spec.MachineRef.Name)}, client.UnsafeDisableDeepCopy); err != nil {
		return in, nil, fmt.Errorf("list operations of HostMachine %s: %w", op.Spec.MachineRef.Name, err)
	}
	for i := range of.Items {
		in.Others = append(in.Others, &of.Items[i])
	}
	if in.Parent, err = r.parent(ctx, op); err != nil {
		return in, nil, err
	}
	in.Busy, in.Full = r.ledger.around(op, limit(in.Parent), r.opts.Now())
	return in, m, nil
}

// holdOf is the hold that is in force by what a machine says.
func holdOf(m *hostsv1.HostMachine, now time.Time) operations.Hold {
	var h operations.Hold
	if s := m.Status.Hold; s != nil && s.Until != nil && now.Before(s.Until.Time) {
		h.Reason, h.Until = s.Reason, s.Until.Time
	}
	c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionProvisioned)
	h.Off = h.Reason != "" && c != nil && c.Reason == hostsv1.ReasonInstanceOff
	return h
}

// parent is what is to be known of the operation that another one was made for.
func (r *Reconciler) parent(ctx context.Context, op *hostsv1.MachineOperation) (*operations.Parent, error) {
	if op.Labels[hostsv1.LabelParentUID] == "" {
		return nil, nil
	}
	p := &operations.Parent{} // one that is gone has not begun, and will not
	for _, owner := range op.OwnerReferences {
		if string(owner.UID) != op.Labels[hostsv1.LabelParentUID] {
			continue
		}
		parent := &hostsv1.MachineOperation{}
		if err := r.opts.Client.Get(ctx, client.ObjectKey{Name: owner.Name}, parent); err != nil {
			return p, client.IgnoreNotFound(err)
		}
		if parent.UID == owner.UID && parent.DeletionTimestamp.IsZero() {
			p.Begun, p.Limit = parent.Status.Children != nil, operations.Limit(parent)
			p.Finished = operations.Finished(parent.Status.State)
		}
	}
	return p, nil
}

// machine is what is to be known of a machine.
func machine(m *hostsv1.HostMachine) operations.Machine {
	is := operations.Machine{
		Found: m.DeletionTimestamp.IsZero(), Name: m.Name, UID: string(m.UID), Generation: m.Generation, Paused: m.Spec.Paused, Executors: m.Status.Executors,
	}
	if m.Status.Repave != nil {
		switch stage := m.Status.Repave.Stage; stage {
		case "Retire", "Boot", "Join":
			is.Repaving = stage
		}
	}
	return is
}

var errForeign = errors.New("another object has the name of an operation of the selector")
