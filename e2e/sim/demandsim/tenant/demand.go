package tenant

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/sim/demandsim/cluster"
	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
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

// unit is what one Pod adds to a roll-up.
type unit struct {
	row    needs.Row // without amounts
	amount []needs.Amount
}

// demand is what the operator knows of the Pods, as the last changes of its caches left it.
type demand struct {
	pendingOnly bool
	units       map[types.UID]*unit
	order       []types.UID
	stuck       map[types.UID]*stuck
	writer      *rollup.Writer
}

func newDemand(pendingOnly bool) *demand {
	return &demand{pendingOnly: pendingOnly, units: map[types.UID]*unit{}, stuck: map[types.UID]*stuck{}, writer: rollup.NewWriter(ClusterID)}
}

// newSession makes the next roll-up a whole one, with the first number.
func (d *demand) newSession() { d.writer = rollup.NewWriter(ClusterID) }

// see takes in a Pod that is new or has changed. One that ends on a Node that is being drained counts no
// longer: its place goes with it, and its replacement counts already.
func (d *demand) see(c *cluster.Cluster, p *cluster.Pod) {
	_, excluded := translate.Excluded(p.Object)
	n := c.Node(p.Object.Spec.NodeName)
	drained := p.Object.DeletionTimestamp != nil && n != nil && n.Object.Spec.Unschedulable
	if translate.Terminal(p.Object) || excluded || drained || d.pendingOnly && !p.Pending() {
		d.lose(p)
		return
	}
	if _, known := d.units[p.Object.UID]; known {
		return // nothing of it that counts can change here
	}
	result := translate.Build(p.Object, translate.Volumes{}, translate.Options{Alternatives: true})
	d.units[p.Object.UID] = unitOf(&result.Spec)
	d.order = append(d.order, p.Object.UID)
}

// lose takes in that a Pod is gone.
func (d *demand) lose(p *cluster.Pod) {
	if _, known := d.units[p.Object.UID]; known {
		delete(d.units, p.Object.UID)
		delete(d.stuck, p.Object.UID)
		d.order = slices.DeleteFunc(d.order, func(uid types.UID) bool { return uid == p.Object.UID })
	}
}

// build makes a roll-up of all that is known.
func (d *demand) build(c *cluster.Cluster, now time.Time) (RollUp, error) {
	rows := map[needs.Key]*needs.Row{}
	for _, uid := range d.order {
		u := d.units[uid]
		own := u.row
		own.Stuck = d.stuckRow(uid)
		key := own.Key(c.Name)
		row := rows[key]
		if row == nil {
			row = &own
			rows[key] = row
		}
		row.AllOrNothing = row.AllOrNothing || u.row.AllOrNothing
		row.Aggregate = merge(row.Aggregate, u.amount, func(a, b int64) int64 { return a + b })
		row.MinUnit = merge(row.MinUnit, u.amount, func(a, b int64) int64 { return max(a, b) })
	}
	all := slices.SortedFunc(maps.Values(rows), needs.CompareRows)
	parts, err := d.writer.Write(now, all, overheads(c))
	if err != nil {
		return nil, fmt.Errorf("roll-up of %s: %w", c.Name, err)
	}
	if len(parts) == 0 {
		return nil, errors.New("a roll-up has no parts")
	}
	return parts, nil
}

// merge joins two lists of amounts in the order of their names.
func merge(a, b []needs.Amount, join func(a, b int64) int64) (all []needs.Amount) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Name < b[0].Name:
			all, a = append(all, a[0]), a[1:]
		case a[0].Name > b[0].Name:
			all, b = append(all, b[0]), b[1:]
		default:
			all = append(all, needs.Amount{Name: a[0].Name, Amount: join(a[0].Amount, b[0].Amount)})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// overheads are those of the daemons.
func overheads(c *cluster.Cluster) (all []needs.Overhead) {
	for _, w := range c.Workloads() {
		if w.Daemon {
			all = append(all, needs.Overhead{Resources: amountsOf(translate.Requests(&corev1.Pod{Spec: w.Template.Spec}))})
		}
	}
	return all
}

// unitOf is what a request adds, and to which row.
func unitOf(spec *demandv1.CapacityRequestSpec) *unit {
	u := &unit{amount: amountsOf(spec.Resources.Requests)}
	p := needs.Profile{
		Requirements: requirementsOf(spec.Requirements), Priority: spec.Priority,
		Interruption: bucketOf(spec.InterruptionPenalty), Reclamation: bucketOf(spec.ReclamationPenalty),
	}
	for _, a := range spec.Alternatives {
		p.Alternatives = append(p.Alternatives, requirementsOf(a.Requirements))
	}
	for _, s := range spec.TopologySpread {
		p.Spread = append(p.Spread, needs.Spread{TopologyKey: s.TopologyKey, MaxSkew: s.MaxSkew})
	}
	for _, t := range spec.Tolerations {
		p.Tolerations = append(p.Tolerations, needs.Toleration{
			Key: t.Key, Exists: t.Operator == demandv1.TolerationOperator(corev1.TolerationOpExists), Value: t.Value,
			Effect: map[string]needs.Effect{"NoSchedule": needs.NoSchedule, "NoExecute": needs.NoExecute}[string(t.Effect)],
		})
	}
	if c := spec.CoLocation; c != nil {
		u.row.Group = needs.CoLocation{TopologyKey: c.TopologyKey, Namespaces: c.Namespaces, Selector: translate.Selector(c.LabelSelector)}.GroupKey()
		u.row.AllOrNothing = c.AllOrNothing
		p = p.WithSame(c.TopologyKey)
	} else {
		u.row.UnitClass = needs.UnitClass(u.amount)
	}
	u.row.Profile = p.Normal()
	u.row.Fingerprint = u.row.Profile.Fingerprint()
	return u
}

func requirementsOf(list []demandv1.Requirement) (all []needs.Requirement) {
	for _, r := range list {
		op, known := needs.ParseOperator(string(r.Operator))
		if !known {
			panic(fmt.Sprintf("a translation has the operator %q", r.Operator))
		}
		all = append(all, needs.Requirement{Key: r.Key, Operator: op, Values: r.Values})
	}
	return all
}

func bucketOf(q *resource.Quantity) needs.Bucket {
	if q == nil {
		return needs.Zero
	}
	return needs.BucketOf(q.ScaledValue(resource.Micro))
}

// amountsOf are resources in the order of their names, without what is zero.
func amountsOf(list corev1.ResourceList) (all []needs.Amount) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		amount := q.Value()
		if name == corev1.ResourceCPU {
			amount = q.MilliValue()
		}
		if amount > 0 {
			all = append(all, needs.Amount{Name: string(name), Amount: amount})
		}
	}
	return all
}
