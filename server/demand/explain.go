package demand

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/demand/vector"
)

// OfferView is what one offer could do for a need, for people.
type OfferView struct {
	Name         string
	Group        string
	InstanceType string
	CapacityType CapacityType
	PricePerHour int64 // in millionths of a dollar
	// Effective is what decides: the price, 0 where it is paid for anyway, and the probability of an interruption times what
	// one would cost; in millionths of a dollar per hour.
	Effective int64
	// Units are how many times the largest unit of the need fits into one machine, beside what every machine of the
	// cluster carries; 0: not once.
	Units int64
	Free  int64 // how many machines may be bought now
	// Reason is why none is; empty: one may be. Detail says in words what stands in the way.
	Reason Reason
	Detail string
	Until  time.Time // when that ends by itself; zero: not known, or it does not
}

// Explained is what is known of how a need is served, for people.
type Explained struct {
	// Blocked is why the need itself buys nothing for a while, whatever is offered, and until when; empty: it may buy.
	Blocked Reason
	Until   time.Time
	Idle    int // machines that are there and would be taken first
	// Offers are those that the cluster may use: what may be bought first, by the cost of a unit, then the others by name.
	Offers []OfferView
}

// Explain says of a need of a cluster what each offer could do for it, as of the last step; false: there is no such need.
// It is computed in each call.
func (e *Engine) Explain(cluster string, key Key) (Explained, bool) {
	w := &e.w
	c, ok := w.byName[cluster]
	if !ok || c.byKey[key] == nil {
		return Explained{}, false
	}
	n := c.byKey[key]
	w.matchAll()
	w.evaluate(c, n)
	var all Explained
	switch {
	case n.memory.blocked > w.now:
		all.Blocked, all.Until = n.memory.blockedWhy, timeOf(n.memory.blocked)
	case c.guard.loop.Until() > w.now:
		all.Blocked, all.Until = RailHeld, timeOf(c.guard.loop.Until())
	}
	for _, slot := range w.fleet.loose {
		if m := w.fleet.at(slot); m.state == Idle && w.mayTake(c, n, m) {
			all.Idle++
		}
	}
	for _, o := range w.cat.offers {
		if o.tenant < 0 || o.tenant == c.index {
			all.Offers = append(all.Offers, (explaining{w}).offer(c, n, o))
		}
	}
	slices.SortStableFunc(all.Offers, OfferView.compare)
	return all, true
}

// compare puts what may be bought first, by the cost of a unit.
func (v OfferView) compare(o OfferView) int {
	switch {
	case v.Reason == "" && o.Reason != "":
		return -1
	case v.Reason != "" && o.Reason == "":
		return 1
	case v.Reason != "":
		return 0
	case vector.LessProduct(v.Effective, o.Units, o.Effective, v.Units):
		return -1
	case vector.LessProduct(o.Effective, v.Units, v.Effective, o.Units):
		return 1
	default:
		return 0
	}
}

// explaining says why, in words.
type explaining struct{ *world }

// offer says what one offer could do for a need.
func (w explaining) offer(c *cluster, n *need, o *offer) OfferView {
	class := &w.cat.classes[o.class]
	alloc := w.allocatable(c, o.class)
	v := OfferView{
		Name: o.Name, Group: class.Group, InstanceType: class.InstanceType, CapacityType: class.CapacityType,
		PricePerHour: o.PricePerHour, Effective: effective(o.price(), o.Class.InterruptionPPM, n.Interruption),
	}
	if v.Detail = w.unsuited(c, n, o); v.Detail != "" {
		v.Reason = NoMatchingOffer
		return v
	}
	v.Units = vector.Units(alloc[:], &n.unit, n.mask)
	if v.Free, v.Reason = w.mayBuy(c, n, o); v.Reason != "" {
		v.Detail = o.obstacle(n.Key, v.Reason)
		if v.Reason == Cooldown {
			v.Until = timeOf(o.coolUntil)
		}
		return v
	}
	for i := range n.parts {
		if v.Detail = w.outside(n, &n.parts[i], o); v.Detail == "" {
			break
		}
	}
	limit, limited := w.settings.Policy.HourlySpend[c.name]
	switch {
	case v.Detail != "":
		v.Free, v.Reason = 0, NoDomain
	case limited && c.spend+o.PricePerHour > limit:
		v.Free, v.Reason, v.Detail = 0, RailHeld, "the cluster would pay more than max_hourly_spend"
	}
	return v
}

// unsuited says why machines of an offer cannot serve a need at all; empty: they can.
func (w explaining) unsuited(c *cluster, n *need, o *offer) string {
	class := &w.cat.classes[o.class]
	var all []string
	for _, a := range w.cat.space.Unknown(n.Aggregate) {
		all = append(all, "it has no "+a.Name)
	}
	if n.profile.int == Pinned && class.InterruptionPPM > 0 {
		all = append(all, "it may be interrupted, and that is worth any price to the Pods")
	}
	all = append(all, n.profile.terms.Obstacles(class.Labels, class.Taints)...)
	alloc := w.allocatable(c, o.class)
	for d, amount := range n.unit {
		if amount > alloc[d] {
			all = append(all, fmt.Sprintf("a Pod asks for %d of %s, and it has %d", amount, w.cat.space.Name(d), alloc[d]))
		}
	}
	return strings.Join(all, "; ")
}

// outside says why no machine of an offer would be in the domains of a part; empty: it would.
func (w explaining) outside(n *need, p *part, o *offer) string {
	for _, d := range p.within {
		switch at := w.cat.classes[o.class].at[d.key]; {
		case at < 0:
			return fmt.Sprintf("which %s a machine will have is not known before it is made", w.topo.keys[d.key])
		case d.value < 0:
			return fmt.Sprintf("no %s has room for all of the Pods that have to share one", w.topo.keys[d.key])
		case at != d.value && n.profile.same >= 0:
			return fmt.Sprintf("its %s is %s, and the Pods share %s", w.topo.keys[d.key], w.topo.names[at], w.topo.names[d.value])
		case at != d.value:
			return fmt.Sprintf("its %s is %s, where the spread wants no more", w.topo.keys[d.key], w.topo.names[at])
		}
	}
	return ""
}

// obstacle says which limit, quota or cooldown keeps an offer from being bought.
func (o *offer) obstacle(key Key, why Reason) string {
	g := o.group
	switch {
	case why == Cooldown:
		return "the provider had no room, a quota was full, or machines did not join"
	case why == LimitReached && g.Max >= 0 && g.count >= g.Max:
		return fmt.Sprintf("the group has %d machines of max %d", g.count, g.Max)
	case why == LimitReached && g.Limits.HourlySpend > 0 && g.spend+o.PricePerHour > g.Limits.HourlySpend:
		return "the group would pay more than limits.hourly_spend"
	case why == LimitReached:
		return "the group has not so much left of its limits"
	case o.Limit >= 0 && o.used >= o.Limit:
		return fmt.Sprintf("%d of %d of the offer are in use", o.used, o.Limit)
	}
	for _, u := range o.uses {
		if left := u.pool.limit - u.pool.used - u.pool.reserved(key); left < u.units {
			return fmt.Sprintf("quota pool %s has %d of %d left, and a machine takes %d", u.pool.name, max(left, 0), u.pool.limit, u.units)
		}
	}
	return ""
}
