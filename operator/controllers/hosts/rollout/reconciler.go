package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/rollout"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
)

// Options are the surroundings of a Reconciler; all are required, but for Count.
type Options struct {
	// Client reads from a cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Nodes is where the Nodes are; it reads from a cache.
	Nodes     client.Client
	Inventory *inventory.Store
	// Requests is what the drain engine asks.
	Requests *Requests
	// Holds are those of instances at their shards.
	Holds Holds
	// Wake has the engine look at the drains of instances.
	Wake func(instances ...string)
	// Lock locks a version for a machine, and returns once the API server has acknowledged that.
	Lock   func(ctx context.Context, configuration string, number int32, machine string) (hostsv1.VersionReference, error)
	Events events.EventRecorder
	Log    *slog.Logger
	Now    func() time.Time
	// Count hears what is done with machines, by the name of the action; nil: nobody does.
	Count func(rollout.Action)
}

// Reconciler keeps the rollout of one MachineConfiguration at a time, which its requests name. New makes
// one; it is safe for concurrent use.
type Reconciler struct {
	opts Options

	mu   sync.Mutex
	work map[string]*work // by configuration
}

// work is what is remembered of one configuration's rollout. Whoever has it has it alone, as the queue of a
// controller gives each key to one worker at a time.
type work struct {
	// asked: the API server itself was asked for all machines, and what this process has written since
	// is in wrote.
	asked bool
	wrote map[string]written // by machine
	// held is when machines that are drained were put on hold last.
	held map[string]time.Time
	// told is when the status of the configuration was last written, and said what was written.
	told time.Time
	said *said
	// resumed is when the annotation was removed that has a rollout go on; zero: the cache has that.
	resumed time.Time
}

// written is what a machine has, whatever the cache says, until it says so too.
type written struct {
	uid     string
	rollout *hostsv1.MachineRollout
	until   time.Time
}

const (
	// lateFor is how late a cache may be.
	lateFor = 30 * time.Second
	// tryAgain is when a machine is tried again that a shard did not let be begun.
	tryAgain = 10 * time.Second
	// tellEvery is how often numbers alone are written at most.
	tellEvery = time.Second
)

var manager = status.FieldManager("hosts-rollout")

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Count == nil {
		o.Count = func(rollout.Action) {}
	}
	return &Reconciler{opts: o, work: map[string]*work{}}
}

func (r *Reconciler) workOn(name string) *work {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.work[name] == nil {
		r.work[name] = &work{wrote: map[string]written{}, held: map[string]time.Time{}}
	}
	return r.work[name]
}

// forget forgets a configuration that is gone, and of which nothing is begun.
func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	delete(r.work, name)
	r.mu.Unlock()
	r.opts.Requests.forget(name)
}

// seen is what a pass starts from.
type seen struct {
	configuration *hostsv1.MachineConfiguration
	machines      map[string]*hostsv1.HostMachine
	in            rollout.Input
	list          []hostsv1.HostMachine
}

// Reconcile carries out what comes next for the rollout of one configuration.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	w := r.workOn(request.Name)
	now := r.opts.Now()
	s, err := r.observe(ctx, request.Name, w, false)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := rollout.Decide(s.in, now)
	if !w.asked && len(d.Steps) > 0 { // what an earlier process has written may not be in the cache yet
		if s, err = r.observe(ctx, request.Name, w, true); err != nil {
			return ctrl.Result{}, err
		}
		w.asked = true
		d = rollout.Decide(s.in, now)
	}
	r.request(request.Name, s, w)
	for _, step := range d.Steps {
		err := r.carryOut(ctx, s, w, step)
		if errors.Is(err, errNotNow) { // its group is rotated, which the inventory shows in a moment
			r.opts.Log.InfoContext(ctx, "machine is not begun", "configuration", request.Name, "machine", step.Machine, "reason", err)
			return ctrl.Result{RequeueAfter: tryAgain}, nil
		}
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	r.keepOnHold(ctx, s, w)
	r.request(request.Name, s, w)
	again, err := r.say(ctx, s, w, d)
	if err != nil {
		return ctrl.Result{}, err
	}
	if s.configuration.UID == "" && len(s.in.Machines) == 0 {
		r.forget(request.Name)
	}
	return ctrl.Result{RequeueAfter: soonest(d.After, again, resync(d))}, nil
}

// resync is when a rollout is looked at again whatever happens: one that is under way, and one in which nothing may be
// begun for a reason that may end without anybody saying so. Zero: it is neither.
func resync(d rollout.Decision) time.Duration {
	if d.Rollout != nil && len(d.Rollout.Updating) > 0 || d.Rolling.Reason == hostsv1.ReasonBlocked {
		return rollout.Resync
	}
	return 0
}

// soonest is the shortest of times that are not zero.
func soonest(all ...time.Duration) (least time.Duration) {
	for _, t := range all {
		if t > 0 && (least == 0 || t < least) {
			least = t
		}
	}
	return least
}

// observe reads all that a decision follows from; live: machines are those that the API server has.
func (r *Reconciler) observe(ctx context.Context, name string, w *work, live bool) (*seen, error) {
	s := &seen{configuration: &hostsv1.MachineConfiguration{}, machines: map[string]*hostsv1.HostMachine{}}
	err := r.opts.Client.Get(ctx, client.ObjectKey{Name: name}, s.configuration)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read MachineConfiguration %s: %w", name, err)
	}
	if err != nil { // it is gone: what was begun of it is left as it was
		s.configuration = &hostsv1.MachineConfiguration{}
		s.configuration.Name = name
	}
	w.overlaid(s.configuration, r.opts.Now())
	if s.list, err = r.listMachines(ctx, w, live); err != nil {
		return nil, err
	}
	rolls := s.configuration.Spec.UpdateStrategy != nil && s.configuration.Spec.UpdateStrategy.Type == hostsv1.UpdateRolling
	for i := range s.list {
		m := &s.list[i]
		s.machines[m.Name] = m
		rolls = rolls || m.Status.Rollout != nil && string(m.Status.Rollout.Name) == name
	}
	if !rolls { // and never begins anything
		s.in = rollout.Observe(s.configuration, nil, nil, rollout.Around{}, r.opts.Now())
		return s, nil
	}
	var all hostsv1.MachineConfigurationVersionList
	if err := r.opts.Client.List(ctx, &all, client.MatchingLabels{hostsv1.LabelConfiguration: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the versions of MachineConfiguration %s: %w", name, err)
	}
	var nodes corev1.NodeList
	if err := r.opts.Nodes.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	around := rollout.Around{Nodes: make(map[string]*corev1.Node, len(nodes.Items)), Instance: r.instances(), Drained: drained}
	for i := range nodes.Items {
		around.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	s.in = rollout.Observe(s.configuration, all.Items, s.list, around, r.opts.Now())
	return s, nil
}

// listMachines returns all machines, with what this process has written to them.
func (r *Reconciler) listMachines(ctx context.Context, w *work, live bool) ([]hostsv1.HostMachine, error) {
	var machines hostsv1.HostMachineList
	now := r.opts.Now()
	if !live {
		if err := r.opts.Client.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list HostMachines: %w", err)
		}
		return w.overlay(machines.Items, now), nil
	}
	if err := r.opts.Live.List(ctx, &machines); err != nil {
		return nil, fmt.Errorf("list HostMachines from the API server: %w", err)
	}
	for i := range machines.Items { // which the cache may not have yet
		if m := &machines.Items[i]; m.Status.Rollout != nil {
			w.wrote[m.Name] = written{uid: string(m.UID), rollout: m.Status.Rollout, until: now.Add(lateFor)}
		}
	}
	return machines.Items, nil
}

// overlay returns machines with what this process has written to those of which the cache does not have it yet.
func (w *work) overlay(all []hostsv1.HostMachine, now time.Time) []hostsv1.HostMachine {
	if len(w.wrote) == 0 {
		return all
	}
	next := append([]hostsv1.HostMachine(nil), all...)
	there := map[string]bool{}
	for i := range next {
		m := &next[i]
		own, is := w.wrote[m.Name]
		if !is {
			continue
		}
		there[m.Name] = true
		if own.uid != string(m.UID) || !now.Before(own.until) || equalRollouts(m.Status.Rollout, own.rollout) {
			delete(w.wrote, m.Name)
			continue
		}
		m.Status.Rollout = own.rollout // of the copy: the cache keeps its own
	}
	for name := range w.wrote {
		if !there[name] {
			delete(w.wrote, name)
		}
	}
	return next
}

// request says to the drain engine what is to be drained.
func (r *Reconciler) request(name string, s *seen, w *work) {
	begun := map[string]*hostsv1.MachineRollout{}
	for i := range s.list {
		m := &s.list[i]
		of := m.Status.Rollout
		if own, is := w.wrote[m.Name]; is {
			of = own.rollout
		}
		if of != nil && string(of.Name) == name && r.nodeThere(s, m.Name, of) {
			begun[m.Name] = of
		}
	}
	if changed := r.opts.Requests.set(name, requestsOf(s.list, begun)); len(changed) > 0 {
		r.opts.Wake(changed...)
	}
}

// nodeThere is whether the Node is there that a rollout drains.
func (r *Reconciler) nodeThere(s *seen, machine string, of *hostsv1.MachineRollout) bool {
	for i := range s.in.Machines {
		if m := &s.in.Machines[i]; m.Name == machine {
			return m.Node == of.NodeUID
		}
	}
	return false
}
