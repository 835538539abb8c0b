package versions

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
)

// errReferenced: a version is not deleted, because a machine refers to it.
var errReferenced = errors.New("a machine refers to the version")

// carryOut makes one write.
func (r *Reconciler) carryOut(ctx context.Context, seen *observation, step versions.Step) error {
	c := seen.configuration
	name := versions.Name(c.Name, step.Number)
	var err error
	switch step.Action {
	case versions.Raise, versions.Reserve, versions.Clear:
		err = r.number(ctx, seen, step)
	case versions.Create:
		err = r.create(ctx, c, step)
	case versions.Record:
		err = r.record(ctx, seen, step.Number)
	case versions.Copy:
		v := seen.version(step.Number).DeepCopy()
		v.Spec.Template = *c.Spec.Template.DeepCopy()
		err = r.opts.Client.Update(ctx, v)
	case versions.Lock:
		err = r.lockUnassigned(ctx, seen, step.Number)
	case versions.Delete:
		err = r.delete(ctx, seen, step)
	default:
		panic(fmt.Sprintf("versions: unknown action %s", step.Action))
	}
	if err != nil {
		return fmt.Errorf("%s version %s: %w", step.Action, name, err)
	}
	if step.Action != versions.Lock { // which has counted itself
		r.opts.Wrote(string(step.Action))
	}
	log.FromContext(ctx).Info("wrote version", "action", string(step.Action), "version", name, "reason", step.Reason)
	return nil
}

// number writes what the configuration's status says of numbers.
func (r *Reconciler) number(ctx context.Context, seen *observation, step versions.Step) error {
	next := seen.configuration.DeepCopy()
	switch step.Action {
	case versions.Clear:
		next.Status.PendingVersion = nil
	case versions.Reserve:
		next.Status.PendingVersion = &hostsv1.PendingVersion{Number: step.Number, Hash: step.Template}
		fallthrough
	case versions.Raise:
		next.Status.LatestVersion = step.Number
	}
	if conflict := versions.Summarize(seen.state()).Conflict; step.Action == versions.Reserve && conflict > 0 {
		r.opts.Events.Eventf(next, nil, corev1.EventTypeWarning, hostsv1.EventVersionNameConflict, "Version",
			"%s exists and was not made for this MachineConfiguration; it is left alone, and version %d is next", versions.Name(next.Name, conflict), step.Number)
	}
	return r.patchStatus(ctx, next, seen.configuration)
}

// patchStatus writes a status, unless the object has changed since.
func (r *Reconciler) patchStatus(ctx context.Context, next, was client.Object) error {
	return r.opts.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), manager)
}

func (r *Reconciler) create(ctx context.Context, c *hostsv1.MachineConfiguration, step versions.Step) error {
	v := &hostsv1.MachineConfigurationVersion{
		ObjectMeta: metav1.ObjectMeta{
			Name: versions.Name(c.Name, step.Number),
			Labels: map[string]string{
				hostsv1.LabelConfiguration: c.Name,
				hostsv1.LabelVersion:       strconv.Itoa(int(step.Number)),
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, hostsv1.GroupVersion.WithKind(hostsv1.KindMachineConfiguration))},
		},
		Spec: hostsv1.MachineConfigurationVersionSpec{
			ConfigurationName: hostsv1.ConfigurationName(c.Name), Version: step.Number, Template: *c.Spec.Template.DeepCopy(),
		},
	}
	return r.opts.Client.Create(ctx, v)
}

// record records the very version that was seen while its number was reserved.
func (r *Reconciler) record(ctx context.Context, seen *observation, number int32) error {
	v := seen.version(number)
	next := v.DeepCopy()
	next.Status.Hash = versions.Hash(&v.Spec.Template)
	next.Status.Conditions = versionConditions(next, r.opts.Now())
	if err := r.patchStatus(ctx, next, v); err != nil {
		return err
	}
	r.opts.Events.Eventf(seen.configuration, next, corev1.EventTypeNormal, hostsv1.EventVersionCreated, "Version", "created version %s", v.Name)
	return nil
}

// delete deletes the very version that was seen. The API server refuses it if a machine refers to the
// version by now.
func (r *Reconciler) delete(ctx context.Context, seen *observation, step versions.Step) error {
	v := seen.version(step.Number)
	err := r.opts.Client.Delete(ctx, v, client.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion})
	if refusedByPolicy(err) {
		return fmt.Errorf("%w: %w", errReferenced, err)
	}
	if err != nil {
		return err
	}
	r.opts.Events.Eventf(seen.configuration, v, corev1.EventTypeNormal, hostsv1.EventVersionPruned, "Version", "deleted version %s: %s", v.Name, step.Reason)
	return nil
}

// refusedByPolicy is whether an admission policy refused what was asked for. The operator itself may lack the
// right, which is also said by 403, and is told as any other error.
func refusedByPolicy(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") && strings.Contains(err.Error(), "denied request")
}
