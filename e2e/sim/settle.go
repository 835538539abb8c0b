package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/refusal"
)

// Bounds of what happens once no fault is active (L2, L3, L5); [settleTime] is that of L1.
const (
	settleCheck = 5 * time.Second
	takeover    = leaseTime*12/10 + 2*time.Second // L2, and the start of a process
	quietTime   = 3 * time.Minute
)

// heal ends every fault for good. In liveness mode the last server stays broken.
func (w *world) heal() {
	w.weather.clear()
	w.net.heal()
	w.cloud.SetRoom(drivertest.Place{}, -1)
	w.cloud.SetConditions(w.conditions())
	w.mu.Lock()
	w.barren = map[groupID]bool{}
	w.mu.Unlock()
	w.logf("all faults end")
	core := w.inOrder
	if w.plan.setting("mode") == "liveness" && len(core) > 1 {
		core = core[:len(core)-1]
		w.ruin(w.inOrder[len(core)])
	}
	for _, b := range core {
		if p := b.running(); p != nil {
			p.thaw()
		}
		b.start()
	}
	w.edit([]string{"eligible", "-"})
	w.unpauseAll()
	w.guest.Heal()
}

// ruin breaks a server for the rest of the run.
func (w *world) ruin(b *box) {
	const forever = 1000 * time.Hour
	switch w.dice.below(4, "ruin") {
	case 0:
		b.kill(false)
	case 1:
		w.freeze(b, forever)
	case 2:
		w.net.sever(b.name, theStore, forever)
	default:
		for _, other := range w.inOrder {
			w.net.sever(b.name, other.name, forever)
		}
		w.net.sever(theStore, b.name, forever)
	}
}

// settles waits until the shard is as everybody wants it, and reports whether that
// came true in time (S4, L1, L5).
func (w *world) settles() bool {
	limit := w.settleTime()
	deadline := time.Now().Add(limit)
	why := "?"
	for calm := 0; time.Now().Before(deadline); {
		_ = pause(w.ctx, settleCheck)
		if why = w.unsettled(); why != "" {
			calm = 0
			continue
		}
		if calm++; calm == 3 {
			w.logf("all is as it should be")
			w.readAll()
			return true
		}
	}
	w.violate("L1", "%v after the last fault: %s", limit, why)
	return false
}

// readAll lets the history end with reads of everything (S15).
func (w *world) readAll() {
	w.list("default")
	w.list("b")
	if wrong := w.history.check(); wrong != "" {
		w.violate("S15", "%s", wrong)
	}
}

// unsettled says what is not as it should be; empty if everything is.
func (w *world) unsettled() string {
	p := w.leader()
	if p == nil {
		return "nobody leads"
	}
	records := w.truth.standing()
	counts := map[groupID]int{}
	for _, vm := range w.cloud.Machines() {
		rec := records[vm.InstanceID]
		switch {
		case w.isPlanted(vm.InstanceID):
			if !held(p, vm.InstanceID) {
				return fmt.Sprintf("the foreign machine %s is not held", vm.InstanceID)
			}
			continue
		case rec == nil:
			return fmt.Sprintf("machine %s (%s) has no record", w.nameOf(vm.InstanceID), vm.Status)
		case vm.Status != driver.Running:
			return fmt.Sprintf("machine %s is %s", w.nameOf(vm.InstanceID), vm.Status)
		case rec.Deletion != nil:
			return fmt.Sprintf("machine %s is condemned (%s) and runs", w.nameOf(vm.InstanceID), rec.Deletion.Reason)
		case rec.RegisteredAt.IsZero():
			return fmt.Sprintf("machine %s has not registered", w.nameOf(vm.InstanceID))
		case !w.machine(vm.InstanceID).connected(p):
			return fmt.Sprintf("machine %s is not connected", w.nameOf(vm.InstanceID))
		case w.truth.outdated(rec):
			return fmt.Sprintf("machine %s was made from an older configuration", w.nameOf(vm.InstanceID))
		case w.weather.dooms(vm.InstanceID):
			return fmt.Sprintf("machine %s is to fail soon", w.nameOf(vm.InstanceID))
		case w.machine(vm.InstanceID).doomed():
			return fmt.Sprintf("machine %s hangs or is to end, and nobody has noticed", w.nameOf(vm.InstanceID))
		}
		delete(records, vm.InstanceID)
		if !rec.OnDemand {
			counts[rec.group()]++
		}
	}
	for id, rec := range records {
		if known(rec) {
			continue
		}
		return fmt.Sprintf("the record of %s has no machine (%s, deletion %+v)", w.nameOf(id), rec.Status, rec.Deletion)
	}
	for _, g := range w.truth.groupsNow() {
		if size := w.truth.size(g); counts[g] != size.size {
			return fmt.Sprintf("group %s has %d machines of %d", g, counts[g], size.size)
		}
	}
	return w.guest.Unsettled()
}

// retention is how long an instance on demand is known after its end.
const retention = 30 * time.Minute

// known reports whether a record stands so that the id of an instance on demand that has
// ended is not used again (S18).
func known(rec *record) bool {
	return rec.OnDemand && rec.Deletion != nil && !rec.Deletion.GoneAt.IsZero() && time.Since(rec.Deletion.GoneAt.Time) <= retention
}

func (w *world) isPlanted(id identity.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.planted[id]
}

// held reports whether a leader holds a machine and says so (S4).
func held(p *process, id identity.ID) bool {
	term, err := p.shard.Term()
	if err != nil {
		return false
	}
	for _, h := range term.Unmanaged() {
		if h.VM.ID == id || h.Machine.InstanceID == id {
			return true
		}
	}
	return false
}

// restartAll kills every server with its cache, and checks that the next one finds
// everything as it was and changes nothing (S15, S16, L2).
func (w *world) restartAll() {
	before, made := w.census(), w.cloud.Created()
	var broken []*box
	for _, b := range w.inOrder {
		if p := b.running(); p == nil || p.stuck() {
			broken = append(broken, b)
			continue
		}
		b.kill(false)
	}
	for _, b := range w.inOrder {
		if !slices.Contains(broken, b) {
			b.start()
		}
	}
	died := time.Now()
	for w.leader() == nil && time.Since(died) < 10*takeover {
		_ = pause(w.ctx, 100*time.Millisecond)
	}
	if took := time.Since(died); took > takeover {
		w.violate("L2", "nobody leads for %v after a crash", took)
	}
	w.returns()
	w.lockedOut()
	_ = pause(w.ctx, quietTime)
	if why := w.unsettled(); why != "" {
		w.violate("S16", "after all servers have lost their caches: %s", why)
	}
	if after := w.census(); !maps.Equal(before, after) || w.cloud.Created() != made {
		w.violate("S16", "the machines are others after all servers have lost their caches: %d were made", w.cloud.Created()-made)
	}
	w.readAll()
}

// returns waits until every agent is back after a change of leader (L6).
func (w *world) returns() {
	const bound = 30 * time.Second
	p := w.leader()
	if p == nil {
		return
	}
	serves := time.Now()
	for {
		missing := ""
		for _, vm := range w.cloud.Machines() {
			if m := w.machine(vm.InstanceID); m != nil && vm.Status == driver.Running && !m.connected(p) {
				missing = m.name
			}
		}
		switch took := time.Since(serves); {
		case missing == "":
			return
		case took > bound:
			w.violate("L6", "%s is not back %v after %s began to serve", missing, took, p.box.name)
			return
		}
		_ = pause(w.ctx, 100*time.Millisecond)
	}
}

// lockedOut shows the leader the certificate of every instance that has ended (S13).
func (w *world) lockedOut() {
	p := w.leader()
	if p == nil {
		return
	}
	term, err := p.shard.Term()
	if err != nil {
		return
	}
	w.mu.Lock()
	machines := slices.Collect(maps.Values(w.machines))
	w.mu.Unlock()
	for _, m := range machines {
		rec, peer := w.truth.record(m.id), m.peerNow()
		if rec == nil || rec.removed.IsZero() || peer == (identity.Peer{}) {
			continue
		}
		if err := term.Agents().Admit(peer); !refusedWith(err, refusal.PermissionDenied) {
			w.violate("S13", "the certificate of %s, which is deleted, is answered with: %v", m.name, err)
		}
	}
}

// census is every machine with its status.
func (w *world) census() map[identity.ID]driver.Status {
	all := map[identity.ID]driver.Status{}
	for _, vm := range w.cloud.Machines() {
		all[vm.InstanceID] = vm.Status
	}
	return all
}
