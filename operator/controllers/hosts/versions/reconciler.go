package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
	"nstance.dev/operator/status"
)

const (
	// countEvery is how often the counters of a configuration are written at most.
	countEvery = 5 * time.Second
	// mostSteps of one pass; there are five at most to one version.
	mostSteps = 32
)

// manager owns the statuses that are written here.
var manager = status.FieldManager("hosts-versions")

// Reconciler keeps versions. New makes one; it is safe for concurrent use.
type Reconciler struct {
	opts Options

	mu   sync.Mutex
	work map[string]*work // by configuration
}

// Options are the surroundings of a Reconciler; all are required, but for those that say what nil means.
type Options struct {
	// Client reads from a cache and writes.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Events events.EventRecorder
	Now    func() time.Time
	// Digest returns the digest that the tag of a template's image has now; asked where
	// [images.Tagged] reports true. Nil: tags are left as they are.
	Digest func(ctx context.Context, t *hostsv1.Template) (hostsv1.SHA256, error)
	// Wrote is told of each step that was written, and Refused why one was not: what it follows from has changed,
	// a machine is referenced, not-lockable, unresolved. Nil: nothing is.
	Wrote, Refused func(what string)
}

// work is what is remembered of one configuration. Its mutex makes the work on it serial.
type work struct {
	mu      sync.Mutex
	counted time.Time // when its counters were last written
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Wrote == nil {
		o.Wrote = func(string) {}
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	return &Reconciler{opts: o, work: map[string]*work{}}
}

func (r *Reconciler) workOn(name string) *work {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.work[name] == nil {
		r.work[name] = &work{}
	}
	return r.work[name]
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.work, name)
}

// Reconcile brings the versions of one configuration into step with it.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	w := r.workOn(request.Name)
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, err := r.observe(ctx, r.opts.Client, request.Name)
	if apierrors.IsNotFound(err) {
		r.forget(request.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if !seen.configuration.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its versions go with it
	}
	if len(seen.plan()) > 0 {
		if seen, err = r.catchUp(ctx, request.Name); seen == nil || err != nil {
			return ctrl.Result{}, err
		}
	}
	return r.writeStatuses(ctx, w, seen)
}

// catchUp carries steps out until there is none left, and returns what is there then; nil: the
// configuration is gone.
func (r *Reconciler) catchUp(ctx context.Context, name string) (*observation, error) {
	refused := map[int32]bool{} // versions whose deletion was refused: a reference has appeared
	for range mostSteps {
		seen, err := r.observeLive(ctx, name)
		switch {
		case errors.Is(err, errChanging):
			continue
		case apierrors.IsNotFound(err) || err == nil && !seen.configuration.DeletionTimestamp.IsZero():
			return nil, nil
		case err != nil:
			return nil, err
		}
		steps := slices.DeleteFunc(seen.plan(), func(s versions.Step) bool { return s.Action == versions.Delete && refused[s.Number] })
		if len(steps) == 0 {
			return seen, nil
		}
		for _, step := range steps {
			err := r.carryOut(ctx, seen, step)
			switch {
			case errors.Is(err, errReferenced):
				r.opts.Refused("referenced")
				refused[step.Number] = true // tried again when a machine changes
				log.FromContext(ctx).Info("kept version", "version", versions.Name(name, step.Number), "reason", err.Error())
			case late(err): // it changed meanwhile: look again
				r.opts.Refused("changed")
			case err != nil:
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("versions of MachineConfiguration %s: not done after %d steps", name, mostSteps)
}

// late is whether a write was refused because what it was decided from has changed: the object,
// whether it exists, or, with a version that was locked, whether it may change at all.
func late(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// observation is a configuration with what belongs to it.
type observation struct {
	configuration *hostsv1.MachineConfiguration
	versions      []hostsv1.MachineConfigurationVersion
	machines      []hostsv1.HostMachine
}

func (o *observation) state() versions.State {
	return versions.Observe(o.configuration, o.versions, versions.References(o.configuration.Name, o.machines))
}

func (o *observation) plan() []versions.Step { return versions.Plan(o.state()) }

// version returns the stored version of a number; nil: there is none.
func (o *observation) version(number int32) *hostsv1.MachineConfigurationVersion {
	name := versions.Name(o.configuration.Name, number)
	i := slices.IndexFunc(o.versions, func(v hostsv1.MachineConfigurationVersion) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &o.versions[i]
}

// errChanging: a configuration changed while its versions were read.
var errChanging = errors.New("the configuration changed while its versions were read")

// observeLive reads what the API server has. The versions are those of the very configuration that is returned: were a
// number reserved or cleared meanwhile, a version that is just being made would look like one that came too late, or
// one that came too late as if it were being made.
func (r *Reconciler) observeLive(ctx context.Context, name string) (*observation, error) {
	seen, err := r.observe(ctx, r.opts.Live, name)
	if err != nil {
		return nil, err
	}
	now := &hostsv1.MachineConfiguration{}
	if err := r.opts.Live.Get(ctx, client.ObjectKey{Name: name}, now); err != nil {
		return nil, fmt.Errorf("read MachineConfiguration %s: %w", name, err)
	}
	if now.ResourceVersion != seen.configuration.ResourceVersion {
		return nil, errChanging
	}
	return seen, nil
}

// observe reads a configuration, its versions, and the machines. An object that has the name of
// the reserved number is found also if it has no label of ours.
func (r *Reconciler) observe(ctx context.Context, from client.Reader, name string) (*observation, error) {
	o := &observation{configuration: &hostsv1.MachineConfiguration{}}
	if err := from.Get(ctx, client.ObjectKey{Name: name}, o.configuration); err != nil {
		return nil, fmt.Errorf("read MachineConfiguration %s: %w", name, err)
	}
	var all hostsv1.MachineConfigurationVersionList
	if err := from.List(ctx, &all, client.MatchingLabels{hostsv1.LabelConfiguration: name}); err != nil {
		return nil, fmt.Errorf("list the versions of MachineConfiguration %s: %w", name, err)
	}
	o.versions = all.Items
	if pending := o.configuration.Status.PendingVersion; pending != nil && o.version(pending.Number) == nil {
		v := &hostsv1.MachineConfigurationVersion{}
		err := from.Get(ctx, client.ObjectKey{Name: versions.Name(name, pending.Number)}, v)
		if err == nil {
			o.versions = append(o.versions, *v)
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read MachineConfigurationVersion %s: %w", versions.Name(name, pending.Number), err)
		}
	}
	slices.SortFunc(o.versions, func(a, b hostsv1.MachineConfigurationVersion) int { return cmp.Compare(a.Spec.Version, b.Spec.Version) })
	// Thousands, and read for their references alone: the cache is fresh enough, because the API
	// server refuses to delete what a machine refers to.
	var machines hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list HostMachines: %w", err)
	}
	o.machines = machines.Items
	return o, nil
}
