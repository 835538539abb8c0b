package tally

import (
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/aggregate"
	"nstance.dev/operator/demand/split"
	"nstance.dev/operator/demand/stuck"
	"nstance.dev/protos/needs"
)

// Source says what a Pod counts by.
type Source string

// The sources.
const (
	// Both: its request, and before that is there the Pod itself.
	Both Source = "both"
	// Requests: its request alone.
	Requests Source = "cr"
	// Pods: the Pod itself; only requests that are made for no Pod count beside.
	Pods Source = "direct"
)

// Options are the settings of a Tally.
type Options struct {
	Source      Source                // Both
	UnitClasses aggregate.UnitClasses // Pow2
	// CountForeign counts Pods on Nodes that are no machines of a shard.
	CountForeign bool
	// Surcharge gives Pods that stay unschedulable rows of their own.
	Surcharge bool
}

// Pod is a Pod that asks for capacity, or none any longer.
type Pod struct {
	UID string
	// Spec is what it asks for; not looked at where requests alone count.
	Spec *demandv1.CapacityRequestSpec
	// Nothing: it has ended or asks for nothing, whatever a request says that was made for it.
	Nothing bool
	Node    string // that it runs on; empty: none yet
	// Ending and Recreated are as in [aggregate.Place].
	Ending, Recreated bool
	// Unschedulable is since when kube-scheduler finds no Node for it; zero when it does.
	Unschedulable time.Time
	// Apart: it must not share a host with Pods like itself.
	Apart bool
}

// Request is a CapacityRequest.
type Request struct {
	ID   string // its own UID
	Pod  string // UID of the Pod that it was made for; empty: it stands for itself
	Spec *demandv1.CapacityRequestSpec
}

// Node is what a Node means for the Pods on it.
type Node struct {
	// Shard has the machine; empty: it is nobody's.
	Shard string
	// Zone and Region are those of its labels.
	Zone, Region string
	// Draining: its work is being moved away.
	Draining bool
}

// Tally is what a cluster asks for. Use [New].
type Tally struct {
	opts     Options
	shards   []split.Shard
	splitter split.Splitter
	stuck    stuck.Tracker
	shares   map[string]*aggregate.Aggregator // by shard
	naming   *aggregate.Aggregator            // knows the keys of rows; nothing is in it

	kinds  map[string]*kind
	units  map[string]*unit // by the UID of the Pod, or of a request that stands for itself
	groups map[string]map[*unit]struct{}
	near   map[string]string // by group: the shard in which the Pods run that it has to be near
	places places
	said   said
	todo   todo

	rollups int       // that were sent
	divided time.Time // when the splitter ran last
}

// places are the Nodes, and what runs on each.
type places struct {
	nodes map[string]Node
	on    map[string]map[*unit]struct{}
}

// said is what the shards have said.
type said struct {
	offers  map[at]split.Offer  // what they have
	short   map[at]struct{}     // of what they fall short
	joining map[string]labelsOf // machines that are being made or join, by name
}

// todo is what is to be looked at before the next roll-up.
type todo struct {
	moved   []*unit
	regroup map[string]struct{} // groups of which members have moved
	waiting map[*unit]struct{}  // units that are unschedulable, or in a stuck row
}

type at struct{ shard, fingerprint string }

type labelsOf map[string]string

// unit is one Pod or one request that stands for itself.
type unit struct {
	id       string
	pod      *Pod // without its Spec; nil: not known
	podKind  *kind
	request  *Request // without its Spec; nil: there is none
	requests *kind

	kind    *kind    // what counts of the two; nil: the unit does not count
	group   string   // among whose members it is
	share   string   // the shard that it counts for; empty: it is not divided yet
	number  uint32   // of its stuck row
	domains []string // of its group
	since   int      // the roll-ups that were sent before it counted
	moved   bool     // it is among those to be looked at
}

// kind is what units ask for that are alike in everything: the Pods of one template.
type kind struct {
	raw   string // all that tells kinds apart; empty: it is not shared
	spec  *demandv1.CapacityRequestSpec
	key   aggregate.Key // of the row, without a number
	err   error         // why it cannot be part of a roll-up
	users int
}

// New returns an empty tally of no shards.
func New(o Options) *Tally {
	if o.Source == "" {
		o.Source = Both
	}
	return &Tally{
		opts: o, shares: map[string]*aggregate.Aggregator{}, naming: aggregate.New(aggregate.Options{UnitClasses: o.UnitClasses}),
		kinds: map[string]*kind{}, units: map[string]*unit{}, groups: map[string]map[*unit]struct{}{}, near: map[string]string{},
		places: places{map[string]Node{}, map[string]map[*unit]struct{}{}},
		said:   said{map[at]split.Offer{}, map[at]struct{}{}, map[string]labelsOf{}},
		todo:   todo{regroup: map[string]struct{}{}, waiting: map[*unit]struct{}{}},
	}
}

// SetShards says over which shards the rest is divided, in the order of the directory.
func (t *Tally) SetShards(shards []split.Shard) {
	if slices.Equal(shards, t.shards) {
		return
	}
	t.shards = slices.Clone(shards)
	for id := range t.shares {
		if !slices.ContainsFunc(shards, func(s split.Shard) bool { return s.ID == id }) {
			delete(t.shares, id)
		}
	}
	for _, s := range shards {
		if t.shares[s.ID] == nil {
			t.shares[s.ID] = aggregate.New(aggregate.Options{UnitClasses: t.opts.UnitClasses})
		}
	}
	for _, u := range t.units {
		if t.shares[u.share] == nil {
			u.share = ""
		}
		t.mark(u)
	}
}

// SetPod takes in what a Pod is now; its Spec is not kept. True: what is asked for may have
// changed.
func (t *Tally) SetPod(p Pod) bool {
	spec := p.Spec
	if p.Spec = nil; p.Nothing || t.opts.Source == Requests {
		spec = nil
	}
	u := t.unit(p.UID)
	kind := t.kind(spec)
	if u.pod != nil && *u.pod == p && u.podKind == kind {
		t.release(kind)
		return false
	}
	if u.pod != nil && u.pod.Node != p.Node {
		t.leaveNode(u)
	}
	t.release(u.podKind)
	u.pod, u.podKind = &p, kind
	if p.Node != "" {
		if t.places.on[p.Node] == nil {
			t.places.on[p.Node] = map[*unit]struct{}{}
		}
		t.places.on[p.Node][u] = struct{}{}
	}
	return t.changed(u)
}

// DeletePod forgets a Pod.
func (t *Tally) DeletePod(uid string) bool {
	u := t.units[uid]
	if u == nil || u.pod == nil {
		return false
	}
	t.leaveNode(u)
	t.release(u.podKind)
	u.pod, u.podKind = nil, nil
	return t.changed(u)
}

func (t *Tally) leaveNode(u *unit) {
	if on := t.places.on[u.pod.Node]; on != nil {
		if delete(on, u); len(on) == 0 {
			delete(t.places.on, u.pod.Node)
		}
	}
}

// SetRequest takes in what a request is now; its Spec is not kept.
func (t *Tally) SetRequest(r Request) bool {
	if t.opts.Source == Pods && r.Pod != "" {
		return false
	}
	u := t.unit(r.unit())
	kind := t.kind(r.Spec)
	if r.Spec = nil; u.request != nil && *u.request == r && u.requests == kind {
		t.release(kind)
		return false
	}
	t.release(u.requests)
	u.request, u.requests = &r, kind
	return t.changed(u)
}

// DeleteRequest forgets a request.
func (t *Tally) DeleteRequest(r Request) bool {
	u := t.units[r.unit()]
	if u == nil || u.request == nil || u.request.ID != r.ID {
		return false
	}
	t.release(u.requests)
	u.request, u.requests = nil, nil
	return t.changed(u)
}

// unit is the id of the unit that a request is of.
func (r Request) unit() string {
	if r.Pod != "" {
		return r.Pod
	}
	return r.ID
}

// SetNode takes in what a Node is now.
func (t *Tally) SetNode(name string, n Node) bool {
	if before, known := t.places.nodes[name]; known && before == n {
		return false
	}
	t.places.nodes[name] = n
	return t.onNodeChanged(name)
}

// DeleteNode forgets a Node.
func (t *Tally) DeleteNode(name string) bool {
	if _, known := t.places.nodes[name]; !known {
		return false
	}
	delete(t.places.nodes, name)
	return t.onNodeChanged(name)
}

func (t *Tally) onNodeChanged(name string) bool {
	changed := false
	for u := range t.places.on[name] {
		changed = t.changed(u) || changed
	}
	return changed
}

// SetJoining takes in the labels of a machine that is being made or joins; nil: it does neither
// any longer.
func (t *Tally) SetJoining(machine string, labels map[string]string) {
	if labels == nil {
		delete(t.said.joining, machine)
		return
	}
	t.said.joining[machine] = labels
}

// SetOffer takes in what a shard says of a profile.
func (t *Tally) SetOffer(now time.Time, shard, fingerprint string, offer split.Offer, shortfall bool) {
	key := at{shard, fingerprint}
	t.said.offers[key] = offer
	delete(t.said.short, key)
	if shortfall {
		t.said.short[key] = struct{}{}
	}
	t.splitter.Observe(now, shard, fingerprint, shortfall)
}

// DeleteOffer forgets what a shard has said of a profile.
func (t *Tally) DeleteOffer(shard, fingerprint string) {
	delete(t.said.offers, at{shard, fingerprint})
	delete(t.said.short, at{shard, fingerprint})
	t.splitter.Forget(shard, fingerprint)
}

// Rows returns what a shard is asked for now, in the order in which it is sent. Neither the
// rows nor what they point to is ever changed.
func (t *Tally) Rows(now time.Time, shard string) []*needs.Row {
	t.settle(now)
	share := t.shares[shard]
	if share == nil {
		return nil
	}
	return share.Rows()
}

// Sent hears that roll-ups of all shards with a session were sent.
func (t *Tally) Sent() { t.rollups++ }

// Share returns the shard whose roll-up has a unit in it, by the UID of its Pod or of a request
// that stands for itself. Empty: none has.
func (t *Tally) Share(id string) string {
	u := t.units[id]
	if u == nil || u.kind == nil || u.kind.err != nil {
		return ""
	}
	return u.share
}

// Len returns how many units are counted, and how many are skipped because they cannot be part
// of a roll-up.
func (t *Tally) Len() (counted, skipped int) {
	for _, share := range t.shares {
		counted += share.Len()
	}
	for _, k := range t.kinds {
		if k.err != nil {
			skipped += k.users
		}
	}
	return counted, skipped
}

// Fingerprints returns those of all profiles that are asked for.
func (t *Tally) Fingerprints(now time.Time) map[string]bool {
	t.settle(now)
	all := map[string]bool{}
	for _, share := range t.shares {
		for _, row := range share.Rows() {
			all[row.Fingerprint] = true
		}
	}
	return all
}

// Rebuild adds everything up from nothing, and reports whether that gives what the steps before
// have given. From then on the new sums count.
func (t *Tally) Rebuild(now time.Time) (matched bool) {
	t.settle(now)
	matched = true
	for id, share := range t.shares {
		matched = share.Rebuild(t.items(id)) && matched
	}
	return matched
}

// items are those of a shard.
func (t *Tally) items(shard string) iter.Seq[aggregate.Item] {
	return func(yield func(aggregate.Item) bool) {
		for _, u := range t.units {
			if u.kind != nil && u.share == shard && !yield(u.item()) {
				return
			}
		}
	}
}

func (u *unit) item() aggregate.Item {
	return aggregate.Item{ID: u.id, Spec: u.kind.spec, Stuck: u.number, Domains: u.domains, Shared: true}
}

// Nodes returns the names of the Nodes that are known.
func (t *Tally) Nodes() []string { return slices.Sorted(maps.Keys(t.places.nodes)) }

// domainKeys are the topology keys whose values every shard declares.
var domainKeys = []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}
