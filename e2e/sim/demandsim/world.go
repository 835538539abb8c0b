package demandsim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/demandsim/cloud"
	"nstance.dev/e2e/sim/demandsim/cluster"
	"nstance.dev/e2e/sim/demandsim/leader"
	"nstance.dev/e2e/sim/demandsim/tenant"
	"nstance.dev/operator/demand/stuck"
	"nstance.dev/protos/needs"
	"nstance.dev/server/demand"
)

// world is all of one run.
type world struct {
	plan     sim.Plan
	opts     sim.Options
	now      time.Time
	cycles   int
	cloud    *cloud.Cloud
	store    *leader.Store
	leaders  []*leader.Leader // the last one leads; those before do not know yet that they are deposed
	tenants  []*party
	market   map[string]int64 // prices that are not the first ones, by offer
	back     time.Time        // when a server is there again; zero while one leads
	oracle   oracle
	trace    []string
	events   int
	fired    map[string]int
	tamper   Tamper
	violated []sim.Violation
}

// party is one tenant: its cluster, its operator, and what is wrong with them.
type party struct {
	name     string
	cluster  *cluster.Cluster
	operator *tenant.Operator

	awayUntil    time.Time // its operator has no session
	stalledUntil time.Time // its operator does nothing
	blobUntil    time.Time // its template is broken
	refuseUntil  time.Time // it refuses all drains
	forged       bool      // its next roll-up is empty
	forgeries    int       // that were sent, less the references which they made invalid
}

// Tamper turns protections off, for the tests that have to find that.
type Tamper struct {
	// PendingOnly counts pending Pods alone as demand.
	PendingOnly bool
	// HideInFlight hides machines from the engine until they have joined.
	HideInFlight bool
}

// defaults are the settings of a plan that does not say otherwise.
var defaults = map[string]string{
	"mode": "safety", "clusters": "1", "boot": "30s", "length": "30m", "drain": "idle", "tick": "1s", "workers": "1",
	"cpus":   "100000", // that all machines together may have
	"domain": "own",    // or shared: the priorities of all tenants are comparable

	"consolidate": "off", // or on: machines are replaced by cheaper ones
}

func (w *world) setting(name string) string { return cmp.Or(w.plan.Settings[name], defaults[name]) }

func (w *world) duration(name string) time.Duration { return length(w.setting(name)) }

func length(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("a plan has the duration %q: %v", text, err))
	}
	return d
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("a plan has the number %q: %v", text, err))
	}
	return n
}

// Run carries out a plan.
func Run(p sim.Plan, o sim.Options) sim.Result { return RunWith(p, o, Tamper{}) }

// RunWith carries out a plan with protections turned off.
func RunWith(p sim.Plan, o sim.Options, t Tamper) sim.Result {
	w := newWorld(p, o, t)
	w.play(w.duration("length"))
	if w.setting("mode") == "liveness" {
		w.settle()
	}
	w.rest()
	return sim.Result{Violations: w.violated, Events: w.events, Fired: w.fired, Made: w.cloud.Made(), Log: w.trace, History: w.trace}
}

// play carries out the events of the plan up to a moment.
func (w *world) play(until time.Duration) {
	events := w.plan.Events
	for w.now.Before(epoch.Add(until)) {
		for len(events) > 0 && !w.now.Before(epoch.Add(events[0].At)) {
			w.do(events[0])
			events = events[1:]
		}
		w.tick()
	}
}

func newWorld(p sim.Plan, o sim.Options, t Tamper) *world {
	w := &world{
		plan: p, opts: o, now: epoch, cloud: cloud.New(), store: leader.NewStore(), market: map[string]int64{}, fired: map[string]int{}, tamper: t,
	}
	w.oracle = newOracle(w)
	for i := range offers {
		w.cloud.Offer(offers[i].name(), offers[i].times(w.duration("boot")))
	}
	for i := range number(w.setting("clusters")) {
		p := &party{name: clusterName(i), cluster: cluster.New(clusterName(i))}
		p.operator = tenant.New(p.cluster, tenant.Options{
			StartupTaints: []string{StartupTaint}, PendingOnly: t.PendingOnly,
			ToCome: func(row needs.Row) stuck.Need { return w.toCome(p.name, row) },
			Refuse: func(o *tenant.Operator, node string) string {
				if w.now.Before(p.refuseUntil) {
					return "refused by the plan"
				}
				return tenant.FitCheck(o, node)
			},
		})
		p.operator.Connect(w.now)
		w.tenants = append(w.tenants, p)
	}
	w.lead()
	return w
}

// lead lets a new leader take over; the one before does not know.
func (w *world) lead() {
	l, err := leader.Start(leader.Options{
		Store: w.store, Cloud: w.cloud, World: w, Groups: groups(w.setting("consolidate") == "on"), Offers: w.offered(), HideInFlight: w.tamper.HideInFlight,
		Settings: w.settings(), Pools: map[string]int64{quota: int64(number(w.setting("cpus")))}, DeleteAfterDrain: w.setting("drain") == "delete",
	}, w.now)
	if err != nil {
		panic(fmt.Sprintf("the engine does not take the settings of the world: %v", err))
	}
	w.leaders = append(w.leaders, l)
	if !w.oracle.paused.IsZero() {
		l.Suspend("", true, false)
	}
	w.oracle.began(w.now)
	for _, p := range w.tenants {
		p.operator.Disconnect()
	}
	w.notef("leader", "term %d", w.store.Term)
}

// settings are those of the engine.
func (w *world) settings() demand.Settings {
	s := demand.Settings{Workers: number(w.setting("workers")), Policy: demand.Policy{Domains: map[string]string{}}}
	for i, p := range w.tenants {
		s.Policy.Domains[p.name] = fmt.Sprint("own-", i)
		if w.setting("domain") == "shared" {
			s.Policy.Domains[p.name] = "shared"
		}
	}
	return s
}

// leading is the leader that leads; nil while no server is there.
func (w *world) leading() *leader.Leader {
	if !w.back.IsZero() {
		return nil
	}
	return w.leaders[len(w.leaders)-1]
}

// party is the tenant of a name, or nil.
func (w *world) party(name string) *party {
	i := slices.IndexFunc(w.tenants, func(p *party) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return w.tenants[i]
}

// tick lets everything go on by one tick.
func (w *world) tick() {
	w.servers()
	for _, p := range w.tenants {
		w.listen(p)
	}
	if l := w.leading(); l != nil {
		l.Step(w.now)
	}
	for _, old := range w.leaders[:len(w.leaders)-1] {
		old.Step(w.now)
	}
	w.machines()
	for _, p := range w.tenants {
		p.cluster.Step(w.now)
	}
	w.oracle.look()
	w.opts.Progress.Reach(w.now.Sub(epoch), 1)
	w.now = w.now.Add(w.duration("tick"))
}

// servers lets one take over where the leader has ended.
func (w *world) servers() {
	const zombies = 2
	if w.leaders[len(w.leaders)-1].Ended() && w.back.IsZero() {
		w.back = w.now.Add(10 * time.Second)
		for _, p := range w.tenants {
			p.operator.Disconnect()
		}
	}
	if !w.back.IsZero() && !w.now.Before(w.back) {
		w.back = time.Time{}
		w.lead()
	}
	w.leaders = w.leaders[max(0, len(w.leaders)-zombies):]
	if l := w.leading(); l != nil && !w.oracle.paused.IsZero() && !w.now.Before(w.oracle.paused) {
		w.resume(w.now)
	}
}

// resume ends a pause.
func (w *world) resume(now time.Time) {
	w.oracle.paused = time.Time{}
	if l := w.leading(); l != nil {
		l.Suspend("", false, false)
		w.notef("plan", "resumed at %s", now.Sub(epoch))
	}
}

// listen carries what an operator has to say to the leader.
func (w *world) listen(p *party) {
	l := w.leading()
	reachable := l != nil && !l.Ended() && !w.now.Before(p.awayUntil)
	switch {
	case !reachable && p.operator.Connected():
		p.operator.Disconnect()
		if l != nil {
			l.Session(p.name, false)
		}
	case reachable && !p.operator.Connected() && p.operator.Synced(w.now):
		p.operator.Connect(w.now)
		l.Session(p.name, true)
		l.Resync(p.name)
	}
	if w.now.Before(p.stalledUntil) {
		return
	}
	reports, up := p.operator.Step(w.now)
	if l == nil {
		return
	}
	for _, r := range reports {
		l.Report(p.name, r)
	}
	if up != nil {
		if p.forged {
			p.forged = false
			p.forgeries++
			up = up.Empty()
		}
		if err := l.RollUp(p.name, up); err != nil {
			w.fired["roll-up rejected"]++
			w.note(line{Kind: "rejected", Cluster: p.name, Reason: err.Error()})
			p.operator.Rejected(w.now)
			if p.forgeries--; p.forgeries < 0 {
				w.violate("E5", "a roll-up that was not forged is rejected: %v", err)
			}
			return
		}
		w.oracle.rolledUp(p, up)
	}
}

// toCome is what the shard says of a need, whatever the number of its row.
func (w *world) toCome(name string, row needs.Row) stuck.Need {
	short := false
	for row.Stuck = 0; row.Stuck <= needs.MostStuck; row.Stuck++ {
		short = short || w.oracle.short[demand.Key(row.Key(name))]
	}
	return stuck.Need{InFlight: w.inFlight(name), Shortfall: short}
}

// inFlight says whether a machine for a cluster has not joined yet.
func (w *world) inFlight(name string) bool {
	return slices.ContainsFunc(w.store.Records, func(r *leader.Record) bool {
		return r.Cluster == name && (r.State == demand.Creating || r.State == demand.Idle || r.State == demand.Configuring)
	})
}

// machines lets the provider go on: kubelets register, network agents remove their taints, and
// Nodes without a machine are not ready and go.
func (w *world) machines() {
	for _, e := range w.cloud.Step(w.now) {
		vm := w.cloud.Get(e.ID)
		switch e.Stage {
		case cloud.Joined:
			if p := w.party(vm.Cluster()); p != nil {
				p.cluster.Join(offerOf(vm.Type).node(vm.ID), w.now)
			}
		case cloud.Broken, cloud.Gone:
			for _, p := range w.tenants {
				p.cluster.Remove("node-" + vm.ID)
			}
		}
	}
	for _, p := range w.tenants {
		w.removeStartupTaints(p)
	}
}
