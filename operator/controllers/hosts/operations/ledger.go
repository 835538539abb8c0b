package operations

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/operations"
)

// ledger has the operations that executors have or may take. It begins with what the API server says, and
// then has what was written by this process before any cache shows it.
type ledger struct {
	mu      sync.Mutex
	opened  bool
	running operations.Running
	names   map[string]object // of those that run
}

// object is one of those that had a name.
type object struct {
	uid   string
	until time.Time // when its executor has ended at the latest; zero: nobody has claimed it
}

// open reads all operations once.
func (l *ledger) open(ctx context.Context, live client.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened {
		return nil
	}
	var page hostsv1.MachineOperationList
	for {
		if err := live.List(ctx, &page, client.Limit(500), client.Continue(page.Continue)); err != nil {
			return fmt.Errorf("list MachineOperations: %w", err)
		}
		for i := range page.Items {
			l.running.Note(&page.Items[i])
			l.remember(&page.Items[i])
		}
		if page.Continue == "" {
			l.opened = true
			return nil
		}
	}
}

// remember notes which object has a name; mu is held.
func (l *ledger) remember(op *hostsv1.MachineOperation) {
	if !l.running.Has(string(op.UID)) {
		delete(l.names, op.Name)
		return
	}
	of := object{uid: string(op.UID)}
	if s := op.Status; s.State == hostsv1.OperationInProgress && s.Deadline != nil {
		of.until = s.Deadline.Add(operations.LostAfter)
	}
	l.names[op.Name] = of
}

// note takes in what a cache shows. A label alone is not believed: it may have been taken back since.
func (l *ledger) note(op *hostsv1.MachineOperation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had, ok := l.names[op.Name]; ok && had.uid != string(op.UID) {
		l.running.Gone(had.uid, had.until)
	}
	if op.Status.State == hostsv1.OperationInProgress || operations.Finished(op.Status.State) {
		l.running.Note(op)
	}
	l.remember(op)
}

// ended notes that an operation has finished. Its object may be deleted before anything else is seen of that.
func (l *ledger) ended(op *hostsv1.MachineOperation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running.Drop(string(op.UID))
	if l.names[op.Name].uid == string(op.UID) {
		delete(l.names, op.Name)
	}
}

// gone notes that there is no object of a name. One that was claimed is not interrupted by that, and runs
// until its deadline at most.
func (l *ledger) gone(name string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had, ok := l.names[name]; ok {
		l.running.Gone(had.uid, had.until)
		delete(l.names, name)
	}
	l.running.Expire(now)
}

// take notes that an operation may be taken, unless another one comes first.
func (l *ledger) take(op *hostsv1.MachineOperation, limit int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.running.Take(op, limit)
	l.remember(op)
	return taken
}

func (l *ledger) has(op *hostsv1.MachineOperation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running.Has(string(op.UID))
}

func (l *ledger) drop(op *hostsv1.MachineOperation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running.Drop(string(op.UID))
	delete(l.names, op.Name)
}

// around is another operation of the machine that runs, and whether as many of the same parent run as may.
func (l *ledger) around(op *hostsv1.MachineOperation, limit int, now time.Time) (busy string, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running.Expire(now)
	return l.running.Other(op), l.running.Full(op, limit)
}

func (l *ledger) children(parent string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running.Children(parent)
}
