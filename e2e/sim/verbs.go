package sim

import (
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/pki"
)

// verbs are what events do. Those that name a machine give its group and a number,
// which counts the machines that there are, over and over.
var verbs map[string]func(*world, []string)

func init() { //nolint:gochecknoinits // the parser of plans knows the verbs, and the verbs the world
	verbs = map[string]func(*world, []string){
		// upsert GROUP SIZE; delete-group GROUP; create GROUP: calls of operators.
		"upsert":       func(w *world, a []string) { w.later(func() { w.upsert(parseGroup(a[0]), mustNumber(a[1])) }) },
		"delete-group": func(w *world, a []string) { w.later(func() { w.deleteGroup(parseGroup(a[0])) }) },
		"create":       func(w *world, a []string) { w.later(func() { w.create(parseGroup(a[0])) }) },
		// remove, decrement, discard, ack GROUP N: calls about one machine. Discard skips
		// the drain; ack says that it is over, whether it began or not.
		"remove":    onMachine(func(w *world, id identity.ID) { w.later(func() { w.remove(id, false, false) }) }),
		"decrement": onMachine(func(w *world, id identity.ID) { w.later(func() { w.remove(id, true, false) }) }),
		"discard":   onMachine(func(w *world, id identity.ID) { w.later(func() { w.remove(id, false, true) }) }),
		"ack":       onMachine(func(w *world, id identity.ID) { w.later(func() { w.acknowledge(id, w.machine(id).group.tenant) }) }),
		// drained: whoever drains says so of every machine that drains now.
		"drained": func(w *world, _ []string) { w.acknowledgeAll() },
		// pause GROUP DURATION: decisions of the group are made and not carried out.
		"pause": func(w *world, a []string) { w.later(func() { w.pause(parseGroup(a[0]), mustDuration(a[1])) }) },
		// config NAME VALUE …: an edit of the configuration file.
		"config": func(w *world, a []string) { w.edit(a) },

		// kill, halt, vanish GROUP N: what happens to a VM.
		"kill": onMachine(func(w *world, id identity.ID) { w.strike(id, "fails", func() { w.cloud.Kill(id) }) }),
		"halt": onMachine(func(w *world, id identity.ID) {
			w.strike(id, "stops", func() { w.cloud.SetStatus(id, driver.Stopped) })
		}),
		"vanish": onMachine(func(w *world, id identity.ID) { w.strike(id, "is removed by hand", func() { w.cloud.Remove(id) }) }),
		// hang, reboot, restart GROUP N: what happens to an agent. A restart says goodbye.
		"hang":    onMachine(func(w *world, id identity.ID) { w.hang(id) }),
		"reboot":  onMachine(func(w *world, id identity.ID) { w.machine(id).restart(false) }),
		"restart": onMachine(func(w *world, id identity.ID) { w.machine(id).restart(true) }),
		// hold GROUP N REASON DURATION; unhold GROUP N: what somebody wants of a machine.
		"hold": func(w *world, a []string) {
			onMachine(func(w *world, id identity.ID) {
				w.later(func() { w.hold(id, fleet.HoldReason(a[2]), mustDuration(a[3])) })
			})(w, a)
		},
		"unhold": onMachine(func(w *world, id identity.ID) { w.later(func() { w.unhold(id) }) }),
		// away GROUP N DURATION, forget GROUP N DURATION: somebody puts a machine on hold and
		// switches it off, and on again after that time, or never.
		"away": func(w *world, a []string) {
			onMachine(func(w *world, id identity.ID) { w.later(func() { w.away(id, mustDuration(a[2]), false) }) })(w, a)
		},
		"forget": func(w *world, a []string) {
			onMachine(func(w *world, id identity.ID) { w.later(func() { w.away(id, mustDuration(a[2]), true) }) })(w, a)
		},
		// cycle GROUP N: the servers are to switch a machine off and on. It needs the setting hosts.
		"cycle": onMachine(func(w *world, id identity.ID) { w.later(func() { w.cycle(id) }) }),
		// notice GROUP N: the provider takes a VM back in two minutes.
		"notice": onMachine(func(w *world, id identity.ID) { w.notice(id, 2*time.Minute) }),
		// steal GROUP N: a thief uses the nonce of a machine.
		"steal": onMachine(func(w *world, id identity.ID) { w.later(func() { w.steal(id) }) }),
		// barren GROUP yes|no: machines that boot from now on never register.
		"barren": func(w *world, a []string) { w.setBarren(parseGroup(a[0]), a[1] == "yes") },

		// crash SERVER keep|lose: a kill, with or without the cache directory.
		"crash": func(w *world, a []string) { w.boxes[a[0]].kill(a[1] == "keep") },
		// crash-release SERVER AFTER: a kill, whereupon the service manager gives the lease back
		// after that time; what the process had sent arrives later still.
		"crash-release": func(w *world, a []string) { w.boxes[a[0]].crashRelease(mustDuration(a[1])) },
		// crash-release-leader AFTER DURATION: whoever it is, which starts again.
		"crash-release-leader": func(w *world, a []string) { w.crashReleaseLeader(mustDuration(a[0]), mustDuration(a[1])) },
		// release SERVER: somebody runs the command release, whoever leads.
		"release": func(w *world, a []string) { w.later(w.boxes[a[0]].release) },
		"stop":    func(w *world, a []string) { w.boxes[a[0]].stop() },
		"start":   func(w *world, a []string) { w.boxes[a[0]].start() },
		"freeze":  func(w *world, a []string) { w.freeze(w.boxes[a[0]], mustDuration(a[1])) },
		"skew":    func(w *world, a []string) { w.skews(w.boxes[a[0]], mustDuration(a[1])) },
		// crash-leader, freeze-leader DURATION: whoever it is.
		"crash-leader":  func(w *world, a []string) { w.crashLeader(mustDuration(a[0])) },
		"freeze-leader": func(w *world, a []string) { w.freezeLeader(mustDuration(a[0])) },

		// cut FROM TO DURATION: nothing passes in that direction.
		"cut": func(w *world, a []string) { w.net.sever(a[0], a[1], mustDuration(a[2])) },
		// full DURATION: the provider has no room at all.
		"full": func(w *world, a []string) { w.full(mustDuration(a[0])) },
		// quota DURATION: the account has reached its limit.
		"quota": func(w *world, a []string) { w.quota(mustDuration(a[0])) },
		// storm KIND DURATION: a kind of fault hits half of all calls.
		"storm": func(w *world, a []string) { w.storm(a[0], mustDuration(a[1])) },
		// linger DURATION TIME: machines that are deleted for so long take that time to go.
		"linger": func(w *world, a []string) { w.linger(mustDuration(a[0]), mustDuration(a[1])) },
		// lose-lock: somebody deletes the lock.
		"lose-lock": func(w *world, _ []string) { w.loseLock() },
		// guest WORDS …: what the guest makes of them.
		"guest": onGuest,
		// plant: a foreign machine with our tags, and an id that nobody issued.
		"plant": func(w *world, _ []string) { w.plant() },
	}
}

// onMachine picks the machine that an event means; nothing happens without one.
func onMachine(do func(*world, identity.ID)) func(*world, []string) {
	return func(w *world, a []string) {
		var ids []identity.ID
		for _, vm := range w.vms(parseGroup(a[0])) {
			if w.machine(vm.InstanceID) != nil && !vm.Status.Down() {
				ids = append(ids, vm.InstanceID)
			}
		}
		if len(ids) > 0 {
			do(w, ids[mustNumber(a[1])%len(ids)])
		}
	}
}

// later lets a caller wait for its answer while the plan goes on.
func (w *world) later(do func()) { w.calls.Go(do) }

// strike does something to a VM.
func (w *world) strike(id identity.ID, what string, do func()) {
	w.logf("%s %s", w.nameOf(id), what)
	w.mu.Lock()
	w.struck[id] = true
	w.mu.Unlock()
	do()
}

func (w *world) hang(id identity.ID) {
	m := w.machine(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mute = true
	w.logf("%s hangs", m.name)
}

func (w *world) notice(id identity.ID, left time.Duration) {
	m := w.machine(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.notice.IsZero() {
		m.notice = time.Now().Add(left)
		w.logf("%s is told that it ends in %v", m.name, left)
		time.AfterFunc(left, func() { w.cloud.Remove(id) })
	}
}

// steal has somebody else register with a machine's nonce.
func (w *world) steal(id identity.ID) {
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		panic(err)
	}
	for _, b := range w.inOrder {
		if p := b.running(); p != nil {
			_, _ = w.register("thief", p, w.machine(id).nonce, key)
		}
	}
}

func (w *world) setBarren(g groupID, barren bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.barren[g] = barren
}

func (w *world) freeze(b *box, d time.Duration) {
	if p := b.running(); p != nil {
		w.logf("%s is stopped for %v", b.name, d)
		p.freeze()
		time.AfterFunc(d, p.thaw)
	}
}

func (w *world) crashLeader(d time.Duration) {
	if p := w.leader(); p != nil {
		p.box.kill(true)
		time.AfterFunc(d, p.box.start)
	}
}

func (w *world) freezeLeader(d time.Duration) {
	if p := w.leader(); p != nil {
		w.freeze(p.box, d)
	}
}

// skews moves the wall clock of a server.
func (w *world) skews(b *box, to time.Duration) {
	b.mu.Lock()
	b.skewed = to
	b.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew = max(w.skew, to.Abs())
}

// full takes all room away for a while.
func (w *world) full(d time.Duration) {
	w.logf("the provider has no room for %v", d)
	w.cloud.SetRoom(drivertest.Place{}, 0)
	time.AfterFunc(d, func() { w.cloud.SetRoom(drivertest.Place{}, -1) })
}

func (w *world) quota(d time.Duration) {
	w.logf("the quota of the account is used up for %v", d)
	w.weather.set(cloudQuota, 1)
	time.AfterFunc(d, func() { w.weather.set(cloudQuota, 0) })
}

func (w *world) storm(kind string, d time.Duration) {
	before := w.weather.set(kind, 0.5)
	time.AfterFunc(d, func() { w.weather.set(kind, before) })
}

func (w *world) linger(d, takes time.Duration) {
	slow := w.conditions()
	slow.DeleteTime = takes
	w.cloud.SetConditions(slow)
	time.AfterFunc(d, func() { w.cloud.SetConditions(w.conditions()) })
}

func (w *world) loseLock() {
	key := layout.LeaderKey(shardName)
	obj, err := w.store.Get(w.ctx, key)
	if err != nil {
		return // it was lost before
	}
	w.logf("the lock is deleted by hand")
	_ = w.store.DeleteIfMatch(w.ctx, key, obj.ETag) // somebody has renewed it just now
}

func (w *world) plant() {
	id, err := w.newID("vmx")
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	w.planted[id] = true
	w.mu.Unlock()
	w.cloud.Plant(owner, id.String())
}
