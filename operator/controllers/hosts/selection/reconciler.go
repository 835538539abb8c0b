package selection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/selection"
	"nstance.dev/operator/status"
)

// Options are the surroundings of a Reconciler; all are required.
type Options struct {
	// Client reads from a cache, which has the index of [IndexField], and writes.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Events events.EventRecorder
	// APIServer returns the version of the API server that Nodes join; empty: not known.
	APIServer func() string
	// SecretMissing reports whether a Secret of the operator's namespace does not exist; nil: all
	// exist.
	SecretMissing func(ctx context.Context, name string) bool
	Now           func() time.Time
}

// Reconciler keeps the statuses of machines; its requests name HostMachines. New makes one; it
// is safe for concurrent use.
type Reconciler struct {
	opts   Options
	writes *rate.Limiter
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{opts: o, writes: rate.NewLimiter(writesPerSecond, writesPerSecond)}
}

var manager = status.FieldManager("hosts-selection")

// Reconcile says what one machine would be built from.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	m := &hostsv1.HostMachine{}
	if err := r.opts.Client.Get(ctx, request.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !m.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // it keeps what it has
	}
	in, err := observe(ctx, r.opts.Client, r.opts.APIServer())
	if err != nil {
		return ctrl.Result{}, err
	}
	if r.opts.SecretMissing != nil {
		in.SecretMissing = func(name string) bool { return r.opts.SecretMissing(ctx, name) }
	}
	older, err := r.older(ctx, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := Decide(m, in, older, r.opts.Now())
	if !same(m, &d.Status) {
		if there, err := r.leaves(ctx, m, d); there || err != nil {
			return status.Deferred(time.Second, 0), err
		}
		if !r.writes.AllowN(r.opts.Now(), 1) {
			return status.Deferred(time.Second/2, 0), nil
		}
		if err := r.write(ctx, m, d); err != nil {
			return ctrl.Result{}, err
		}
	}
	if d.Reselected {
		return ctrl.Result{}, r.reselected(ctx, m)
	}
	if c := meta.FindStatusCondition(d.Status.Conditions, hostsv1.ConditionConfigurationPending); c != nil && c.Reason == hostsv1.ReasonSecretNotFound {
		return status.Deferred(secretAgain, 0), nil // nobody tells of Secrets
	}
	return ctrl.Result{}, nil
}

// leaves is whether a machine would leave the configuration that it stays with, and that is there: a cache may show
// that a machine is assigned before it shows what to.
func (r *Reconciler) leaves(ctx context.Context, m *hostsv1.HostMachine, d Decision) (bool, error) {
	ref, stays := selection.StaysWith(m)
	next := d.Status.Configuration
	if !stays || next == nil || next.Desired == nil || next.Desired.Name == ref.Name {
		return false, nil
	}
	c := &hostsv1.MachineConfiguration{}
	if err := r.opts.Live.Get(ctx, client.ObjectKey{Name: string(ref.Name)}, c); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("read MachineConfiguration %s: %w", ref.Name, err)
	}
	return c.DeletionTimestamp.IsZero() && (ref.UID == "" || ref.UID == string(c.UID)), nil
}

// write writes a status, and tells what is new. A machine that has changed since is looked at again: it may have been
// assigned meanwhile, and then stays with what it was assigned to.
func (r *Reconciler) write(ctx context.Context, m *hostsv1.HostMachine, d Decision) error {
	object := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}, Status: d.Status}
	if err := status.ApplyUnchanged(ctx, r.opts.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of HostMachine %s: %w", m.Name, err)
	}
	if d.Reason != "" {
		kind := corev1.EventTypeNormal
		if d.Warning {
			kind = corev1.EventTypeWarning
		}
		r.opts.Events.Eventf(m, nil, kind, d.Reason, "Select", "%s", d.Note)
	}
	if c := d.Status.Configuration; c != nil && c.Desired != nil {
		log.FromContext(ctx).Info("selected version", "machine", m.Name, "configuration", string(c.Desired.Name), "version", c.Desired.Version, "reason", said(d.Status.Conditions))
	} else {
		log.FromContext(ctx).Info("machine waits for a configuration", "machine", m.Name, "reason", said(d.Status.Conditions))
	}
	return nil
}

// said is why a machine waits, or how its configuration was chosen.
func said(conditions []metav1.Condition) string {
	c := meta.FindStatusCondition(conditions, hostsv1.ConditionConfigurationPending)
	return c.Reason + ": " + c.Message
}

// reselected removes the annotation that asked for a new choice, unless the machine has changed.
func (r *Reconciler) reselected(ctx context.Context, m *hostsv1.HostMachine) error {
	next := m.DeepCopy()
	delete(next.Annotations, hostsv1.AnnotationReselect)
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, m.UID, hostsv1.AnnotationReselect)
	if err := r.opts.Client.Patch(ctx, next, client.RawPatch("application/merge-patch+json", []byte(patch)), manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove annotation %s of HostMachine %s: %w", hostsv1.AnnotationReselect, m.Name, err)
	}
	log.FromContext(ctx).Info("removed annotation", "machine", m.Name, "annotation", hostsv1.AnnotationReselect, "reason", "the configuration was chosen again")
	return nil
}

// same is whether a machine says already what there is to say.
func same(m *hostsv1.HostMachine, next *hostsv1.HostMachineStatus) bool {
	var is hostsv1.ConfigurationStatus
	if c := m.Status.Configuration; c != nil {
		is = hostsv1.ConfigurationStatus{Source: c.Source, Desired: c.Desired}
	}
	var want hostsv1.ConfigurationStatus
	if next.Configuration != nil {
		want = *next.Configuration
	}
	return m.Status.ObservedGeneration == next.ObservedGeneration &&
		equality.Semantic.DeepEqual(is, want) &&
		equality.Semantic.DeepEqual(status.Select(m.Status.Conditions, next.Conditions), next.Conditions)
}

// older returns the machine that has the same node name and came before; empty: none.
func (r *Reconciler) older(ctx context.Context, m *hostsv1.HostMachine) (string, error) {
	var all hostsv1.HostMachineList
	if err := r.opts.Client.List(ctx, &all, client.MatchingFields{IndexField: m.NodeName()}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list the HostMachines of node %s: %w", m.NodeName(), err)
	}
	return selection.NameConflicts(all.Items)[m.Name], nil
}

// observe reads the configurations with their versions.
func observe(ctx context.Context, from client.Reader, apiServer string) (selection.Cluster, error) {
	in := selection.Cluster{APIServer: apiServer}
	var configurations hostsv1.MachineConfigurationList
	if err := from.List(ctx, &configurations, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list MachineConfigurations: %w", err)
	}
	var all hostsv1.MachineConfigurationVersionList
	if err := from.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list MachineConfigurationVersions: %w", err)
	}
	in.Configurations = selection.Observe(configurations.Items, all.Items)
	return in, nil
}

// Selectors says in configurations what their selectors do; its requests name
// MachineConfigurations. NewSelectors makes one; it is safe for concurrent use.
type Selectors struct {
	opts Options

	mu      sync.Mutex
	written map[string]time.Time // when a configuration's condition was last written
}

// NewSelectors returns a reconciler.
func NewSelectors(o Options) *Selectors { return &Selectors{opts: o, written: map[string]time.Time{}} }

// countEvery is how often numbers of machines are written at most.
const countEvery = 5 * time.Second

// Reconcile says what the selector of one configuration does.
func (s *Selectors) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	c := &hostsv1.MachineConfiguration{}
	if err := s.opts.Client.Get(ctx, request.NamespacedName, c); err != nil {
		s.wrote(request.Name, time.Time{})
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !c.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	in, err := observe(ctx, s.opts.Client, "")
	if err != nil {
		return ctrl.Result{}, err
	}
	var machines hostsv1.HostMachineList
	if err := s.opts.Client.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list HostMachines: %w", err)
	}
	_, parsed := selection.Parse(c.Spec.MachineSelector)
	now := s.opts.Now()
	next := status.Next(c.Status.Conditions, []metav1.Condition{
		SelectorCondition(c, parsed, selection.ReachOf(c.Name, machines.Items, in.Configurations)),
	}, c.Generation, now)
	was := meta.FindStatusCondition(c.Status.Conditions, hostsv1.ConditionSelectorValid)
	if was != nil && equality.Semantic.DeepEqual(*was, next[0]) {
		return ctrl.Result{}, nil
	}
	news := was == nil || was.Status != next[0].Status || was.Reason != next[0].Reason
	if wait := s.since(c.Name, now); !news && wait > 0 && was.ObservedGeneration == c.Generation {
		return status.Deferred(wait, 0), nil
	}
	object := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: c.Name, UID: c.UID}}
	object.Status.Conditions = next
	if err := status.Apply(ctx, s.opts.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write the status of MachineConfiguration %s: %w", c.Name, err)
	}
	s.wrote(c.Name, now)
	log.FromContext(ctx).Info("selector", "configuration", c.Name, "reason", next[0].Reason+": "+next[0].Message)
	if reason := eventOf[next[0].Reason]; news && reason != "" {
		s.opts.Events.Eventf(c, nil, corev1.EventTypeWarning, reason, "Select", "%s", next[0].Message)
	}
	return ctrl.Result{}, nil
}

// eventOf are the reasons of conditions that a user is told of.
var eventOf = map[string]string{
	hostsv1.ReasonInvalidSelector:   hostsv1.EventSelectorInvalid,
	hostsv1.ReasonMatchesNothing:    hostsv1.EventSelectorMatchesNone,
	hostsv1.ReasonAmbiguousPriority: hostsv1.EventPriorityAmbiguous,
}

// since returns how long numbers of a configuration still wait.
func (s *Selectors) since(name string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written[name].Add(countEvery).Sub(now)
}

func (s *Selectors) wrote(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.IsZero() {
		delete(s.written, name)
		return
	}
	s.written[name] = at
}

func join(names []string) string {
	names = slices.Clone(names)
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
