package hostsim

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// verbs are what users do, and what befalls processes, with the number of their arguments.
var verbs = map[string]int{
	"make": 2, "edit": 2, "priority": 2, "selector": 2, "limit": 2, "pause": 2, "drop": 1, // configurations
	"drop-version": 2, "drop-versions": 1, "foreign": 2,
	"machine": 2, "label": 2, "reselect": 1, "refer": 3, "unrefer": 1, "repave": 1, "drop-machine": 1, "drop-machines": 1,
	"kill":   1,
	"expect": 2, // a configuration to have these versions, and no others
}

// do does what an event says. What is not there is not changed.
func (w *world) do(e sim.Event) {
	w.result.Fired[e.Verb]++
	name := e.Args[0]
	switch e.Verb {
	case "make":
		w.create(&hostsv1.MachineConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       hostsv1.MachineConfigurationSpec{Template: template(0), MachineSelector: selector(e.Args[1])},
		})
	case "edit", "priority", "selector", "limit", "pause":
		w.edit(e, name)
	case "drop":
		w.drop(&hostsv1.MachineConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}})
	case "drop-version":
		w.drop(&hostsv1.MachineConfigurationVersion{ObjectMeta: metav1.ObjectMeta{Name: name + "-v" + e.Args[1]}})
	case "drop-versions":
		for _, v := range objects.All[*hostsv1.MachineConfigurationVersion](w.api.Store) {
			if string(v.Spec.ConfigurationName) == name {
				w.drop(v.DeepCopy())
			}
		}
	case "foreign":
		c, _ := objects.Find[*hostsv1.MachineConfiguration](w.api.Store, name)
		number := number(e, 1)
		if c != nil {
			number += c.Status.LatestVersion
		}
		w.create(&hostsv1.MachineConfigurationVersion{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-v%d", name, number)},
			Spec:       hostsv1.MachineConfigurationVersionSpec{ConfigurationName: hostsv1.ConfigurationName(name), Version: number, Template: template(99)},
		})
	case "expect":
		w.expect(name, e.Args[1])
	case "kill":
		if p := w.processes[name]; p != nil {
			p.end()
		}
	default:
		w.machine(e, name)
	}
}

// number reads the argument of an event that is one.
func number(e sim.Event, i int) int32 {
	n, err := strconv.ParseInt(e.Args[i], 10, 32)
	if err != nil {
		panic(fmt.Sprintf("a plan has the number %q: %v", e.Args[i], err))
	}
	return int32(n)
}

// edit changes what a user has said in a configuration.
func (w *world) edit(e sim.Event, name string) {
	w.change("user", e.String(), &hostsv1.MachineConfiguration{}, name, func(o client.Object) bool {
		c := o.(*hostsv1.MachineConfiguration) //nolint:forcetypeassert // it was asked for as such
		switch e.Verb {
		case "edit":
			c.Spec.Template = template(int(number(e, 1)))
		case "priority":
			c.Spec.Priority = number(e, 1)
		case "selector":
			c.Spec.MachineSelector = selector(e.Args[1])
		case "limit":
			limit := number(e, 1)
			c.Spec.RevisionHistoryLimit = &limit
		case "pause":
			c.Spec.Paused = e.Args[1] == "on"
		}
		return true
	})
}

// expect checks that a configuration has the versions of these numbers, and no others.
func (w *world) expect(configuration, numbers string) {
	var are []string
	for _, v := range objects.All[*hostsv1.MachineConfigurationVersion](w.api.Store) {
		if string(v.Spec.ConfigurationName) == configuration {
			are = append(are, fmt.Sprint(v.Spec.Version))
		}
	}
	if got := strings.Join(are, ","); got != numbers {
		w.violate("M34", "%s has the versions %s, and is to have %s", configuration, got, numbers)
	}
}

// machine does what an event says to a machine.
func (w *world) machine(e sim.Event, name string) {
	switch e.Verb {
	case "machine":
		w.create(&hostsv1.HostMachine{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"role": e.Args[1]}},
			Spec:       hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual},
		})
	case "repave":
		if m, there := objects.Find[*hostsv1.HostMachine](w.api.Store, name); there && m.Status.Configuration != nil && m.Status.Configuration.Assigned != nil {
			w.notef("user: the Node of %s is deleted", name)
			w.repave[name] = m.Status.Configuration.Assigned.Epoch
		}
	case "drop-machine":
		w.drop(&hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name}})
	case "drop-machines":
		for _, m := range objects.All[*hostsv1.HostMachine](w.api.Store) {
			w.drop(m.DeepCopy())
		}
	default:
		w.change("user", e.String(), &hostsv1.HostMachine{}, name, func(o client.Object) bool {
			m := o.(*hostsv1.HostMachine) //nolint:forcetypeassert // it was asked for as such
			switch e.Verb {
			case "label":
				m.Labels = map[string]string{"role": e.Args[1]}
			case "reselect":
				m.Annotations = map[string]string{hostsv1.AnnotationReselect: "yes"}
			case "unrefer":
				m.Spec.ConfigurationRef = nil
			case "refer":
				m.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: hostsv1.ConfigurationName(e.Args[1])}
				if number, err := strconv.ParseInt(e.Args[2], 10, 32); err == nil {
					version := int32(number)
					m.Spec.ConfigurationRef.Version = &version
				}
			}
			return true
		})
	}
}

// template is one of many.
func template(n int) hostsv1.Template {
	return hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "node:" + strconv.Itoa(n)}},
		Kubernetes: hostsv1.Kubernetes{Version: apiServer},
	}
}

// selector selects machines of a role; none: nothing, all: all.
func selector(role string) *hostsv1.MachineSelector {
	switch role {
	case "none":
		return nil
	case "all":
		return &hostsv1.MachineSelector{}
	}
	return &hostsv1.MachineSelector{MatchFields: nil, MatchExpressions: []hostsv1.LabelExpression{
		{Key: "role", Operator: hostsv1.SelectorIn, Values: strings.Split(role, ",")},
	}}
}

func (w *world) create(o client.Object) {
	err := w.api.Write("user", o, func(stored client.Object) error {
		if stored == nil {
			w.api.Identify(o)
		}
		return w.api.Direct.Create(context.Background(), o)
	})
	w.notef("user: create %s: %v", o.GetName(), err)
}

func (w *world) drop(o client.Object) {
	err := w.api.Write("user", o, func(stored client.Object) error {
		return w.api.delete(context.Background(), stored, o, nil)
	})
	w.notef("user: delete %s %s: %v", w.api.Kind(o), o.GetName(), err)
}

// change changes an object as it stands, its spec and its status.
func (w *world) change(by, what string, o client.Object, name string, how func(client.Object) bool) {
	o.SetName(name)
	err := w.api.Write(by, o, func(stored client.Object) error {
		if stored == nil {
			return apierrors.NewNotFound(hostsv1.GroupVersion.WithResource("objects").GroupResource(), name)
		}
		next, _ := stored.DeepCopyObject().(client.Object)
		if !how(next) {
			return nil
		}
		if by == "user" {
			return w.api.Direct.Update(context.Background(), next)
		}
		patch := client.MergeFrom(stored)
		return w.api.Direct.Status().Patch(context.Background(), next, patch, client.FieldOwner(by))
	})
	w.notef("%s: %s: %s: %v", by, name, what, err)
}

// orphans are versions whose owner is gone, and that nobody refers to.
func (w *world) orphans() (out []*hostsv1.MachineConfigurationVersion) {
	uids := map[string]bool{"": true}
	for _, c := range objects.All[*hostsv1.MachineConfiguration](w.api.Store) {
		uids[string(c.UID)] = true
	}
	for _, v := range objects.All[*hostsv1.MachineConfigurationVersion](w.api.Store) {
		if !uids[owner(v)] && w.unreferred(v.Name) {
			out = append(out, v)
		}
	}
	return out
}

func (w *world) unreferred(version string) bool {
	for _, m := range objects.All[*hostsv1.HostMachine](w.api.Store) {
		if refers(m, version) {
			return false
		}
	}
	return true
}

// collect deletes a version that has lost its owner.
func (w *world) collect(v *hostsv1.MachineConfigurationVersion) {
	err := w.api.Write("collector", v, func(stored client.Object) error {
		return w.api.delete(context.Background(), stored, v.DeepCopy(), &metav1.Preconditions{UID: &v.UID})
	})
	w.notef("collector: delete %s: %v", v.Name, err)
}
