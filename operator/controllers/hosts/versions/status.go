package versions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
	"nstance.dev/operator/status"
)

// writeStatuses writes what there is to say of a configuration and its versions, where that is
// something new. Counters alone wait for their time.
func (r *Reconciler) writeStatuses(ctx context.Context, w *work, seen *observation) (ctrl.Result, error) {
	now := r.opts.Now()
	wait := w.counted.Add(countEvery).Sub(now)
	next := seen.configuration.DeepCopy()
	next.Status = configurationStatus(seen, now)
	var errs []error
	counted, again := false, false
	proven := time.Duration(0) // when the next version will be proven; 0: none is about to be
	write := func(differs, urgent bool, patch func() error) {
		switch {
		case !differs:
		case urgent || wait <= 0:
			errs = append(errs, patch())
			counted = true
		default:
			again = true
		}
	}
	write(!equality.Semantic.DeepEqual(next.Status, seen.configuration.Status), !sameButMachines(&next.Status, &seen.configuration.Status), func() error {
		return r.patchStatus(ctx, next, seen.configuration)
	})
	for i := range seen.versions {
		v := &seen.versions[i]
		if !metav1.IsControlledBy(v, seen.configuration) || !v.DeletionTimestamp.IsZero() {
			continue
		}
		if after := versions.HealthOf(v.Spec.ConfigurationName, v.Spec.Version, seen.machines, now).After; after > 0 && (proven == 0 || after < proven) {
			proven = after
		}
		next := v.DeepCopy()
		next.Status = versionStatus(v, seen, now)
		write(!equality.Semantic.DeepEqual(next.Status, v.Status), next.Status.Hash != v.Status.Hash, func() error { return r.patchStatus(ctx, next, v) })
	}
	if counted {
		w.counted = now
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, fmt.Errorf("statuses of MachineConfiguration %s: %w", next.Name, err)
	}
	if again {
		return status.Deferred(wait, proven), nil
	}
	return ctrl.Result{RequeueAfter: proven}, nil
}

func sameButMachines(a, b *hostsv1.MachineConfigurationStatus) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	x.Machines, y.Machines = nil, nil
	return equality.Semantic.DeepEqual(x, y)
}

// configurationStatus is what there is to say of a configuration. What others write is kept.
func configurationStatus(seen *observation, now time.Time) hostsv1.MachineConfigurationStatus {
	c, s := seen.configuration, seen.state()
	sum := versions.Summarize(s)
	next := *c.Status.DeepCopy()
	next.ObservedGeneration, next.TemplateHash = c.Generation, s.Template
	next.EditableVersion, next.LatestDeployedVersion = sum.Editable, sum.Deployed
	next.Machines = count(c, seen.machines)
	next.Conditions = c.Status.Conditions
	for _, condition := range conditions(c, sum) {
		next.Conditions = status.With(next.Conditions, condition, c.Generation, now)
	}
	return next
}

// conditions are those of a configuration that are known here.
func conditions(c *hostsv1.MachineConfiguration, sum versions.Summary) []metav1.Condition {
	synced := status.True(hostsv1.ConditionVersionsSynced, hostsv1.ReasonSynced, "the newest version holds the template")
	switch {
	case sum.Conflict > 0:
		synced = status.False(hostsv1.ConditionVersionsSynced, hostsv1.ReasonNameConflict,
			fmt.Sprintf("%s exists and was not made for this MachineConfiguration; the next number is tried", versions.Name(c.Name, sum.Conflict)))
	case !sum.Synced:
		synced = status.False(hostsv1.ConditionVersionsSynced, hostsv1.ReasonWriting, "the newest version does not hold the template yet")
	}
	return []metav1.Condition{synced}
}

// count counts the machines of a configuration.
func count(c *hostsv1.MachineConfiguration, machines []hostsv1.HostMachine) *hostsv1.ConfigurationMachines {
	n := &hostsv1.ConfigurationMachines{}
	for i := range machines {
		m := &machines[i]
		of := m.Status.Configuration
		if of == nil {
			continue
		}
		if of.Applied != nil && string(of.Applied.Name) == c.Name {
			n.Applied++
		}
		if of.Desired == nil || string(of.Desired.Name) != c.Name {
			continue
		}
		n.Selected++
		if p := m.Status.Prebuild; p != nil && p.State == hostsv1.PrebuildDone && string(p.Name) == c.Name && p.UID == string(c.UID) && p.Version == c.Status.LatestVersion {
			n.Prebuilt++
		}
		if of.Applied != nil {
			if a, d := of.Applied.VersionReference, of.Desired; a.Name != d.Name || a.Version != d.Version || a.UID != d.UID {
				n.Outdated++
			}
			if !meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionReady) {
				n.Unavailable++
			}
		}
		if meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionRepaveFailed) {
			n.Failed++
		}
		if meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionConfigurationDrifted) {
			n.Drifted++
		}
	}
	return n
}

// versionStatus is what there is to say of a version.
func versionStatus(v *hostsv1.MachineConfigurationVersion, seen *observation, now time.Time) hostsv1.MachineConfigurationVersionStatus {
	next := *v.Status.DeepCopy()
	if versions.Recorded(v) {
		next.Hash = versions.Hash(&v.Spec.Template)
	}
	next.Machines, next.AppliedMachines, next.ReadyMachines = 0, 0, 0
	for i := range seen.machines {
		m := &seen.machines[i]
		for _, ref := range versions.Of(m) {
			if ref.Name == v.Spec.ConfigurationName && ref.Version == v.Spec.Version {
				next.Machines++
			}
		}
		if of := m.Status.Configuration; of != nil && of.Applied != nil && of.Applied.Name == v.Spec.ConfigurationName && of.Applied.Version == v.Spec.Version {
			next.AppliedMachines++
			if meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionReady) {
				next.ReadyMachines++
			}
		}
	}
	next.Conditions = versionConditions(v, now)
	health := versions.HealthOf(v.Spec.ConfigurationName, v.Spec.Version, seen.machines, now)
	if healthy, known := healthCondition(health); known {
		next.Conditions = status.With(next.Conditions, healthy, v.Generation, now)
	}
	if health.Proven && next.ProvenAt == nil {
		at := metav1.NewTime(now.Truncate(time.Second))
		next.ProvenAt = &at
	}
	return next
}

// healthCondition is what machines have shown of a version; false: nothing new, and what was known stays. A
// version never changes, so what it has shown is about it for ever, until it shows the contrary.
func healthCondition(h versions.Health) (metav1.Condition, bool) {
	switch {
	case h.Proven:
		return status.True(hostsv1.ConditionHealthy, hostsv1.ReasonProven, "a machine that was built from it has been ready for 5 minutes"), true
	case h.Bad:
		return status.False(hostsv1.ConditionHealthy, hostsv1.ReasonMachinesFailed, "machines failed to be built from it, and none is ready with it; selectors choose the version before it"), true
	}
	return metav1.Condition{}, false
}

// versionConditions are those of a version, with the ones that others write.
func versionConditions(v *hostsv1.MachineConfigurationVersion, now time.Time) []metav1.Condition {
	locked := status.False(hostsv1.ConditionLocked, hostsv1.ReasonEditable, "no machine was assigned to it; a change of the template goes into it")
	switch {
	case v.Status.Deployed:
		locked = status.True(hostsv1.ConditionLocked, hostsv1.ReasonAssigned, "a machine was assigned to it; it never changes")
	case !versions.Recorded(v):
		locked = status.False(hostsv1.ConditionLocked, hostsv1.ReasonTooLate,
			"it was created after its number had been used; no machine is built from it, and it is deleted once no machine refers to it")
	}
	return status.With(v.Status.Conditions, locked, v.Generation, now)
}
