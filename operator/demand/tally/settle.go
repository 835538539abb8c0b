package tally

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/operator/demand/aggregate"
	"nstance.dev/operator/demand/split"
	"nstance.dev/operator/demand/stuck"
)

// again is after how long the division is made once more though nothing has changed: time alone
// lets pending requests go back to a shard that was short of them.
const again = 10 * time.Second

func (t *Tally) unit(id string) *unit {
	u := t.units[id]
	if u == nil {
		u = &unit{id: id, since: t.rollups}
		t.units[id] = u
	}
	return u
}

// kind returns the kind of what a unit asks for, and counts one more user; nil: nothing is asked
// for. There are few kinds of units, and many units: each is kept and worked out once.
func (t *Tally) kind(spec *demandv1.CapacityRequestSpec) *kind {
	if spec == nil {
		return nil
	}
	raw, err := t.naming.Raw(spec)
	if err != nil {
		raw = []byte("invalid " + err.Error())
	}
	k := t.kinds[string(raw)]
	if k == nil {
		k = &kind{raw: string(raw), spec: spec.DeepCopy(), err: err}
		if err == nil {
			k.key, k.err = t.naming.Key(k.spec)
		}
		t.kinds[k.raw] = k
	}
	k.users++
	return k
}

// release counts a user out.
func (t *Tally) release(k *kind) {
	if k == nil {
		return
	}
	if k.users--; k.users == 0 {
		delete(t.kinds, k.raw)
	}
}

// changed looks at a unit once more, and reports whether it counted or counts.
func (t *Tally) changed(u *unit) bool {
	before := u.kind
	u.kind = t.counted(u)
	t.join(u)
	t.wait(u)
	t.mark(u)
	if u.pod == nil && u.request == nil {
		t.drop(u)
	}
	return before != nil || u.kind != nil
}

// counted is what a unit counts by; nil: it does not count.
func (t *Tally) counted(u *unit) *kind {
	k := u.requests
	switch {
	case u.pod != nil && u.pod.Nothing:
		return nil
	case u.request == nil:
		k = u.podKind
	}
	if !u.place(t.places.nodes).Counted(t.opts.CountForeign) {
		return nil
	}
	return k
}

// place is where a unit runs.
func (u *unit) place(nodes map[string]Node) aggregate.Place {
	if u.pod == nil {
		return aggregate.Place{}
	}
	p := aggregate.Place{Ending: u.pod.Ending, Recreated: u.pod.Recreated}
	if u.pod.Node != "" {
		n, known := nodes[u.pod.Node]
		// A Node that has gone serves nothing; what ran there is about to end or to move.
		p.Foreign, p.Draining = known && n.Shard == "", n.Draining
	}
	return p
}

// join keeps a unit among the members of its group, and has the group looked at.
func (t *Tally) join(u *unit) {
	group := ""
	if u.kind != nil {
		group = u.kind.key.Group
	}
	if u.group != group {
		if members := t.groups[u.group]; members != nil {
			if delete(members, u); len(members) == 0 {
				delete(t.groups, u.group)
				delete(t.near, u.group)
			}
			t.todo.regroup[u.group] = struct{}{}
		}
		u.group, u.domains = group, nil
	}
	if group == "" {
		return
	}
	if t.groups[group] == nil {
		t.groups[group] = map[*unit]struct{}{}
	}
	t.groups[group][u] = struct{}{}
	t.todo.regroup[group] = struct{}{}
}

// wait keeps a unit among those that may need a row of their own.
func (t *Tally) wait(u *unit) {
	if u.kind != nil && u.kind.err == nil && u.pod != nil && (!u.pod.Unschedulable.IsZero() || u.number != 0) {
		t.todo.waiting[u] = struct{}{}
	} else {
		delete(t.todo.waiting, u)
	}
}

// drop forgets a unit that nothing is known of.
func (t *Tally) drop(u *unit) {
	delete(t.units, u.id) // what remains to be done of it settle does
}

// mark has a unit looked at before the next roll-up.
func (t *Tally) mark(u *unit) {
	if !u.moved {
		u.moved = true
		t.todo.moved = append(t.todo.moved, u)
	}
}

func (t *Tally) uncount(u *unit) {
	if share := t.shares[u.share]; share != nil {
		share.Delete(u.id)
	}
}

// settle makes the shares say what is the case.
func (t *Tally) settle(now time.Time) {
	if len(t.shards) == 0 {
		return
	}
	t.number(now)
	t.domains()
	t.divide(now)
	// In order: one of the same id may have come after one that is gone.
	for i, u := range t.todo.moved {
		t.todo.moved[i], u.moved = nil, false
		share := t.shares[u.share]
		switch {
		case share == nil:
		case u.kind == nil:
			share.Delete(u.id)
			u.share, u.since = "", t.rollups
		default:
			_ = share.Set(u.item()) // what is not valid says so by its kind
		}
	}
	t.todo.moved = t.todo.moved[:0]
}

// number gives units their stuck rows.
func (t *Tally) number(now time.Time) {
	if !t.opts.Surcharge || len(t.todo.waiting) == 0 {
		return
	}
	pods := make([]stuck.Pod, 0, len(t.todo.waiting))
	wanted := map[string]stuck.Need{}
	for u := range t.todo.waiting {
		text := u.kind.key.Text()
		pods = append(pods, stuck.Pod{UID: u.id, Need: text, Unschedulable: u.pod.Unschedulable, Rollups: t.rollups - u.since, Apart: u.pod.Apart})
		if _, known := wanted[text]; !known {
			wanted[text] = t.need(u)
		}
	}
	numbers := t.stuck.Step(now, pods, wanted)
	for u := range t.todo.waiting {
		if number := numbers[u.id]; number != u.number {
			u.number = number
			t.mark(u)
			t.wait(u)
		}
	}
}

// need is what is known of the need that a unit is part of.
func (t *Tally) need(u *unit) (n stuck.Need) {
	for key := range t.said.short {
		n.Shortfall = n.Shortfall || key.fingerprint == u.kind.key.Fingerprint
	}
	for _, labels := range t.said.joining {
		if holds(u.kind.spec, labels) {
			n.InFlight = true
			break
		}
	}
	return n
}

// domains finds where groups run that have changed.
func (t *Tally) domains() {
	for group := range t.todo.regroup {
		members := t.groups[group]
		var key string
		var found []string
		for u := range members {
			key = u.kind.spec.CoLocation.TopologyKey
			if value := t.domain(u, key); value != "" {
				found = append(found, value)
			}
		}
		slices.Sort(found)
		found = slices.Compact(found)
		for u := range members {
			if !slices.Equal(u.domains, found) {
				u.domains = found
				t.mark(u)
			}
		}
	}
	clear(t.todo.regroup)
}

// domain is the value of a topology key where a unit runs; empty: it runs nowhere, or the
// values of the key are not known to shards.
func (t *Tally) domain(u *unit, key string) string {
	if u.pod == nil || u.pod.Node == "" || !slices.Contains(domainKeys, key) {
		return ""
	}
	if key == corev1.LabelTopologyZone {
		return t.places.nodes[u.pod.Node].Zone
	}
	return t.places.nodes[u.pod.Node].Region
}

// Waiting returns what the groups have to be near of which nothing runs yet, where that is a zone or a
// region and there are several: who knows where those Pods run tells it by [Tally.SetNear].
func (t *Tally) Waiting() map[string]*demandv1.CoLocation {
	if len(t.shards) < 2 {
		return nil
	}
	all := map[string]*demandv1.CoLocation{}
	for group, members := range t.groups {
		runs := false
		for u := range members {
			runs = runs || t.runs(u) != ""
			all[group] = u.kind.spec.CoLocation
		}
		if runs || all[group] == nil || !slices.Contains(domainKeys, all[group].TopologyKey) {
			delete(all, group)
		}
	}
	return all
}

// SetNear says on which Nodes the Pods run that a group has to be near, each once for each Pod.
func (t *Tally) SetNear(group string, nodes []string) {
	counts, most := map[string]int{}, ""
	for _, node := range nodes {
		if shard := t.shardOf(node); shard != "" {
			counts[shard]++
		}
	}
	for _, s := range t.shards { // in order of the directory
		if counts[s.ID] > counts[most] {
			most = s.ID
		}
	}
	if t.near[group] == most {
		return
	}
	if t.near[group] = most; most == "" {
		delete(t.near, group)
	}
	for u := range t.groups[group] {
		t.mark(u)
	}
}

// divide gives each unit to a shard.
func (t *Tally) divide(now time.Time) {
	if len(t.shards) == 1 {
		for _, u := range t.todo.moved {
			u.share = t.shards[0].ID
		}
		return
	}
	if len(t.todo.moved) == 0 && now.Sub(t.divided) < again {
		return
	}
	t.divided = now
	requests := make([]split.Request, 0, len(t.units))
	for _, u := range t.units {
		if u.kind != nil && u.kind.err == nil {
			requests = append(requests, split.Request{ID: u.id, Fingerprint: u.kind.key.Fingerprint, Group: u.kind.key.Group, Spec: u.kind.spec, Runs: t.runs(u), Near: t.near[u.kind.key.Group]})
		}
	}
	chosen := t.splitter.Split(now, t.shards, requests, func(shard, fingerprint string) split.Offer { return t.said.offers[at{shard, fingerprint}] })
	for _, r := range requests {
		u := t.units[r.ID]
		if next := chosen[r.ID]; next != u.share {
			t.uncount(u)
			u.share = next
			t.mark(u)
		}
	}
}

// runs is the shard that a unit runs in; empty: it runs in none.
func (t *Tally) runs(u *unit) string {
	if u.pod == nil || u.pod.Node == "" {
		return ""
	}
	return t.shardOf(u.pod.Node)
}

// shardOf is the shard of a Node; empty: it is none's.
func (t *Tally) shardOf(node string) string {
	n := t.places.nodes[node]
	if n.Shard != "" {
		return n.Shard
	}
	return split.ByZone(t.shards, n.Zone)
}
