package hostview

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/selection"
	"nstance.dev/operator/hosts/versions"
)

// Objects are all host machines of a cluster, with the configurations and versions.
type Objects struct {
	Machines       []hostsv1.HostMachine
	Configurations []hostsv1.MachineConfiguration
	Versions       []hostsv1.MachineConfigurationVersion
	Now            time.Time
}

// Line is a line of a description, below others by its depth.
type Line struct {
	Depth int
	Text  string
}

// page collects lines.
type page struct {
	lines []Line
	now   time.Time
}

func (p *page) line(depth int, format string, args ...any) {
	p.lines = append(p.lines, Line{depth, fmt.Sprintf(format, args...)})
}

func (p *page) age(t metav1.Time) string { return output.Age(t.Time, p.now) }

// conditions prints those that are not named, which stand elsewhere.
func (p *page) conditions(depth int, all []metav1.Condition, elsewhere ...string) {
	p.line(depth, "conditions:")
	for _, c := range all {
		if !slices.Contains(elsewhere, c.Type) {
			p.line(depth+1, "%s=%s/%s: %s (for %s)", c.Type, c.Status, c.Reason, c.Message, p.age(c.LastTransitionTime))
		}
	}
	if len(all) == 0 {
		p.line(depth+1, "none yet: the operator has not looked at it; it does with --hosts")
	}
}

// Machine describes a machine: what it waits for, what it is built from, and which configurations
// select it.
func Machine(m *hostsv1.HostMachine, o Objects) []Line {
	p := &page{now: o.Now}
	p.line(0, "machine %s: %s, provisioner %s, node %s, %s old", m.Name, cmp.Or(string(m.Status.Phase), "no phase yet"), m.Spec.Provisioner, m.NodeName(), p.age(m.CreationTimestamp))
	if i := m.Spec.Instance; i != nil {
		p.line(1, "instance: %s of group %s, tenant %s, on shard %s", i.ID, i.Group, i.Tenant, i.Shard)
	}
	if m.Spec.Paused {
		p.line(1, "paused: nothing is started on it; set spec.paused to false")
	}
	if reason, message := Waits(m); reason != "" {
		p.line(1, "waits: %s: %s", reason, message)
	}
	p.configuration(m)
	choice := selection.Choose(m, selection.Cluster{Configurations: selection.Observe(o.Configurations, o.Versions)})
	p.line(1, "selectors that match:")
	matching := selection.Matching(m, selection.Observe(o.Configurations, o.Versions))
	for _, c := range matching {
		why := "it gets the machine"
		if c.Name != choice.Configuration {
			why = "loses: " + lost(m, c, choice, matching)
		}
		p.line(2, "%s, priority %d: %s", c.Name, c.Priority, why)
	}
	if len(matching) == 0 {
		p.line(2, "none")
	}
	p.conditions(1, m.Status.Conditions, hostsv1.ConditionConfigurationPending)
	return p.lines
}

// configuration prints what a machine is built from.
func (p *page) configuration(m *hostsv1.HostMachine) {
	of := m.Status.Configuration
	switch {
	case of == nil:
		return
	case of.Source == hostsv1.SourceExplicit:
		p.line(1, "configuration, which spec.configurationRef names:")
	default:
		p.line(1, "configuration, by selector:")
	}
	if of.Desired != nil {
		p.line(2, "a repave builds %s", reference(of.Desired))
	}
	if a := of.Assigned; a != nil {
		p.line(2, "the host was told to build %s, epoch %d%s", reference(&a.VersionReference), a.Epoch, p.ago(a.At))
	}
	if a := of.Applied; a != nil {
		p.line(2, "the node runs %s%s", reference(&a.VersionReference), p.ago(a.At))
	}
	if of.Previous != nil {
		p.line(2, "the other slot holds %s", reference(of.Previous))
	}
}

func (p *page) ago(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf(", %s ago", p.age(*t))
}

// lost says why a configuration whose selector matches a machine does not get it.
func lost(m *hostsv1.HostMachine, c selection.Configuration, choice selection.Choice, matching []selection.Configuration) string {
	if choice.Source == hostsv1.SourceExplicit {
		return "spec.configurationRef names " + choice.Configuration
	}
	i := slices.IndexFunc(matching, func(other selection.Configuration) bool { return other.Name == choice.Configuration })
	switch {
	case i != 0: // it stays with what was chosen before, whether that matches or not
		return fmt.Sprintf("%s was assigned before, which selectors do not change; to choose again: kubectl annotate hm %s %s=", choice.Configuration, m.Name, hostsv1.AnnotationReselect)
	case matching[i].Priority > c.Priority:
		return fmt.Sprintf("%s has priority %d", choice.Configuration, matching[i].Priority)
	default:
		return fmt.Sprintf("%s has the same priority, and its name comes first", choice.Configuration)
	}
}

// mostMachines of a configuration that are shown one by one.
const mostMachines = 20

// Configuration describes a configuration: whom it selects, which machines it loses to others and
// why, and its versions.
func Configuration(c *hostsv1.MachineConfiguration, o Objects) []Line {
	p := &page{now: o.Now}
	paused := ""
	if c.Spec.Paused {
		paused = ", paused"
	}
	p.line(0, "configuration %s: priority %d%s, %s old", c.Name, c.Spec.Priority, paused, p.age(c.CreationTimestamp))
	cluster := selection.Cluster{Configurations: selection.Observe(o.Configurations, o.Versions)}
	var selected, losses []string
	for i := range o.Machines {
		m := &o.Machines[i]
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		choice := selection.Choose(m, cluster)
		if choice.Configuration == c.Name {
			selected = append(selected, m.Name+": "+built(m, choice))
			continue
		}
		matching := selection.Matching(m, cluster.Configurations)
		if i := slices.IndexFunc(matching, func(other selection.Configuration) bool { return other.Name == c.Name }); i >= 0 {
			losses = append(losses, m.Name+": "+lost(m, matching[i], choice, matching))
		}
	}
	p.some("machines that it selects", selected)
	p.some("machines that its selector matches and others get", losses)
	var own []hostsv1.MachineConfigurationVersion
	for _, v := range o.Versions {
		if metav1.IsControlledBy(&v, c) {
			own = append(own, v)
		}
	}
	p.line(1, "versions: %d; history limit %s", len(own), limit(c))
	for _, v := range Newest(own) {
		p.line(2, "%s: %s, machines that refer to it: %d, that run it: %d, Kubernetes %s, %s", v.Name, state(v), v.Status.Machines, v.Status.AppliedMachines, v.Spec.Template.Kubernetes.Version, short(v.Status.Hash))
	}
	p.conditions(1, c.Status.Conditions)
	return p.lines
}

// built says what a machine is built from now and next.
func built(m *hostsv1.HostMachine, choice selection.Choice) string {
	next := "waits: " + choice.Reason
	if reason, _ := Waits(m); reason != "" {
		next = "waits: " + reason
	} else if choice.Desired != nil {
		next = "a repave builds " + versions.Name(string(choice.Desired.Name), choice.Desired.Version)
	}
	if is := runs(m); is != "" {
		return "runs " + is + ", " + next
	}
	return next
}

// some prints lines below a heading, not too many.
func (p *page) some(heading string, lines []string) {
	slices.Sort(lines)
	p.line(1, "%s: %d", heading, len(lines))
	for _, text := range lines[:min(len(lines), mostMachines)] {
		p.line(2, "%s", text)
	}
	if more := len(lines) - mostMachines; more > 0 {
		p.line(2, "and %d more", more)
	}
}

func limit(c *hostsv1.MachineConfiguration) string {
	if c.Spec.RevisionHistoryLimit == nil {
		return "10"
	}
	return count(*c.Spec.RevisionHistoryLimit)
}

// Newest returns versions, the highest number first.
func Newest(all []hostsv1.MachineConfigurationVersion) []*hostsv1.MachineConfigurationVersion {
	sorted := make([]*hostsv1.MachineConfigurationVersion, 0, len(all))
	for i := range all {
		sorted = append(sorted, &all[i])
	}
	slices.SortFunc(sorted, func(a, b *hostsv1.MachineConfigurationVersion) int {
		return cmp.Or(cmp.Compare(b.Spec.Version, a.Spec.Version), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}
