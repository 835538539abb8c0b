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

// checkPause checks that nothing is sent for a paused group (S23).
func (w *world) checkPause(g groupID, what string) {
	w.mu.Lock()
	since, paused := w.paused[g]
	w.mu.Unlock()
	if paused {
		w.violate("S23", "%s, and the group is paused since %v", what, time.Since(since))
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
	w.checkPause(rec.group(), "create of "+name)
	if rec.again && (rec.spent || !rec.OnDemand) { // an id of a caller's own may be repeated until it is used
		w.violate("S18", "create of %s, which was given up before", name)
	}
	if !rec.asked {
		w.logf("%s is created", name)
	}
	w.truth.ask(req.InstanceID)
	if rec.OnDemand {
		return
	}
	bound := w.truth.largest(rec.group(), w.knewSince(p, rec.born.Add(-reaction))) + surge
	others := w.serving(rec.group(), req.InstanceID)
	if len(others) < bound {
		return
	}
	now, then := w.foundSick(p), w.truth.sickThen(req.InstanceID)
	others = slices.DeleteFunc(others, func(id identity.ID) bool { return now[id] || then[id] })
	if len(others) >= bound {
		w.violate("S5", "create of %s while %d machines of a group of %d and %d more run and are well: %v",
			name, len(others), bound-surge, surge, w.names(others))
	}
}

// serving are the managed machines of a group, but for one, that run, are not
// condemned, and have not been told that they end.
func (w *world) serving(g groupID, but identity.ID) []identity.ID {
	var all []identity.ID
	for _, vm := range w.vms(g) {
		rec := w.truth.record(vm.InstanceID)
		if rec != nil && rec.live() && !rec.OnDemand && !vm.Status.Down() && vm.InstanceID != but &&
			!w.machine(vm.InstanceID).told() {
			all = append(all, vm.InstanceID)
		}
	}
	return all
}

// foundSick are the instances that a process has found sick.
func (w *world) foundSick(p *process) map[identity.ID]bool {
	sick := map[identity.ID]bool{}
	term, err := p.shard.Term()
	if err != nil {
		return sick
	}
	for _, in := range term.Status().AllInstances() {
		if in.Status == string(fleet.Unhealthy) {
			sick[in.ID] = true
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
	w.checkPause(rec.group(), "delete of "+name)
	w.mu.Lock()
	acked, skew := w.acked[ref.InstanceID], w.skew
	w.mu.Unlock()
	due := rec.Deletion.DeleteAt.Time
	w.checkAcknowledged(p, name, rec)
	if !due.IsZero() && !acked && time.Now().Add(2*skew).Before(due) {
		w.violate("S20", "delete of %s, which runs, %v before its drain is over and without an acknowledgement", name, time.Until(due))
	}
}

// slowest is the longest that a leader may take to send the delete of what is
// drained, when calls fail for a while.
const slowest = 90 * time.Second

// checkAcknowledged checks that a drain ends with its acknowledgement, also under
// the next leader (L4). What is drained while its group is paused waits for the end of
// the pause (S23), and what is drained while the provider is out of reach for that.
func (w *world) checkAcknowledged(p *process, name string, rec *record) {
	w.mu.Lock()
	since, acked := w.ackedAt[rec.ID]
	resumed := w.resumed[rec.group()]
	w.mu.Unlock()
	if resumed.After(since) {
		since = resumed
	}
	for _, later := range []time.Time{p.leadsSince(), w.net.joined(p.box.name, theCloud)} {
		if later.After(since) {
			since = later
		}
	}
	due := rec.Deletion.DeleteAt.Time
	if acked && due.Sub(since) > slowest && !time.Now().Before(due) {
		w.violate("L4", "%s was drained %v ago under this leader, and went with the end of its timeout", name, time.Since(since))
	}
}

// checkRecord looks at every version of a record.
func (w *world) checkRecord(name string, old, next *record) {
	switch {
	case old == nil, next.again:
	case old.Deletion != nil && next.Deletion == nil && !mayTakeBack(old, next):
		w.violate("S15", "%s was condemned, and is not any more", name)
	case old.PublicKeyPEM != "" && old.PublicKeyPEM != next.PublicKeyPEM && old.Certificate.Serial == next.Certificate.Serial:
		w.violate("S9", "the public key of %s has changed", name)
	}
}

// mayTakeBack reports whether a removal may be taken back: by a later leader, and if
// nothing but the health of the instance was its reason and no drain had begun.
func mayTakeBack(old, next *record) bool {
	d := old.Deletion
	return next.Term > old.Term && d.Reason == string(fleet.ReasonUnhealthy) && d.DrainStartedAt.IsZero() && d.DrainAckedAt.IsZero()
}

// checkCondemned looks at the reason of a condemnation, and at how its write came (S6).
func (w *world) checkCondemned(name string, rec *record, came way) {
	w.mu.Lock()
	wished := w.wished[rec.ID] || w.acked[rec.ID]
	w.mu.Unlock()
	g := rec.group()
	switch reason := fleet.Reason(rec.Deletion.Reason); reason {
	case fleet.ReasonRequested:
		if !wished {
			w.violate("S6", "%s is condemned as requested, and nobody asked for it", name)
		}
	case fleet.ReasonScaleDown:
		w.checkScaleDown(name, g, came)
	case fleet.ReasonExpired, fleet.ReasonConfigDrift, fleet.ReasonForcedExpiry:
		w.checkReplaced(name, rec)
	case fleet.ReasonRegistrationTimeout, fleet.ReasonAbandoned:
		if !rec.RegisteredAt.IsZero() {
			w.violate("S6", "%s is condemned as %s, and it has registered", name, reason)
		}
	case fleet.ReasonGroupDeleted:
		w.checkGroupDeleted(name, g, came)
	case fleet.ReasonUnhealthy:
		w.checkRepair(name, rec)
	case fleet.ReasonNotFound:
		if vm, exists := w.cloud.Machine(rec.ID); exists && vm.Status == driver.Running {
			w.violate("S6", "%s is condemned as not found, and its machine runs", name)
		}
	}
}

// checkScaleDown checks that a size costs no more machines than it has to (S6). The
// write may have been long on its way, and others of the same plan went out with it: who
// is condemned since it was sent, and for no choice of the leader, counts as left.
func (w *world) checkScaleDown(name string, g groupID, came way) {
	left := w.truth.left(g, came.decided)
	if least := w.truth.smallest(g, w.knewSince(came.by, came.decided.Add(-reaction))); left < least {
		w.violate("S6", "%s is condemned as too many, and %d machines are left of %d", name, left, least)
	}
}

// checkReplaced checks that a machine which is replaced by choice goes after its
// replacement has registered (S7), and no other of its group with it (S8).
func (w *world) checkReplaced(name string, rec *record) {
	if rec.OnDemand {
		return
	}
	// While the write was on its way the replacement that it names may have ended, and
	// handed the place on to the one that had replaced it.
	if !w.joined(rec.Deletion.ReplacementID) && !w.followed(rec.ID) {
		w.violate("S7", "%s is condemned as %s before its replacement has registered", name, rec.Deletion.Reason)
	}
	if rec.Deletion.Reason == string(fleet.ReasonForcedExpiry) {
		return
	}
	for _, other := range w.truth.standing() {
		vm, exists := w.cloud.Machine(other.ID)
		if other.ID != rec.ID && other.group() == rec.group() && !other.OnDemand && exists && vm.Status == driver.Running &&
			other.Deletion != nil && fleet.Reason(other.Deletion.Reason) == fleet.Reason(rec.Deletion.Reason) {
			w.violate("S8", "%s is condemned as %s while %s goes for the same", name, rec.Deletion.Reason, w.nameOf(other.ID))
		}
	}
}

// joined reports whether a replacement has registered, or one that was made to take
// the place of that one.
func (w *world) joined(id identity.ID) bool {
	if rec := w.truth.record(id); rec == nil || !rec.RegisteredAt.IsZero() {
		return rec != nil
	}
	return w.followed(id)
}

// followed reports whether one that was made to take the place of an instance, or was
// handed it, has registered, or has been followed itself.
func (w *world) followed(id identity.ID) bool {
	for _, rec := range w.truth.standing() {
		if rec.Replaces == id && w.joined(rec.ID) {
			return true
		}
	}
	return false
}

// checkGroupDeleted checks that the group was deleted when that was decided (S6), and
// the bound of what may go in a minute that no caller named: max(10, a quarter of what
// lives) (S8).
func (w *world) checkGroupDeleted(name string, g groupID, came way) {
	t := w.truth
	if !t.wasGone(g, w.knewSince(came.by, came.decided.Add(-reaction))) {
		w.violate("S6", "%s is condemned as its group is deleted, which it was not", name)
	}
	t.w.mu.Lock()
	minute := time.Minute - 2*t.w.skew // as it is at least on a clock that is put forward
	t.w.mu.Unlock()
	t.mu.Lock()
	bound, went := 10, 0
	for _, e := range t.ends {
		if e.reason == string(fleet.ReasonGroupDeleted) && e.ran && time.Since(e.at) < minute {
			went++
			bound = max(bound, (e.live+3)/4)
		}
	}
	t.mu.Unlock()
	if went > bound {
		w.violate("S8", "%d machines of deleted groups are condemned within a minute, and %d are allowed", went, bound)
	}
}

// checkRepair checks the bound on the repair of machines that still run (S8).
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
	id, err := identity.DecodeNonceUnverified(nonce)
	if err != nil {
		w.violate("S9", "a nonce that makes no sense was accepted: %v", err)
		return
	}
	if rec := w.truth.record(identity.ID(id.Subject)); rec == nil || rec.PublicKeyPEM == "" {
		w.violate("S9", "a certificate was issued for %s before that was durable", w.nameOf(identity.ID(id.Subject)))
	}
	if used && first != public {
		w.violate("S9", "a second key was certified for one nonce")
	}
}
