package pavesim

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// verbs are what users do and what befalls the world, with the number of their arguments.
var verbs = map[string]int{
	"make": 1, "edit": 2, "mend": 1, "release": 1, // configurations
	"pause": 2, "policy": 2, "retry": 2, "pin": 2, "drop": 1, "remake": 1, // machines
	"delete-node": 1, "delete-nodes": 1, "restart-kubelet": 1, "steal": 2,
	"api": 2, "away": 2, // outages: of the API server, of an agent
	"kill-operator": 1, "kill-server": 0, "kill-paver": 1, "kill-agent": 1,
	"operator-away": 1, "server-away": 1, "lag": 3,
	"stuck": 2, "pause-rollout": 1, "pause-all": 1, "resume": 0, // rollouts
	"ask": 3, "fan": 3, "cancel": 1, // operations
	"orphan": 1, "end": 1, "reboot": 1, "lose-journal": 1, "late": 2,
}

// do does what an event says. What is not there is not changed.
func (w *world) do(e sim.Event) {
	w.result.Fired[e.Verb]++
	w.notef("event: %s", e)
	switch e.Verb {
	case "make":
		c := &hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: e.Args[0]}}
		c.Spec = hostsv1.MachineConfigurationSpec{Template: w.template(0), MachineSelector: &hostsv1.MachineSelector{}, UpdateStrategy: w.strategy()}
		w.notef("made: %v", w.api.Create("user", c))
	case "edit":
		w.change(&hostsv1.MachineConfiguration{}, e.Args[0], func(o client.Object) {
			o.(*hostsv1.MachineConfiguration).Spec.Template = w.template(argument(e, 1)) //nolint:forcetypeassert // it was asked for as such
		})
	case "stuck", "pause-rollout", "pause-all", "resume":
		w.toRollout(e)
	case "ask", "fan", "cancel":
		w.toOperations(e)
	case "mend":
		w.mended[argument(e, 0)] = true
	case "release":
		w.change(&hostsv1.MachineConfiguration{}, e.Args[0], func(o client.Object) {
			o.SetAnnotations(map[string]string{hostsv1.AnnotationReleaseBrake: "yes"})
		})
	case "delete-nodes":
		for i, h := range w.hosts[:min(len(w.hosts), argument(e, 0))] {
			w.after(time.Duration(i)*time.Second, func() { w.deleteNode(h.name) })
		}
	case "steal":
		w.steal(e.Args[0], e.Args[1])
	case "api":
		w.outage = outage{e.Args[0], time.Now().Add(duration(e, 1))}
	case "kill-server":
		if w.shard.Leads() {
			w.endTerm()
			w.after(w.drawn(20*time.Second), w.lead)
		}
	case "server-away":
		if w.shard.Leads() {
			w.endTerm()
			w.after(duration(e, 0), w.lead)
		}
	case "lag", "kill-operator", "operator-away":
		w.toOperators(e)
	default:
		for _, h := range w.hosts {
			if h.name == e.Args[0] {
				w.toMachine(e, h)
			}
		}
	}
}

// toOperators does what an event says to the processes of the operator.
func (w *world) toOperators(e sim.Event) {
	switch e.Verb {
	case "lag":
		if p := w.processes[e.Args[0]]; p != nil {
			p.lags[e.Args[1]] = time.Now().Add(duration(e, 2))
		}
	case "kill-operator":
		if p := w.processes[e.Args[0]]; p != nil {
			p.dead = true
		}
	case "operator-away":
		for i, name := range []string{"a", "b"} {
			if p := w.processes[name]; p != nil && !p.working {
				w.stop(name)
				w.after(duration(e, 0)+time.Duration(i)*time.Second, func() { w.launch(name) })
			}
		}
	}
}

// toMachine does what an event says to a machine or its host.
func (w *world) toMachine(e sim.Event, h *host) {
	runs := h.Runs()
	switch e.Verb {
	case "delete-node":
		w.deleteNode(h.name)
	case "restart-kubelet":
		for _, k := range h.kubelets {
			k.registered = false
		}
	case "away":
		w.shard.Disconnect(h.id)
		h.agent.away = time.Now().Add(duration(e, 1))
	case "kill-agent":
		w.shard.Disconnect(h.id)
		h.agent = agent{}
		w.after(time.Second+w.drawn(5*time.Second), func() { h.agent.up = true })
	case "kill-paver", "lose-journal":
		h.Kill()
		if e.Verb == "lose-journal" {
			w.oracle.lost(h)
			must(h.LoseJournal())
		}
		w.after(time.Second+w.drawn(5*time.Second), func() { w.startPaver(h) })
	case "reboot":
		w.rebootHost(h)
	case "late": // a word that the paver was told before, counted from 1
		if n := argument(e, 1); h.Up() && n <= len(h.told) {
			h.Take(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: proto.CloneOf(h.told[n-1])}})
		}
	case "orphan":
		for _, r := range runs {
			h.Orphan(r.Slot)
		}
	case "end":
		for _, r := range runs {
			h.End(r.Slot)
		}
	case "drop":
		w.notef("deleted: %v", w.api.Delete("user", &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, nil))
		w.whenGone(h)
	case "remake":
		w.oracle.remade(h)
		must(w.api.Remove("user", &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: h.name}}))
		w.make(h)
	default:
		w.edit(e, h)
	}
}

// rebootHost has a host and all that runs on it begin anew.
func (w *world) rebootHost(h *host) {
	must(h.Reboot())
	w.shard.Disconnect(h.id)
	h.agent = agent{}
	w.after(time.Second+w.drawn(5*time.Second), func() { h.agent.up = true })
	w.after(time.Second+w.drawn(5*time.Second), func() { w.startPaver(h) })
}

// toRollout does what an event says to the rollout.
func (w *world) toRollout(e sim.Event) {
	if e.Verb == "stuck" {
		w.stuck[e.Args[0]] = e.Args[1] == "on"
		return
	}
	w.change(&hostsv1.MachineConfiguration{}, "gpu", func(o client.Object) {
		c := o.(*hostsv1.MachineConfiguration) //nolint:forcetypeassert // it was asked for as such
		switch {
		case e.Verb == "pause-all":
			c.Spec.Paused = e.Args[0] == "on"
		case e.Verb == "resume":
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, hostsv1.AnnotationResume, "yes")
		case c.Spec.UpdateStrategy != nil:
			c.Spec.UpdateStrategy.RollingUpdate.Paused = e.Args[0] == "on"
		}
	})
}

// edit changes the HostMachine of a host as an event says.
func (w *world) edit(e sim.Event, h *host) {
	w.change(&hostsv1.HostMachine{}, h.name, func(o client.Object) {
		m := o.(*hostsv1.HostMachine) //nolint:forcetypeassert // it was asked for as such
		switch e.Verb {
		case "pause":
			m.Spec.Paused = e.Args[1] == "on"
		case "policy":
			m.Spec.FailurePolicy = hostsv1.FailurePolicy(e.Args[1])
		case "retry":
			m.Annotations = map[string]string{hostsv1.AnnotationRetry: e.Args[1]}
		case "pin":
			m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "gpu"}
			if n, err := strconv.ParseInt(e.Args[1], 10, 32); err == nil {
				version := int32(n)
				m.Spec.ConfigurationRef.Version = &version
			}
		}
	})
}

// whenGone makes the HostMachine of a host again once the one that is being deleted is gone.
func (w *world) whenGone(h *host) {
	if _, there := objects.Find[*hostsv1.HostMachine](w.api.Store, h.name); there {
		w.after(10*time.Second, func() { w.whenGone(h) })
		return
	}
	w.oracle.reset(h)
	w.after(w.drawn(30*time.Second), func() { w.make(h) })
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("pavesim: %v", err))
	}
}

func (w *world) deleteNode(name string) {
	w.notef("user: delete Node %s: %v", name, w.api.Delete("user", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil))
}

// steal is a Pod on a machine that has read its credential, and asks for certificates, of another Node or of its own.
func (w *world) steal(from, node string) {
	for _, h := range w.hosts {
		if h.name != from {
			continue
		}
		for _, r := range h.Runs() {
			for range 5 {
				if id := tokenID(h.Read(r.Slot, bootstrap)); id != "" {
					w.ask(id, node)
				}
			}
		}
	}
}

func (w *world) change(o client.Object, name string, how func(client.Object)) {
	o.SetName(name)
	w.notef("user: change %s: %v", name, w.api.Change("user", o, false, how))
}

// template is one of many.
func (w *world) template(n int) hostsv1.Template {
	t := hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "registry.example.com/node:" + strconv.Itoa(n)}},
		Kubernetes: hostsv1.Kubernetes{Version: apiServer},
		Timeouts:   &hostsv1.Timeouts{Prepare: "1m", Stop: "30s", Boot: "30s", Join: "2m"},
	}
	w.hashes[string(versions.Hash(&t))] = n
	return t
}

// argument reads the argument of an event that is a number, and duration one that is a time.
func argument(e sim.Event, i int) int {
	n, err := strconv.Atoi(e.Args[i])
	if err != nil {
		panic(fmt.Sprintf("a plan has the number %q: %v", e.Args[i], err))
	}
	return n
}

func duration(e sim.Event, i int) time.Duration {
	d, err := time.ParseDuration(e.Args[i])
	if err != nil {
		panic(fmt.Sprintf("a plan has the time %q: %v", e.Args[i], err))
	}
	return d
}
