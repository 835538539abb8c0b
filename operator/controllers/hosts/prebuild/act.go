package prebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/assignment"
	"nstance.dev/operator/hosts/prebuild"
	"nstance.dev/operator/hosts/pullsecrets"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/shards"
	"nstance.dev/operator/status"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// carryOut does one step, tells it, and says when to look again; zero: when something changes.
func (r *Reconciler) carryOut(ctx context.Context, s *seen, w *work, step prebuild.Step) (again time.Duration, err error) {
	m := s.machines[step.Machine]
	switch step.Action {
	case prebuild.Begin:
		if err := r.write(ctx, w, m, step.Prebuild, true); err != nil {
			return 0, err
		}
		again, err = r.ask(ctx, w, m, step.Prebuild)
	case prebuild.Ask:
		again, err = r.ask(ctx, w, m, step.Prebuild)
	case prebuild.Withdraw:
		r.withdraw(ctx, w, m)
		again = prebuild.Again
	case prebuild.TimeOut:
		r.withdraw(ctx, w, m)
		err = r.write(ctx, w, m, step.Prebuild, false)
	case prebuild.Finish, prebuild.Fail, prebuild.Unsupported, prebuild.Clear:
		err = r.write(ctx, w, m, step.Prebuild, false)
	default:
		panic(fmt.Sprintf("prebuild: unknown action %s", step.Action))
	}
	if err != nil {
		return 0, err
	}
	r.tell(ctx, s, m, step)
	return again, nil
}

// ask has the host of a machine prepare a version, which is locked first. A shard that cannot be asked now is asked
// again.
func (r *Reconciler) ask(ctx context.Context, w *work, m *hostsv1.HostMachine, of *hostsv1.MachinePrebuild) (again time.Duration, err error) {
	server, connected := r.opts.Server(string(m.Spec.Instance.Shard))
	if !connected {
		return retry, nil
	}
	locked, content, err := r.opts.Lock(ctx, string(of.Name), of.Version, m.Name)
	if err != nil {
		return 0, fmt.Errorf("prepare version %d of %s on HostMachine %s: %w", of.Version, of.Name, m.Name, err)
	}
	if locked != of.VersionReference { // it was edited since: the next look withdraws it
		return retry, nil
	}
	secrets, err := r.secrets(ctx, &content.Template)
	if err != nil {
		return 0, err
	}
	request := &nstancev1.PutPrebuildRequest{InstanceId: string(m.Spec.Instance.ID)}
	if request.Prebuild, err = assignment.Prebuild(m, of, content, r.group(m), r.opts.API(ctx), secrets); err != nil {
		return 0, fmt.Errorf("prepare version %d of %s on HostMachine %s: %w", of.Version, of.Name, m.Name, err)
	}
	delete(w.withdrew, m.Name)
	err = server.PutPrebuild(ctx, request)
	switch class := shards.ClassOf(err); {
	case err == nil:
		return 0, nil
	case class == shards.Unimplemented:
		next := of.DeepCopy()
		now := metav1.NewTime(r.opts.Now().UTC().Truncate(time.Second))
		next.State, next.FinishedAt = hostsv1.PrebuildUnsupported, &now
		next.Message = fmt.Sprintf("the servers of shard %s are of an earlier release, which relays no preparation", m.Spec.Instance.Shard)
		r.opts.Count(string(hostsv1.PrebuildUnsupported))
		return 0, r.write(ctx, w, m, next, false)
	case class == shards.Precondition, class == shards.NotFound, class == shards.Unavailable:
		r.opts.Log.InfoContext(ctx, "prebuild not taken", "machine", m.Name, "version", of.Version, "error", err, "retry_in", retry.String())
		return retry, nil
	}
	return 0, fmt.Errorf("prepare version %d of %s on HostMachine %s: %w", of.Version, of.Name, m.Name, err)
}

// withdraw takes back what the host of a machine was asked for. Where its shard cannot be told the host goes on: it counts,
// and is told later.
func (r *Reconciler) withdraw(ctx context.Context, w *work, m *hostsv1.HostMachine) {
	if m.Spec.Instance == nil {
		return
	}
	delete(w.withdrew, m.Name)
	server, connected := r.opts.Server(string(m.Spec.Instance.Shard))
	err := errors.New("its shard is not connected")
	if connected {
		err = server.PutPrebuild(ctx, &nstancev1.PutPrebuildRequest{InstanceId: string(m.Spec.Instance.ID)})
	}
	if err != nil {
		r.opts.Log.InfoContext(ctx, "prebuild not withdrawn", "machine", m.Name, "error", err, "retry_in", prebuild.Again.String())
		return
	}
	w.withdrew[m.Name] = r.opts.Now()
}

// secrets reads the pull secret of the machine's image.
func (r *Reconciler) secrets(ctx context.Context, t *hostsv1.Template) (map[string][]byte, error) {
	if t.Image.OCI == nil || t.Image.OCI.PullSecret == "" {
		return nil, nil
	}
	name := string(t.Image.OCI.PullSecret)
	content, err := pullsecrets.Read(ctx, r.opts.Live, r.opts.Namespace, name)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{name: content}, nil
}

// group is what the group of the machine's instance sets of its Nodes; nil: nothing, or it is not known.
func (r *Reconciler) group(m *hostsv1.HostMachine) (of *nstancev1.NodeSettings) {
	in := m.Spec.Instance
	r.opts.Inventory.Read(string(in.Shard), func(s *inventory.Shard) { of = s.Group(string(in.Group)).GetNode() })
	return of
}

// write writes what is prepared on a machine. It is begun with a machine as that was read, or not at all.
func (r *Reconciler) write(ctx context.Context, w *work, m *hostsv1.HostMachine, next *hostsv1.MachinePrebuild, unchanged bool) error {
	object := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}}
	object.Status.Prebuild = next
	apply := status.Apply
	if unchanged {
		apply = status.ApplyUnchanged
	}
	if err := apply(ctx, r.opts.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write what is prepared on HostMachine %s: %w", m.Name, err)
	}
	w.wrote[m.Name] = written{string(m.UID), next, r.opts.Now().Add(lateFor)}
	return nil
}

// tell tells a step.
func (r *Reconciler) tell(ctx context.Context, s *seen, m *hostsv1.HostMachine, step prebuild.Step) {
	version := s.in.Target.Version
	if m.Status.Prebuild != nil && step.Action != prebuild.Begin {
		version = m.Status.Prebuild.Version
	}
	r.opts.Log.InfoContext(ctx, "prebuild takes a step", "step", string(step.Action), "configuration", s.configuration.Name, "version", version, "machine", m.Name, "reason", step.Reason)
	switch step.Action {
	case prebuild.Finish:
		r.opts.Count(string(hostsv1.PrebuildDone))
	case prebuild.Fail, prebuild.TimeOut:
		result := string(hostsv1.PrebuildFailed)
		if step.Action == prebuild.TimeOut {
			result = "TimedOut"
		}
		r.opts.Count(result)
		r.opts.Events.Eventf(m, nil, corev1.EventTypeWarning, hostsv1.EventPrebuildFailed, "Prebuild", "version %d of %s: %s; its next repave fetches what it takes", version, s.configuration.Name, step.Reason)
	case prebuild.Unsupported:
		r.opts.Count(string(hostsv1.PrebuildUnsupported))
	case prebuild.Begin, prebuild.Ask, prebuild.Withdraw, prebuild.Clear:
	}
}

// ours is the condition of a configuration that is written here.
var ours = []metav1.Condition{{Type: hostsv1.ConditionPrebuilt}}

// say writes how far the preparation is. Another message alone waits for its time, which is returned.
func (r *Reconciler) say(ctx context.Context, s *seen, w *work, d prebuild.Decision) (time.Duration, error) {
	c, now := s.configuration, r.opts.Now()
	if c.UID == "" { // it is gone
		return 0, nil
	}
	var wanted []metav1.Condition
	switch {
	case d.Reason == "":
	case d.True:
		wanted = append(wanted, status.True(hostsv1.ConditionPrebuilt, d.Reason, d.Message))
	default:
		wanted = append(wanted, status.False(hostsv1.ConditionPrebuilt, d.Reason, d.Message))
	}
	next := status.Next(c.Status.Conditions, wanted, c.Generation, now)
	if equality.Semantic.DeepEqual(status.Select(c.Status.Conditions, ours), next) {
		return 0, nil
	}
	was := meta.FindStatusCondition(c.Status.Conditions, hostsv1.ConditionPrebuilt)
	turned := (was == nil) != (len(next) == 0) || was != nil && len(next) > 0 && was.Reason != next[0].Reason
	if wait := w.told.Add(tellEvery).Sub(now); wait > 0 && !turned {
		return wait, nil
	}
	object := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: c.Name, UID: c.UID}}
	object.Status.Conditions = next
	if err := status.Apply(ctx, r.opts.Client, object, manager); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("write the status of MachineConfiguration %s: %w", c.Name, err)
	}
	w.told = now
	if turned {
		r.opts.Log.InfoContext(ctx, "prebuild", "configuration", c.Name, "reason", d.Reason+": "+d.Message)
	}
	return 0, nil
}
