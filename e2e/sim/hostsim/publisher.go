package hostsim

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// publishable are the machines that the publisher of a process may begin with now: those without an
// assignment, and those whose Node is gone.
func (p *process) publishable(now time.Time) (all []string) {
	for _, m := range objects.Known[*hostsv1.HostMachine](p.cache.View) {
		if m.Status.Configuration == nil || m.Status.Configuration.Desired == nil {
			continue
		}
		of := m.Status.Configuration
		wanted := of.Assigned == nil || p.w.repave[m.Name] == of.Assigned.Epoch
		p.mu.Lock()
		free := !p.publishing[m.Name] && !p.pause[m.Name].After(now)
		p.mu.Unlock()
		if wanted && free && !p.versionsBusy(string(of.Desired.Name)) {
			all = append(all, m.Name)
		}
	}
	return all
}

// publish locks the version that a machine is to be built from, stops, and assigns it.
func (p *process) publish(machine string) {
	m := &hostsv1.HostMachine{}
	if err := p.cache.Get(p.ctx, client.ObjectKey{Name: machine}, m); err != nil {
		return // it has just been deleted
	}
	desired := *m.Status.Configuration.Desired
	p.mu.Lock()
	p.publishing[machine], p.locking[string(desired.Name)] = true, true
	p.mu.Unlock()
	go func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.publishing, machine)
			p.pause[machine] = time.Now().Add(time.Second)
		}()
		ctx := context.WithValue(p.ctx, reader{}, "the publisher of "+machine)
		locked, err := p.versions.Lock(ctx, string(desired.Name), desired.Version, machine)
		if err == nil && !p.isDead() {
			p.w.oracle.mayPublish(locked)
		}
		p.mu.Lock()
		delete(p.locking, string(desired.Name))
		p.mu.Unlock()
		if err != nil {
			p.w.notef("%s: %s gets no version: %v", p.name, machine, err)
			return
		}
		if err := p.call("go on with "+machine+" between lock and publication", false, func() error { return nil }); err != nil {
			return
		}
		next := m.DeepCopy()
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		epoch := int64(1)
		if was := m.Status.Configuration.Assigned; was != nil {
			epoch = was.Epoch + 1
		}
		next.Status.Configuration.Assigned = &hostsv1.AssignedVersion{VersionReference: locked.Reference, Epoch: epoch, At: &now}
		patch := client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{})
		_ = p.client.Status().Patch(ctx, next, patch, client.FieldOwner("publisher")) // the history says what came of it
	}()
}

// join is a Node that comes up.
type join struct {
	at      time.Time
	machine string
	epoch   int64
}

// joined says that the Node of a machine was built from what is assigned.
func (w *world) joined(j join) {
	w.change("host", "the Node has joined", &hostsv1.HostMachine{}, j.machine, func(o client.Object) bool {
		m, ok := o.(*hostsv1.HostMachine)
		if !ok || m.Status.Configuration == nil || m.Status.Configuration.Assigned == nil || m.Status.Configuration.Assigned.Epoch != j.epoch {
			return false
		}
		of := m.Status.Configuration
		if of.Applied != nil {
			of.Previous = &of.Applied.VersionReference
		}
		of.Applied = &hostsv1.AppliedVersion{VersionReference: of.Assigned.VersionReference}
		return true
	})
}
