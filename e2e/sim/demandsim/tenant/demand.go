package tenant

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/sim/demandsim/cluster"
	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/aggregate"
	"nstance.dev/operator/demand/stuck"
	"nstance.dev/operator/demand/translate"
	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/protos/rollup"
)

// ClusterID is the one in all roll-ups, that of the server.
const ClusterID = "sim"

// RollUpInterval is the time between roll-ups without a change, and RollUpMinInterval the time from
// a change to the roll-up that tells it.
const (
	RollUpInterval    = 10 * time.Second
	RollUpMinInterval = time.Second
)

// RollUp is what a cluster asks for, as it is sent: in parts.
type RollUp []*demandpb.ClusterCapacityNeeds

// Empty is a roll-up of the same session that asks for nothing.
func (r RollUp) Empty() RollUp {
	return RollUp{{ClusterId: r[0].ClusterId, Sequence: r[0].Sequence, GeneratedUnixMs: r[0].GeneratedUnixMs}}
}

// unit is what one Pod asks for.
type unit struct {
	pod     *cluster.Pod
	spec    demandv1.CapacityRequestSpec
	row     needs.Row // that it adds to, without amounts
	domains []string  // of the Pods that it has to be with
	rollUps int       // that have spoken of it
}

// demand is what the operator knows of the Pods, as the last changes of its caches left it.
type demand struct {
	pendingOnly bool
	toCome      func(needs.Row) stuck.Need
	units       map[types.UID]*unit
	sums        *aggregate.Aggregator
	stuck       stuck.Tracker
	writer      *rollup.Writer
}

func newDemand(pendingOnly bool, toCome func(needs.Row) stuck.Need) *demand {
	return &demand{
		pendingOnly: pendingOnly, toCome: toCome, units: map[types.UID]*unit{}, sums: aggregate.New(aggregate.Options{}),
		writer: rollup.NewWriter(ClusterID),
	}
}

// newSession makes the next roll-up a whole one, with the first number.
func (d *demand) newSession() { d.writer = rollup.NewWriter(ClusterID) }

// see takes in a Pod that is new or has changed.
func (d *demand) see(p *cluster.Pod) {
	_, excluded := translate.Excluded(p.Object)
	if translate.Terminal(p.Object) || excluded || d.pendingOnly && !p.Pending() {
		d.lose(p)
		return
	}
	if _, known := d.units[p.Object.UID]; known {
		return // nothing of it that is translated can change here
	}
	u := &unit{pod: p, spec: translate.Build(p.Object, translate.Volumes{}, translate.Options{Alternatives: true}).Spec}
	u.find()
	d.units[p.Object.UID] = u
}

// find works out which row a Pod adds to.
func (u *unit) find() {
	rows, skipped := aggregate.Build(aggregate.Options{}, func(yield func(aggregate.Item) bool) {
		yield(aggregate.Item{ID: string(u.pod.Object.UID), Spec: &u.spec, Domains: u.domains})
	})
	if skipped > 0 {
		panic(fmt.Sprintf("Pod %s of a world asks for what is not valid", u.pod.Object.Name))
	}
	u.row = *rows[0]
}

// locate finds the domains to which Pods are pinned by those that run.
func (d *demand) locate(c *cluster.Cluster) {
	found := map[*cluster.Workload][]string{}
	for _, u := range d.units {
		if u.spec.CoLocation == nil {
			continue
		}
		domains, known := found[u.pod.Owner]
		if !known {
			domains = c.Domains(u.pod.Owner)
			found[u.pod.Owner] = domains
		}
		if !slices.Equal(domains, u.domains) {
			u.domains = domains
			u.find()
		}
	}
}

// lose takes in that a Pod is gone.
func (d *demand) lose(p *cluster.Pod) {
	delete(d.units, p.Object.UID)
	d.sums.Delete(string(p.Object.UID))
}

// build makes a roll-up of all that is known.
func (d *demand) build(c *cluster.Cluster, now time.Time) (RollUp, error) {
	d.locate(c)
	numbers := d.numbers(now)
	for uid, u := range d.units {
		n := c.Node(u.pod.Object.Spec.NodeName)
		place := aggregate.Place{
			Draining: n != nil && n.Object.Spec.Unschedulable, Ending: u.pod.Object.DeletionTimestamp != nil, Recreated: !u.pod.Owner.Bare,
		}
		if !place.Counted(false) {
			d.sums.Delete(string(uid))
			continue
		}
		u.rollUps++
		if err := d.sums.Set(aggregate.Item{ID: string(uid), Spec: &u.spec, Domains: u.domains, Stuck: numbers[string(uid)]}); err != nil {
			return nil, fmt.Errorf("roll-up of %s: %w", c.Name, err)
		}
	}
	parts, err := d.writer.Write(now, d.sums.Rows(), overheads(c))
	if err != nil {
		return nil, fmt.Errorf("roll-up of %s: %w", c.Name, err)
	}
	return parts, nil
}

// numbers are those of the rows of stuck Pods, by UID.
func (d *demand) numbers(now time.Time) map[string]uint32 {
	var pods []stuck.Pod
	all := map[string]stuck.Need{}
	for uid, u := range d.units {
		need := u.row.Fingerprint + "/" + u.row.Group + "/" + u.row.UnitClass
		since := unschedulable(u.pod)
		pods = append(pods, stuck.Pod{UID: string(uid), Need: need, Unschedulable: since, Rollups: u.rollUps, Apart: apart(u.pod)})
		if _, known := all[need]; !known && !since.IsZero() {
			all[need] = d.toCome(u.row)
		}
	}
	return d.stuck.Step(now, pods, all)
}

// unschedulable is since when the scheduler finds no Node for a Pod; zero if it has one.
func unschedulable(p *cluster.Pod) time.Time {
	for _, c := range p.Object.Status.Conditions {
		if p.Pending() && c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// apart says whether a Pod has required anti-affinity by host.
func apart(p *cluster.Pod) bool {
	a := p.Object.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(t corev1.PodAffinityTerm) bool {
		return t.TopologyKey == corev1.LabelHostname
	})
}

// overheads are those of the daemons.
func overheads(c *cluster.Cluster) []needs.Overhead {
	var daemons []*appsv1.DaemonSet
	for _, w := range c.Workloads() {
		if w.Daemon {
			ds := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: w.Template}}
			ds.Name, ds.Namespace = w.Name, cluster.Namespace
			daemons = append(daemons, ds)
		}
	}
	all, _ := aggregate.Overheads(daemons, translate.Options{Alternatives: true})
	return all
}
