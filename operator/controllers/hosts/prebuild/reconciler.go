package prebuild

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/assignment"
	"nstance.dev/operator/hosts/prebuild"
	"nstance.dev/operator/hosts/reports"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Server is a call to a shard.
type Server interface {
	PutPrebuild(ctx context.Context, req *nstancev1.PutPrebuildRequest) error
}

// Options are the surroundings of a Reconciler; all are required, but for Settle and Count.
type Options struct {
	// Client reads from a cache and writes; Live reads from the API server, Secrets of the operator's namespace too.
	Client    client.Client
	Live      client.Reader
	Namespace string
	Inventory *inventory.Store
	Reports   *reports.Store
	// Server returns the calls to a shard; false: it is not connected.
	Server func(shard string) (Server, bool)
	// Lock locks a version, and returns what it holds once the API server has acknowledged that.
	Lock func(ctx context.Context, configuration string, number int32, machine string) (hostsv1.VersionReference, assignment.Content, error)
	// API is where kubelets reach the API server.
	API    func(ctx context.Context) assignment.APIServer
	Events events.EventRecorder
	Log    *slog.Logger
	Now    func() time.Time
	// Settle is how long after the last edit of a template nothing is prepared; 0: [prebuild.Settle].
	Settle time.Duration
	// Count hears how the preparation of a machine ended: Done, Failed, TimedOut or Unsupported; nil: nobody does.
	Count func(result string)
}

// Reconciler keeps what is prepared for one MachineConfiguration at a time. New makes one; it is safe for concurrent use.
type Reconciler struct {
	opts Options

	mu   sync.Mutex
	work map[string]*work // by configuration
}

// work is what is remembered of one configuration. Whoever has it has it alone, as the queue of a controller gives
// each key to one worker at a time.
type work struct {
	// asked: the API server itself was asked for all machines, and what this process has written since is in wrote.
	asked bool
	wrote map[string]written // by machine
	// withdrew is when the shard of a machine has last taken that its host is to prepare nothing, since it was asked.
	withdrew map[string]time.Time
	// target is the newest version as it was last seen, and edited since when.
	target hostsv1.VersionReference
	edited time.Time
	told   time.Time // when condition Prebuilt was last written
}

// written is what a machine has, whatever the cache says, until it says so too.
type written struct {
	uid      string
	prebuild *hostsv1.MachinePrebuild
	until    time.Time
}

const (
	// lateFor is how late a cache may be.
	lateFor = 30 * time.Second
	// tellEvery is how often a message alone is written at most.
	tellEvery = 5 * time.Second
	// retry is when a shard is asked again that does not take a prebuild.
	retry = 10 * time.Second
)

var manager = status.FieldManager("hosts-prebuild")

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Count == nil {
		o.Count = func(string) {}
	}
	return &Reconciler{opts: o, work: map[string]*work{}}
}

func (r *Reconciler) workOn(name string) *work {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.work[name] == nil {
		r.work[name] = &work{wrote: map[string]written{}, withdrew: map[string]time.Time{}}
	}
	return r.work[name]
}

// seen is what a pass starts from.
type seen struct {
	configuration *hostsv1.MachineConfiguration
	machines      map[string]*hostsv1.HostMachine
	in            prebuild.Input
}

// Reconcile carries out what comes next for one configuration.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	w := r.workOn(request.Name)
	s, err := r.observe(ctx, request.Name, w, false)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := prebuild.Decide(s.in, r.opts.Now())
	if !w.asked && len(d.Steps) > 0 { // what an earlier process has written may not be in the cache yet
		if s, err = r.observe(ctx, request.Name, w, true); err != nil {
			return ctrl.Result{}, err
		}
		w.asked = true
		d = prebuild.Decide(s.in, r.opts.Now())
	}
	again := d.After
	if d.Running > 0 {
		again = soonest(again, prebuild.Resync)
	}
	for _, step := range d.Steps {
		later, err := r.carryOut(ctx, s, w, step)
		if err != nil {
			return ctrl.Result{}, err
		}
		again = soonest(again, later)
	}
	later, err := r.say(ctx, s, w, d)
	return ctrl.Result{RequeueAfter: soonest(again, later)}, err
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
	if err != nil { // it is gone, and nothing of it is prepared any more
		s.configuration = &hostsv1.MachineConfiguration{}
		s.configuration.Name = name
	}
	list, err := r.listMachines(ctx, w, live)
	if err != nil {
		return nil, err
	}
	for i := range list {
		s.machines[list[i].Name] = &list[i]
	}
	var all hostsv1.MachineConfigurationVersionList
	if p := s.configuration.Spec.Prebuild; p != nil && prebuild.On(p.Mode) {
		if err := r.opts.Client.List(ctx, &all, client.MatchingLabels{hostsv1.LabelConfiguration: name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list the versions of MachineConfiguration %s: %w", name, err)
		}
	}
	s.in = prebuild.Observe(s.configuration, all.Items, list, func(m *hostsv1.HostMachine) prebuild.Host {
		h := r.host(m)
		h.Withdrawn = w.withdrew[m.Name]
		return h
	}, func(target hostsv1.VersionReference) time.Time {
		if w.target != target {
			w.target, w.edited = target, r.opts.Now()
		}
		return w.edited
	})
	s.in.Settle = r.opts.Settle
	maps.DeleteFunc(w.withdrew, func(name string, _ time.Time) bool { return s.machines[name] == nil })
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
		if m := &machines.Items[i]; m.Status.Prebuild != nil {
			w.wrote[m.Name] = written{string(m.UID), m.Status.Prebuild, now.Add(lateFor)}
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
		if own.uid != string(m.UID) || !now.Before(own.until) || equality.Semantic.DeepEqual(m.Status.Prebuild, own.prebuild) {
			delete(w.wrote, m.Name)
			continue
		}
		m.Status.Prebuild = own.prebuild // of the copy: the cache keeps its own
	}
	for name := range w.wrote {
		if !there[name] {
			delete(w.wrote, name)
		}
	}
	return next
}

// host is what the shard of a machine knows of its host.
func (r *Reconciler) host(m *hostsv1.HostMachine) (h prebuild.Host) {
	if m.Spec.Instance == nil {
		return h
	}
	shard, id := string(m.Spec.Instance.Shard), string(m.Spec.Instance.ID)
	h.Known, h.Connected = r.opts.Reports.Host(shard, id).Known, r.opts.Reports.Host(shard, id).Connected
	of := r.opts.Reports.State(shard, id)
	if of.GetStatus() == nil {
		h.Known = false
		return h
	}
	h.Prebuilds, h.Asked = of.GetStatus().GetPrebuilds(), of.GetPrebuildHash()
	p := of.GetStatus().GetPrebuild()
	if p == nil {
		return h
	}
	h.Version, h.Mode, h.State, h.Message = reports.Version(p.GetConfiguration()), modes[p.GetScope()], hostsv1.PrebuildRunning, p.GetLastError()
	switch p.GetState() {
	case nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE:
		h.State = hostsv1.PrebuildDone
	case nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FAILED:
		h.State = hostsv1.PrebuildFailed
	default:
	}
	return h
}

var modes = map[nstancev1.MachinePrebuildScope]hostsv1.PrebuildMode{
	nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_IMAGES: hostsv1.PrebuildImages,
	nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_SLOT:   hostsv1.PrebuildSlot,
}
