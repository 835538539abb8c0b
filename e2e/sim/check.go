package sim

import (
	"crypto/ed25519"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
)

// surge is how many machines a group may have beyond its size while it replaces.
const surge = 1

// reaction is how long a leader may go on with a size that has just changed.
const reaction = 10 * time.Second

// checkLease checks that a process may act (S2).
func (w *world) checkLease(p *process, what string) {
	if age := p.leaseAge(); age > leaseTime-leaseMargin {
		w.violate("S2", "%s by %s, whose last renewal was sent %v ago", what, p.box.name, age)
	}
}

// checkCreate looks at every create call as it is sent.
func (w *world) checkCreate(p *process, req driver.CreateRequest) {
	name := w.nameOf(req.InstanceID)
	w.checkLease(p, "create of "+name)
	rec := w.truth.record(req.InstanceID)
	if rec == nil || !rec.removed.IsZero() {
		w.violate("S3", "create of %s without its record", name)
		return
	}
	if rec.again {
		w.violate("S18", "create of %s, which was given up before", name)
	}
	if !rec.asked {
		w.logf("%s is created", name)
	}
	w.truth.ask(req.InstanceID)
	if rec.OnDemand {
		return
	}
	bound := w.truth.largest(rec.group(), rec.born.Add(-reaction)) + surge
	others := w.serving(rec.group(), req.InstanceID)
	if len(others) < bound {
		return
	}
	sick := w.foundSick(p)
	others = slices.DeleteFunc(others, func(id identity.ID) bool { return sick[id] })
	if len(others) >= bound {
		w.violate("S5", "create of %s while %d machines of a group of %d and %d more run and are well: %v",
			name, len(others), bound-surge, surge, w.names(others))
	}
}

// serving are the managed machines of a group, but for one, that run and are not
// condemned.
func (w *world) serving(g groupID, but identity.ID) []identity.ID {
	var all []identity.ID
	for _, vm := range w.vms(g) {
		rec := w.truth.record(vm.InstanceID)
		if rec != nil && rec.live() && !rec.OnDemand && !vm.Status.Down() && vm.InstanceID != but {
			all = append(all, vm.InstanceID)
		}
	}
	return all
}

// foundSick are the instances that a process has found sick.
func (w *world) foundSick(p *process) map[identity.ID]bool {
	sick := map[identity.ID]bool{}
	reign, err := p.shard.Reign()
	if err != nil {
		return sick
	}
	for _, in := range reign.Instances() {
		if in.Status == string(fleet.Unhealthy) {
			sick[identity.ID(in.InstanceId)] = true
		}
	}
	return sick
}

func (w *world) names(ids []identity.ID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = w.nameOf(id)
	}
	return names
}

// checkDelete looks at every delete call as it is sent.
func (w *world) checkDelete(p *process, ref driver.Ref) {
	name := w.nameOf(ref.InstanceID)
	w.checkLease(p, "delete of "+name)
	rec := w.truth.record(ref.InstanceID)
	if rec == nil || rec.Deletion == nil {
		w.violate("S6", "delete of %s, for which no reason is stored", name)
		return
	}
	vm, exists := w.cloud.Machine(ref.InstanceID)
	if !exists || vm.Status.Down() {
		return
	}
	w.logf("%s is deleted", name)
	w.mu.Lock()
	acked, skew := w.acked[ref.InstanceID], w.skew
	w.mu.Unlock()
	due := rec.Deletion.DeleteAt.Time
	if !due.IsZero() && !acked && time.Now().Add(2*skew).Before(due) {
		w.violate("S20", "delete of %s, which runs, %v before its drain is over and without an acknowledgement", name, time.Until(due))
	}
}

// checkRecord looks at every version of a record.
func (w *world) checkRecord(name string, old, next *record) {
	switch {
	case old == nil, next.again:
	case old.Deletion != nil && next.Deletion == nil:
		w.violate("S15", "%s was condemned, and is not any more", name)
	case old.PublicKeyPEM != "" && old.PublicKeyPEM != next.PublicKeyPEM && old.Certificate.Serial == next.Certificate.Serial:
		w.violate("S9", "the public key of %s has changed", name)
	}
}

// checkCondemned looks at the reason of a condemnation (S6).
func (w *world) checkCondemned(name string, rec *record) {
	w.mu.Lock()
	wished := w.wished[rec.ID] || w.acked[rec.ID]
	w.mu.Unlock()
	g := rec.group()
	switch reason := fleet.Reason(rec.Deletion.Reason); reason {
	case fleet.ReasonRequested:
		if !wished {
			w.violate("S6", "%s is condemned as requested, and nobody asked for it", name)
		}
	case fleet.ReasonRegistrationTimeout, fleet.ReasonAbandoned:
		if !rec.RegisteredAt.IsZero() {
			w.violate("S6", "%s is condemned as %s, and it has registered", name, reason)
		}
	case fleet.ReasonGroupDeleted:
		w.checkGroupDeleted(name, g)
	case fleet.ReasonUnhealthy:
		w.checkRepair(name, rec)
	case fleet.ReasonNotFound:
		if vm, exists := w.cloud.Machine(rec.ID); exists && vm.Status == driver.Running {
			w.violate("S6", "%s is condemned as not found, and its machine runs", name)
		}
	}
}

// checkGroupDeleted checks that the group is deleted, and the bound of what may
// go in a minute that no caller named (S8, §7.3: max(10, a quarter of what lives)).
func (w *world) checkGroupDeleted(name string, g groupID) {
	t := w.truth
	if !t.size(g).gone {
		w.violate("S6", "%s is condemned as its group is deleted, which it is not", name)
	}
	t.mu.Lock()
	bound, went := 10, 0
	for _, e := range t.ends {
		if e.reason == string(fleet.ReasonGroupDeleted) && e.ran && time.Since(e.at) < time.Minute {
			went++
			bound = max(bound, (e.live+3)/4)
		}
	}
	t.mu.Unlock()
	if went > bound {
		w.violate("S8", "%d machines of deleted groups are condemned within a minute, and %d are allowed", went, bound)
	}
}

// checkRepair checks the bound on the repair of machines that still run (S8, §7.3).
func (w *world) checkRepair(name string, rec *record) {
	if vm, exists := w.cloud.Machine(rec.ID); !exists || vm.Status != driver.Running {
		return
	}
	leaving := 0
	for _, other := range w.truth.standing() {
		vm, exists := w.cloud.Machine(other.ID)
		if other.group() == rec.group() && other.Deletion != nil && other.Deletion.Reason == string(fleet.ReasonUnhealthy) &&
			exists && vm.Status == driver.Running && !other.OnDemand {
			leaving++
		}
	}
	if bound := max(1, (w.truth.largest(rec.group(), rec.condemned.Add(-time.Minute))+9)/10); leaving > bound && !rec.OnDemand {
		w.violate("S8", "%s is the %dth machine under repair that still runs, and %d are allowed", name, leaving, bound)
	}
}

// checkCertificate checks that a nonce certifies one key (S9).
func (w *world) checkCertificate(nonce string, key ed25519.PrivateKey) {
	public := string(key.Public().(ed25519.PublicKey))
	w.mu.Lock()
	first, used := w.keyOf[nonce]
	if !used {
		w.keyOf[nonce] = public
	}
	w.mu.Unlock()
	if used && first != public {
		w.violate("S9", "a second key was certified for one nonce")
	}
}
