package demandsim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/demandsim/cloud"
	"nstance.dev/e2e/sim/demandsim/leader"
	"nstance.dev/e2e/sim/demandsim/tenant"
	"nstance.dev/server/demand"
)

// verbs are what a plan can do to a world.
//
//	set CLUSTER KIND NAME N     a workload of a kind, or another size of it
//	scale CLUSTER NAME N        another size
//	roll, drop CLUSTER NAME     all its Pods are made again; it is deleted
//	churn CLUSTER N             the N oldest Pods that run are deleted
//	budget CLUSTER NAME N       how many of its Pods have to run
//	room OFFER N                how many machines the provider has room for; -1 is any number
//	script OFFER OUTCOME        what becomes of the next create
//	price OFFER PERCENT         of its first price; with = before it, millionths of a dollar
//	kill, notice N              the nth machine breaks, or is to be taken in two minutes
//	outdate N                   the nth machine is to make room for another one
//	away CLUSTER TIME           its operator has no session
//	stall CLUSTER TIME          its operator does nothing, and its session stays
//	restart CLUSTER TIME        its operator begins again, and its caches are empty for so long
//	forge CLUSTER               its next roll-up is empty
//	refuse, blob CLUSTER TIME   it refuses every drain; its blobs have an error
//	failover TIME               no server leads for so long
//	crash N                     the leader ends in front of its nth effect from now
//	takeover                    another server leads, and the one before does not know
//	pause TIME                  nothing is carried out
var verbs = map[string]func(*world, []string){
	"set": func(w *world, args []string) {
		load, err := workload(args[1], args[2], number(args[3]))
		if err != nil {
			panic(err.Error())
		}
		w.party(args[0]).cluster.Set(load)
	},
	"scale": func(w *world, args []string) { w.party(args[0]).cluster.Scale(args[1], number(args[2])) },
	"roll": func(w *world, args []string) {
		c := w.party(args[0]).cluster
		if load := c.Workload(args[1]); load != nil {
			c.Roll(args[1], load.Template, w.now)
		}
	},
	"drop":  func(w *world, args []string) { w.party(args[0]).cluster.Drop(args[1], w.now) },
	"churn": func(w *world, args []string) { w.churn(w.party(args[0]), number(args[1])) },
	"budget": func(w *world, args []string) {
		if load := w.party(args[0]).cluster.Workload(args[1]); load != nil {
			load.MinAvailable = number(args[2])
		}
	},
	"room":   func(w *world, args []string) { w.cloud.SetRoom(args[0], number(args[1])) },
	"script": func(w *world, args []string) { w.cloud.Script(args[0], outcomes[args[1]]) },
	"price": func(w *world, args []string) {
		if price, exact := strings.CutPrefix(args[1], "="); exact {
			w.market[args[0]] = int64(number(price))
		} else {
			w.market[args[0]] = offerOf(args[0]).price * int64(number(args[1])) / 100
		}
		if l := w.leading(); l != nil {
			l.SetOffers(w.offered())
		}
	},
	"kill": func(w *world, args []string) {
		if vm := w.nth(number(args[0])); vm != nil {
			w.cloud.Kill(vm.ID)
		}
	},
	"notice": func(w *world, args []string) {
		if vm, l := w.nth(number(args[0])), w.leading(); vm != nil && l != nil {
			l.Condemn(vm.ID, 2*time.Minute)
		}
	},
	"outdate": func(w *world, args []string) {
		if vm, l := w.nth(number(args[0])), w.leading(); vm != nil && l != nil {
			l.Outdate(vm.ID, demand.ReasonDrift)
		}
	},
	"away":  func(w *world, args []string) { w.party(args[0]).awayUntil = w.now.Add(length(args[1])) },
	"stall": func(w *world, args []string) { w.party(args[0]).stalledUntil = w.now.Add(length(args[1])) },
	"restart": func(w *world, args []string) {
		p := w.party(args[0])
		p.operator.Restart(w.now.Add(length(args[1])))
		if l := w.leading(); l != nil {
			l.Session(p.name, false)
		}
	},
	"forge":  func(w *world, args []string) { w.party(args[0]).forged = true },
	"refuse": func(w *world, args []string) { w.party(args[0]).refuseUntil = w.now.Add(length(args[1])) },
	"blob":   func(w *world, args []string) { w.party(args[0]).blobUntil = w.now.Add(length(args[1])) },
	"failover": func(w *world, args []string) {
		if l := w.leading(); l != nil {
			l.EndAfter(0)
			w.back = w.now.Add(length(args[0]))
		}
	},
	"crash": func(w *world, args []string) {
		if l := w.leading(); l != nil {
			l.EndAfter(number(args[0]))
		}
	},
	"takeover": func(w *world, _ []string) {
		if w.leading() != nil {
			w.lead()
		}
	},
	"pause": func(w *world, args []string) {
		if l := w.leading(); l != nil {
			w.oracle.paused = w.now.Add(length(args[0]))
			l.Suspend("", true, false)
		}
	},
}

// verbNames are those of verbs, in their order.
var verbNames []string

func init() { verbNames = slices.Sorted(maps.Keys(verbs)) } //nolint:gochecknoinits // verbs call what reads verbNames

var outcomes = map[string]cloud.Outcome{
	"works": cloud.Works, "no-capacity": cloud.NoCapacity, "quota": cloud.Quota, "never-boots": cloud.NeverBoots, "never-joins": cloud.NeverJoins,
}

// do carries out an event.
func (w *world) do(e sim.Event) {
	verb, known := verbs[e.Verb]
	if !known {
		panic(fmt.Sprintf("there is no verb %q", e.Verb))
	}
	w.fired[e.Verb]++
	w.note(line{Kind: "plan", Reason: e.Verb + " " + fmt.Sprint(e.Args)})
	verb(w, e.Args)
}

// churn deletes the oldest Pods of a cluster that run.
func (w *world) churn(p *party, pods int) {
	for _, pod := range slices.Clone(p.cluster.Pods()) {
		if pods == 0 {
			return
		}
		if !pod.BoundAt.IsZero() && !pod.Ended() && pod.Object.DeletionTimestamp == nil {
			p.cluster.Delete(pod, w.now)
			w.note(line{Kind: "churned", Cluster: p.name, Reason: pod.Object.Name})
			pods--
		}
	}
}

// nth is a machine that exists, or nil if there is none.
func (w *world) nth(n int) *cloud.Machine {
	live := w.cloud.Live()
	if len(live) == 0 {
		return nil
	}
	return live[n%len(live)]
}

// offered are the offers as the engine takes them, at the prices of now.
func (w *world) offered() (all []demand.Offer) {
	for i := range offers {
		o := &offers[i]
		price := o.price
		if changed, is := w.market[o.name()]; is {
			price = changed
		}
		all = append(all, o.engine(price))
	}
	return all
}

// removeStartupTaints is what the network agent of a cluster does.
func (w *world) removeStartupTaints(p *party) {
	for _, n := range p.cluster.Nodes() {
		if len(n.Object.Spec.Taints) == 0 || w.now.Before(n.JoinedAt.Add(networkAgent)) {
			continue
		}
		if slices.ContainsFunc(n.Object.Spec.Taints, func(t corev1.Taint) bool { return t.Key == StartupTaint }) {
			_ = p.cluster.Change(n.Object.Name, func(o *corev1.Node) { // it exists
				o.Spec.Taints = slices.DeleteFunc(o.Spec.Taints, func(t corev1.Taint) bool { return t.Key == StartupTaint })
			})
		}
	}
}

// What the leader asks of the world: see [leader.World].

func (w *world) Instruct(name string, i tenant.Instruction) (tenant.Ack, bool) {
	p := w.party(name)
	if p == nil || !p.operator.Connected() {
		return tenant.Ack{}, false
	}
	ack := p.operator.Instruct(i, w.now)
	w.note(line{Kind: "instruct", Cluster: name, Machine: i.Machine, Reason: fmt.Sprintf("%s voluntary=%t cancel=%t started=%t %s", i.ID, i.Voluntary, i.Cancel, ack.Started, ack.Refused)})
	return ack, true
}

func (w *world) Blob(name, _ string) leader.Blob {
	p := w.party(name)
	switch {
	case p == nil || !p.operator.Connected():
		return leader.BlobTimeout
	case w.now.Before(p.blobUntil):
		return leader.BlobError
	}
	return leader.BlobReady
}

func (w *world) Ended(name, machine string) {
	if p := w.party(name); p != nil {
		p.operator.Ended(machine)
	}
}

func (w *world) Held(name string) {
	w.note(line{Kind: "held", Cluster: name})
	w.fired["roll-up held"]++
	w.party(name).operator.Held(w.now)
}

func (w *world) Decided(r demand.Result) {
	w.cycles++
	w.oracle.decided(r)
}

func (w *world) Acted(what string, r *leader.Record, reason string) {
	class := ""
	if what == "provision" {
		class = r.Offer
	}
	w.note(line{Kind: what, Cluster: r.Cluster, Machine: r.ID, Class: class, Reason: reason})
	w.oracle.acted(what, r)
}
