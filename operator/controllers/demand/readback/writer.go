package readback

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/readback"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Options are the surroundings of a [Writer]; all are required unless said.
type Options struct {
	// Client reads and writes without a cache. It has limits of its own.
	Client client.Client
	// Shards returns the names of the shards of the configuration.
	Shards func() []string
	// Wrote hears of each write, for metrics: its operation (create, spec, status, delete) and
	// its error; nil: nobody does.
	Wrote func(operation string, err error)
	Log   *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Writer keeps the objects. [New] makes one; its methods are safe for concurrent use, but for one
// machine or profile there is to be one call at a time.
type Writer struct {
	opts  Options
	ready chan struct{}     // closed once the objects were read
	wake  chan struct{}     // holds one token while something may have to go
	lanes [64]chan struct{} // of profiles: each holds a token while one is written

	mu       sync.Mutex
	upcoming map[string]*demandv1.UpcomingNode      // by name
	offers   map[string]*demandv1.AvailableCapacity // by fingerprint
	said     map[string]map[string]readback.Said    // by fingerprint and shard
	unasked  map[string]int                         // rounds of roll-ups that had not the fingerprint
}

// New returns a writer that has read nothing yet; see [Writer.Run].
func New(o Options) *Writer {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wrote == nil {
		o.Wrote = func(string, error) {}
	}
	w := &Writer{
		opts: o, ready: make(chan struct{}), wake: make(chan struct{}, 1), upcoming: map[string]*demandv1.UpcomingNode{}, offers: map[string]*demandv1.AvailableCapacity{},
		said: map[string]map[string]readback.Said{}, unasked: map[string]int{},
	}
	for i := range w.lanes {
		w.lanes[i] = make(chan struct{}, 1)
	}
	return w
}

// await returns once the objects were read.
func (w *Writer) await(ctx context.Context) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// NodeState writes down the state of a machine.
func (w *Writer) NodeState(ctx context.Context, shard string, u *demandpb.NodeStateUpdate) error {
	if err := w.await(ctx); err != nil {
		return err
	}
	name := readback.NodeName(u.GetMachineId())
	change, err := readback.Upcoming(w.node(name), shard, u, w.opts.Now())
	if err != nil {
		// Another shard has the machine, or says so: repeating it would not help.
		w.opts.Log.WarnContext(ctx, "state of a machine not shown", "shard", shard, "machine", u.GetMachineId(), "error", err)
		return nil
	}
	return w.changeNode(ctx, name, change)
}

// node is what is known of an UpcomingNode; nil: there is none.
func (w *Writer) node(name string) *demandv1.UpcomingNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.upcoming[name]
}

// keepNode notes what an UpcomingNode is now; nil: it is gone.
func (w *Writer) keepNode(name string, o *demandv1.UpcomingNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.upcoming[name] = o; o == nil {
		delete(w.upcoming, name)
		return
	}
	if o.Status.Phase == demandv1.UpcomingNodeFailed {
		w.signal()
	}
}

// UpcomingNode hears of an UpcomingNode, from a watch: others write its status, too. What is older
// than what was written here says nothing.
func (w *Writer) UpcomingNode(o *demandv1.UpcomingNode, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.upcoming[o.Name]
	switch {
	case have == nil:
	case gone && have.UID == o.UID:
		delete(w.upcoming, o.Name)
	case !gone && newer(o, have):
		w.upcoming[o.Name] = o
	}
}

// newer reports whether an object is a later state of the same one.
func newer(o, than client.Object) bool {
	a, err1 := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	b, err2 := strconv.ParseUint(than.GetResourceVersion(), 10, 64)
	return err1 == nil && err2 == nil && o.GetUID() == than.GetUID() && a > b
}

// changeNode carries out what becomes of an UpcomingNode.
func (w *Writer) changeNode(ctx context.Context, name string, change readback.NodeChange) error {
	have := w.node(name)
	log := w.opts.Log.With("upcoming_node", name, "reason", change.Reason)
	switch {
	case change.Delete && have != nil:
		return w.deleteNode(ctx, name, change.Reason)
	case change.Create != nil:
		made := change.Create.DeepCopy()
		if err := w.create(ctx, made, change.Create); err != nil {
			if apierrors.IsAlreadyExists(err) {
				return w.readNode(ctx, name, err)
			}
			return err
		}
		made.Status = demandv1.UpcomingNodeStatus{} // creation sets none
		w.keepNode(name, made)
		log.InfoContext(ctx, "upcoming node made", "machine", made.Spec.MachineID, "shard", made.Spec.Shard, "phase", change.Create.Status.Phase)
		return w.statusOfNode(ctx, name, &change.Create.Status)
	}
	if change.Spec != nil {
		next := have.DeepCopy()
		next.Spec = *change.Spec
		if err := w.patch(ctx, next, client.MergeFrom(have)); err != nil {
			return w.lostNode(ctx, name, err)
		}
		w.keepNode(name, next)
	}
	if change.Status != nil {
		log.InfoContext(ctx, "upcoming node changed", "phase", change.Status.Phase)
		return w.statusOfNode(ctx, name, change.Status)
	}
	return nil
}

func (w *Writer) statusOfNode(ctx context.Context, name string, status *demandv1.UpcomingNodeStatus) error {
	have := w.node(name)
	next := have.DeepCopy()
	next.Status = *status.DeepCopy()
	if err := w.patchStatus(ctx, next, client.MergeFrom(have)); err != nil {
		return w.lostNode(ctx, name, err)
	}
	w.keepNode(name, next)
	return nil
}

// deleteNode deletes an UpcomingNode.
func (w *Writer) deleteNode(ctx context.Context, name, reason string) error {
	have := w.node(name)
	if have == nil {
		return nil
	}
	if err := w.delete(ctx, &demandv1.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	w.keepNode(name, nil)
	w.opts.Log.InfoContext(ctx, "upcoming node deleted", "upcoming_node", name, "machine", have.Spec.MachineID, "shard", have.Spec.Shard, "reason", reason)
	return nil
}

// lostNode looks at an UpcomingNode again that could not be written; one that is gone is forgotten, so that
// the next attempt makes it again.
func (w *Writer) lostNode(ctx context.Context, name string, err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return w.readNode(ctx, name, err)
	}
	return err
}

// readNode reads an UpcomingNode again, and returns why.
func (w *Writer) readNode(ctx context.Context, name string, why error) error {
	var o demandv1.UpcomingNode
	switch err := w.opts.Client.Get(ctx, client.ObjectKey{Name: name}, &o); {
	case apierrors.IsNotFound(err):
		w.keepNode(name, nil)
	case err == nil:
		w.keepNode(name, trim(&o))
	}
	return why
}

// trim leaves out of an object what is not looked at.
func trim[O client.Object](o O) O {
	o.SetManagedFields(nil)
	return o
}

// create makes an object; of is what it was made from.
func (w *Writer) create(ctx context.Context, o client.Object, of client.Object) error {
	err := w.opts.Client.Create(ctx, o)
	w.opts.Wrote("create", err)
	if err != nil {
		return fmt.Errorf("make %T %s: %w", of, of.GetName(), err)
	}
	return nil
}

func (w *Writer) patch(ctx context.Context, o client.Object, p client.Patch) error {
	err := w.opts.Client.Patch(ctx, o, p)
	w.opts.Wrote("spec", err)
	if err != nil {
		return fmt.Errorf("change %T %s: %w", o, o.GetName(), err)
	}
	return nil
}

func (w *Writer) patchStatus(ctx context.Context, o client.Object, p client.Patch) error {
	err := w.opts.Client.Status().Patch(ctx, o, p)
	w.opts.Wrote("status", err)
	if err != nil {
		return fmt.Errorf("change the status of %T %s: %w", o, o.GetName(), err)
	}
	return nil
}

// delete deletes an object; one that is gone is as good.
func (w *Writer) delete(ctx context.Context, o client.Object) error {
	err := client.IgnoreNotFound(w.opts.Client.Delete(ctx, o))
	w.opts.Wrote("delete", err)
	if err != nil {
		return fmt.Errorf("delete %T %s: %w", o, o.GetName(), err)
	}
	return nil
}
