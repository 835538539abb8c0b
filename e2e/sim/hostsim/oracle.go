package hostsim

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/controllers/hosts/versions"
)

// oracle checks each write. It knows what stands, and what the writer had read.
type oracle struct {
	w *world
	// locked is the content with which a number was locked, by the UID of its configuration and
	// the number.
	locked map[string]hostsv1.Template
	// used are the numbers of which a version could be locked.
	used map[string]bool
}

// basis is what somebody read last, before a write.
type basis struct {
	machine        *hostsv1.HostMachine
	configuration  *hostsv1.MachineConfiguration
	configurations []hostsv1.MachineConfiguration
	versions       []hostsv1.MachineConfigurationVersion
	machines       []hostsv1.HostMachine
}

// reader is the key under which a context says who reads.
type reader struct{}

// basisOf is what was read by whom the context is about. Handlers of events read too, several at
// once, and write nothing: what they read is not kept.
func (p *process) basisOf(ctx context.Context) *basis {
	who, _ := ctx.Value(reader{}).(string)
	key := cmp.Or(who, string(controller.ReconcileIDFromContext(ctx)))
	if key == "" {
		return &basis{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.basis[key] == nil {
		p.basis[key] = &basis{}
	}
	return p.basis[key]
}

// read notes what was read.
func (p *process) read(ctx context.Context, o any) {
	b := p.basisOf(ctx)
	switch o := o.(type) {
	case *hostsv1.HostMachine:
		b.machine = o.DeepCopy()
	case *hostsv1.MachineConfiguration:
		b.configuration = o.DeepCopy()
	case *hostsv1.MachineConfigurationList:
		b.configurations = o.DeepCopy().Items
	case *hostsv1.MachineConfigurationVersionList:
		b.versions = o.DeepCopy().Items
	case *hostsv1.HostMachineList:
		b.machines = o.DeepCopy().Items
	}
}

func key(uid string, number int32) string { return fmt.Sprintf("%s/%d", uid, number) }

// owner is the UID of the configuration that a version is of; empty: it has none.
func owner(v *hostsv1.MachineConfigurationVersion) string {
	if ref := metav1.GetControllerOf(v); ref != nil {
		return string(ref.UID)
	}
	return ""
}

// operator is whether a process wrote, and no user and none of the models.
func operator(by string) bool { return by == "a" || by == "b" }

// changed looks at each change.
func (o *oracle) changed(c objects.Change) {
	switch of := c.Object().(type) {
	case *hostsv1.MachineConfigurationVersion:
		before, _ := c.Before.(*hostsv1.MachineConfigurationVersion)
		after, _ := c.After.(*hostsv1.MachineConfigurationVersion)
		o.version(c.By, of, before, after)
	case *hostsv1.MachineConfiguration:
		before, _ := c.Before.(*hostsv1.MachineConfiguration)
		after, _ := c.After.(*hostsv1.MachineConfiguration)
		if before != nil && after != nil {
			o.numbers(before, after)
		}
	case *hostsv1.HostMachine:
		before, _ := c.Before.(*hostsv1.HostMachine)
		after, _ := c.After.(*hostsv1.HostMachine)
		if after != nil {
			o.assigned(before, after)
		}
	}
}

// numbers checks that the highest number never falls (M24), and notes which are used.
func (o *oracle) numbers(before, after *hostsv1.MachineConfiguration) {
	if after.Status.LatestVersion < before.Status.LatestVersion {
		o.w.violate("M24", "the highest number of %s falls from %d to %d", after.Name, before.Status.LatestVersion, after.Status.LatestVersion)
	}
	was, is := before.Status.PendingVersion, after.Status.PendingVersion
	if was == nil || is != nil && is.Number == was.Number {
		return
	}
	v, _ := objects.Find[*hostsv1.MachineConfigurationVersion](o.w.api.Store, fmt.Sprintf("%s-v%d", after.Name, was.Number))
	if v != nil && owner(v) == string(after.UID) && recorded(v) {
		o.used[key(string(after.UID), was.Number)] = true
	}
}

// recorded is whether machines may be built from a version: it was made while its number was reserved.
func recorded(v *hostsv1.MachineConfigurationVersion) bool { return v != nil && v.Status.Hash != "" }

// version checks that a number is used once (M24), that only what was reserved is used and nothing
// foreign is touched (M25), and that what is locked stays as it is (M26). The API server cannot know
// that an object is made too late: it may be, if it is not used.
func (o *oracle) version(by string, v, before, after *hostsv1.MachineConfigurationVersion) {
	uid := owner(v)
	k := key(uid, v.Spec.Version)
	configuration, _ := objects.Find[*hostsv1.MachineConfiguration](o.w.api.Store, string(v.Spec.ConfigurationName))
	ours := configuration != nil && string(configuration.UID) == uid
	if !operator(by) {
		return
	}
	if before != nil && uid == "" {
		o.w.violate("M25", "%s, which is of nobody, is written", v.Name)
	}
	if after == nil {
		return
	}
	if recorded(after) && !recorded(before) {
		if _, locked := o.locked[k]; locked || o.used[k] {
			o.w.violate("M24", "%s can be locked, and its number was used before", v.Name)
		}
		if ours && configuration.Status.LatestVersion < v.Spec.Version {
			o.w.violate("M25", "%s can be locked, and its number was never reserved", v.Name)
		}
		o.used[k] = !ours || configuration.Status.PendingVersion == nil || configuration.Status.PendingVersion.Number != v.Spec.Version
	}
	if before != nil && before.Status.Deployed {
		if !after.Status.Deployed || !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
			o.w.violate("M26", "%s is locked, and changes", v.Name)
		}
	}
	if after.Status.Deployed {
		if was, there := o.locked[k]; there && !equality.Semantic.DeepEqual(was, after.Spec.Template) {
			o.w.violate("M24", "%s is locked with other content than its number was before", v.Name)
		}
		o.locked[k] = after.Spec.Template
	}
}

// mayPublish checks, when a lock is said to be made, that it is, and of just that content (M22).
func (o *oracle) mayPublish(l versions.Locked) {
	was, there := o.locked[key(l.Reference.UID, l.Reference.Version)]
	switch {
	case !there:
		o.w.violate("M22", "%s is said to be locked, and is not", nameOf(l.Reference))
	case !equality.Semantic.DeepEqual(was, l.Template):
		o.w.violate("M22", "%s is said to hold what it was not locked with", nameOf(l.Reference))
	}
}

// assigned checks that what is published was locked (M22), and lets its Node join some time later.
func (o *oracle) assigned(before, after *hostsv1.HostMachine) {
	of := after.Status.Configuration
	if of == nil || of.Assigned == nil {
		return
	}
	if before != nil && before.Status.Configuration != nil && before.Status.Configuration.Assigned != nil &&
		before.Status.Configuration.Assigned.Epoch == of.Assigned.Epoch {
		return
	}
	if _, there := o.locked[key(of.Assigned.UID, of.Assigned.Version)]; !there {
		o.w.violate("M22", "%s is assigned to %s, and was never locked", nameOf(of.Assigned.VersionReference), after.Name)
	}
	o.w.joins(after.Name, of.Assigned.Epoch)
}

// deletes checks what a process deletes against what it had read: never what a machine refers to,
// never one of the newest, and never the one that can be edited, unless a newer one exists (M34).
func (o *oracle) deletes(b *basis, object client.Object) {
	v, ok := object.(*hostsv1.MachineConfigurationVersion)
	if !ok || b.configuration == nil {
		return
	}
	if owner(v) == string(b.configuration.UID) && !recorded(v) {
		if pending := b.configuration.Status.PendingVersion; pending != nil && pending.Number == v.Spec.Version {
			o.w.violate("M25", "%s is to be deleted, and is just being made", v.Name)
		}
		return
	}
	own := ownOf(b.configuration, b.versions)
	rank := slices.IndexFunc(own, func(other *hostsv1.MachineConfigurationVersion) bool { return other.Name == v.Name })
	limit := 10
	if b.configuration.Spec.RevisionHistoryLimit != nil {
		limit = int(*b.configuration.Spec.RevisionHistoryLimit)
	}
	for i := range b.machines {
		if refers(&b.machines[i], v.Name) {
			o.w.violate("M34", "%s is to be deleted, and %s refers to it", v.Name, b.machines[i].Name)
		}
	}
	switch {
	case rank < 0:
		o.w.violate("M25", "%s is to be deleted, and is not of %s", v.Name, b.configuration.Name)
	case rank == 0:
		o.w.violate("M34", "%s is to be deleted, and is the newest", v.Name)
	case v.Status.Deployed && rank < limit:
		o.w.violate("M34", "%s is to be deleted, and is among the %d newest", v.Name, limit)
	}
}

// ownOf are the versions of a configuration that machines may be built from, the newest first.
func ownOf(c *hostsv1.MachineConfiguration, all []hostsv1.MachineConfigurationVersion) (own []*hostsv1.MachineConfigurationVersion) {
	for i := range all {
		if owner(&all[i]) == string(c.UID) && recorded(&all[i]) {
			own = append(own, &all[i])
		}
	}
	slices.SortFunc(own, func(a, b *hostsv1.MachineConfigurationVersion) int {
		return cmp.Compare(b.Spec.Version, a.Spec.Version)
	})
	return own
}

// selects checks a choice that is written. A machine that was assigned by selector stays (M13), whatever the
// writer had read; one of a configuration that is paused keeps what it runs (M94), as far as the writer
// had read it.
func (o *oracle) selects(b *basis, stored, next *hostsv1.HostMachine) {
	m := b.machine
	if m == nil || next.Status.Configuration == nil || next.Status.Configuration.Desired == nil {
		return
	}
	desired := next.Status.Configuration.Desired
	if anchor := anchorOf(stored); anchor != nil {
		c, there := objects.Find[*hostsv1.MachineConfiguration](o.w.api.Store, string(anchor.Name))
		if there && string(c.GetUID()) == anchor.UID && desired.Name != anchor.Name {
			o.w.violate("M13", "%s was assigned by the selector of %s, and is moved to %s", m.Name, anchor.Name, desired.Name)
		}
	}
	i := slices.IndexFunc(b.configurations, func(c hostsv1.MachineConfiguration) bool { return c.Name == string(desired.Name) })
	if i < 0 || !b.configurations[i].Spec.Paused || m.Spec.ConfigurationRef != nil && m.Spec.ConfigurationRef.Version != nil {
		return
	}
	c := &b.configurations[i]
	own := ownOf(c, b.versions)
	version := func(number int32) *hostsv1.MachineConfigurationVersion {
		i := slices.IndexFunc(own, func(v *hostsv1.MachineConfigurationVersion) bool { return v.Spec.Version == number })
		if i < 0 {
			return nil
		}
		return own[i]
	}
	var applied *hostsv1.AppliedVersion
	if of := m.Status.Configuration; of != nil {
		applied = of.Applied
	}
	runs := applied != nil && string(applied.Name) == c.Name && applied.UID == string(c.UID) && version(applied.Version) != nil
	switch {
	case runs && desired.Version != applied.Version:
		o.w.violate("M94", "%s is paused, and %s, which runs version %d, is to get version %d", c.Name, m.Name, applied.Version, desired.Version)
	case !runs && !version(desired.Version).Status.Deployed:
		o.w.violate("M94", "%s is paused, and %s is to get version %d, which is not locked", c.Name, m.Name, desired.Version)
	}
}

// anchorOf is what a machine stays with; nil: with nothing.
func anchorOf(m *hostsv1.HostMachine) *hostsv1.VersionReference {
	of := m.Status.Configuration
	if m.Spec.ConfigurationRef != nil || m.Annotations[hostsv1.AnnotationReselect] != "" || of == nil || of.Source != hostsv1.SourceSelector || of.Assigned == nil {
		return nil
	}
	if of.Desired != nil {
		return of.Desired
	}
	return &of.Assigned.VersionReference
}
