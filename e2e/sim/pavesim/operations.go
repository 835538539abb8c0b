package pavesim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	controllers "nstance.dev/operator/controllers/hosts/operations"
	"nstance.dev/operator/hosts/holds"
	"nstance.dev/operator/hosts/operations"
	"nstance.dev/operator/hosts/orders"
	"nstance.dev/operator/hosts/power"
)

// operations makes the controller of operations, which has hosts carry out what their pavers offer.
func (p *process) operations(cached, live client.Client, log *slog.Logger) reconcile.Reconciler {
	connected := func() bool { return p.stream != nil && !p.stream.Over() }
	r := controllers.New(controllers.Options{Client: cached, Live: live, Events: p, Log: log, Now: time.Now})
	r.Hold(&holds.Holds{Shard: func(string) (holds.Shard, bool) { return server{p}, connected() }, Now: time.Now})
	r.Carry(hostsv1.ExecutorPaver, &orders.Relay{
		Shards: &power.Switch{Shard: func(string) (power.Shard, bool) { return server{p}, connected() }, Now: time.Now}, Drains: undrained{}, Now: time.Now,
	})
	return r
}

// undrained are the drains of operations that ask for none.
type undrained struct{}

// Drained implements orders.Drainer.
func (undrained) Drained(context.Context, *hostsv1.MachineOperation, *hostsv1.HostMachine) (bool, string, error) {
	return true, "", nil
}

// End implements orders.Drainer.
func (undrained) End(*hostsv1.MachineOperation, time.Time) {}

// concernsOperations has the operations looked at that one has to do with: itself, its parent, the others of that, and
// the unfinished ones of its machine.
func (p *process) concernsOperations(op *hostsv1.MachineOperation) {
	p.add(ofOperation, op.Name, 0)
	for _, owner := range op.OwnerReferences {
		p.add(ofOperation, owner.Name, 0)
		for _, other := range objects.Known[*hostsv1.MachineOperation](p.cache) {
			if metav1.IsControlledBy(other, &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{UID: owner.UID}}) && !operations.Finished(other.Status.State) {
				p.add(ofOperation, other.Name, 0)
			}
		}
	}
	if op.Spec.MachineRef != nil {
		p.unfinished(string(op.Spec.MachineRef.Name))
	}
}

// unfinished has the unfinished operations of a machine looked at.
func (p *process) unfinished(machine string) {
	for _, op := range objects.Known[*hostsv1.MachineOperation](p.cache) {
		if op.Spec.MachineRef != nil && string(op.Spec.MachineRef.Name) == machine && !operations.Finished(op.Status.State) {
			p.add(ofOperation, op.Name, 0)
		}
	}
}

// toOperations does what an event says to operations.
func (w *world) toOperations(e sim.Event) {
	op := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: e.Args[0]}}
	if e.Verb == "cancel" {
		w.notef("user: cancel %s: %v", op.Name, w.api.Delete("user", op, nil))
		return
	}
	op.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	op.Spec.OperationName = e.Args[2]
	if e.Verb == "ask" {
		op.Spec.MachineRef = &hostsv1.MachineReference{Name: hostsv1.Label(e.Args[1])}
	} else {
		most := int32(argument(e, 1)) //nolint:gosec // a plan has small numbers
		op.Spec.MachineSelector, op.Spec.MaxConcurrent = &hostsv1.MachineSelector{}, &most
	}
	w.notef("user: ask for %s: %v", op.Name, w.api.Create("user", op))
}

// tracer is the executor of packetCapture, and of nothing else.
const (
	tracer  = "tracer"
	capture = "packetCapture"
)

// executor is one process of the executor. All of them may carry the same operations out, and know nothing of each other
// but what the API server says. What one has claimed it writes down before it begins, and finds again when it starts anew.
type executor struct {
	name    string
	seen    []*hostsv1.MachineOperation             // as they were when it looked last
	journal map[types.UID]*hostsv1.MachineOperation // those that it has claimed and not ended
	running map[types.UID]time.Time                 // until when those take that it carries out
}

// hire starts the processes of the executor, and has the machines say what it offers.
func (w *world) hire() {
	for i := range w.number("executors") {
		x := &executor{name: fmt.Sprintf("x%d", i), journal: map[types.UID]*hostsv1.MachineOperation{}, running: map[types.UID]time.Time{}}
		w.executors = append(w.executors, x)
		w.every(time.Second+w.drawn(2*time.Second), func() { w.execute(x) })
	}
	w.every(20*time.Second, func() {
		for _, h := range w.hosts {
			w.offer(h)
		}
	})
}

// offer has the machine of a host say that the executor is there.
func (w *world) offer(h *host) {
	m, there := objects.Find[*hostsv1.HostMachine](w.api.Store, h.name)
	if !there || w.refusal(false) != nil {
		return
	}
	for _, e := range m.Status.Executors {
		if e.Name == tracer {
			return
		}
	}
	_ = w.api.Change(tracer, &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, true, func(o client.Object) {
		if m, ok := o.(*hostsv1.HostMachine); ok {
			m.Status.Executors = append(m.Status.Executors, hostsv1.Executor{Name: tracer, Operations: []string{capture}})
		}
	})
}

// execute is a moment in the life of an executor: it may die, look again, claim, or end what it does.
func (w *world) execute(x *executor) {
	if w.chance("dies-looking") {
		w.notef("%s: it is killed", x.name)
		clear(x.running)
		x.seen = nil
		return
	}
	if w.refusal(false) != nil {
		return
	}
	there := map[types.UID]bool{}
	for _, op := range objects.All[*hostsv1.MachineOperation](w.api.Store) {
		there[op.UID] = true
		if x.journal[op.UID] != nil {
			w.finish(x, op)
		}
	}
	for _, uid := range slices.Sorted(keys(x.journal)) {
		if until := x.running[uid]; !there[uid] && !time.Now().Before(until) { // somebody has deleted it: it is not interrupted by that
			w.oracle.executed(x, x.journal[uid])
			delete(x.journal, uid)
			delete(x.running, uid)
		}
	}
	if x.seen == nil || !w.chance("lag") {
		x.seen = objects.All[*hostsv1.MachineOperation](w.api.Store)
	}
	for _, op := range x.seen {
		if op.Spec.OperationName == capture && op.Labels[hostsv1.LabelExecutor] == tracer && x.journal[op.UID] == nil {
			w.claim(x, op)
		}
	}
}

// claim takes an operation, if nobody else has, and begins.
func (w *world) claim(x *executor, op *hostsv1.MachineOperation) {
	status, err := operations.Claim(op, tracer, time.Now())
	if err != nil {
		return
	}
	next := op.DeepCopy()
	next.Status = status
	err = w.api.Write(x.name, next, func(stored client.Object) error {
		if err := objects.Meant(stored, op.UID, op.ResourceVersion); err != nil {
			return err
		}
		return w.api.Direct.Status().Update(context.Background(), next)
	})
	w.notef("%s: claim %s: %v", x.name, op.Name, err)
	if err != nil || w.chance("lost") {
		return // and whoever does not know that it has won does nothing
	}
	x.journal[op.UID] = op
	if w.chance("dies") {
		w.notef("%s: it is killed before it begins %s", x.name, op.Name)
		return
	}
	w.oracle.executes(x, op)
	x.running[op.UID] = time.Now().Add(5*time.Second + w.drawn(time.Minute))
}

// finish says how an operation has ended that a process has claimed: also one that it knows only from its journal.
func (w *world) finish(x *executor, op *hostsv1.MachineOperation) {
	until, runs := x.running[op.UID]
	if runs && time.Now().Before(until) {
		return
	}
	outcome := operations.Outcome{}
	if !runs {
		outcome = operations.Outcome{Failed: true, Reason: hostsv1.ReasonInterrupted, Message: "its process has ended"}
	}
	w.oracle.executed(x, op)
	delete(x.running, op.UID)
	status, err := operations.Finish(op, tracer, outcome, time.Now())
	if err != nil { // it was ended by somebody else
		delete(x.journal, op.UID)
		return
	}
	next := op.DeepCopy()
	next.Status = status
	err = w.api.Write(x.name, next, func(stored client.Object) error {
		if err := objects.Meant(stored, op.UID, op.ResourceVersion); err != nil {
			return err
		}
		return w.api.Direct.Status().Update(context.Background(), next)
	})
	w.notef("%s: end %s, failed %v: %v", x.name, op.Name, outcome.Failed, err)
	if err == nil && !w.chance("lost") {
		delete(x.journal, op.UID)
	}
}
