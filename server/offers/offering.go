package offers

import (
	"fmt"
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/driver"
)

// offering is what one group adds to a Book.
type offering struct {
	*Book
	group *effective.Group
	key   document.GroupKey
	state State
}

func (o *offering) problem(format string, args ...any) {
	o.state.Problems = append(o.state.Problems, fmt.Sprintf(format, args...))
}

// all adds the offers of the group: what is reserved, and each of its types in each way to pay.
func (o *offering) all() {
	names, leftOut, err := o.shard.resolved(o.group)
	if err != nil {
		o.problem("%v", err)
	}
	o.state.LeftOut = leftOut
	var unknown []string
	unpriced, unrated := map[driver.CapacityType][]string{}, []string(nil)
	for _, name := range names {
		kind, known := o.shard.kind(o.group, name)
		if !known {
			unknown = append(unknown, name)
			continue
		}
		if kind.Arch != o.group.Arch {
			o.problem("instance type %s is %s, and the template is %s", name, kind.Arch, o.group.Arch)
			continue
		}
		offered := false
		for _, word := range o.group.Demand.CapacityTypes {
			capacity := driver.CapacityType(word)
			if !o.shard.cfg.Rules.Serves(word) {
				continue // the checks of the configuration say so
			}
			price, ok := o.shard.price(kind, capacity)
			if !ok {
				unpriced[capacity] = append(unpriced[capacity], name)
				continue
			}
			if capacity == driver.Spot && o.shard.interruption(kind, capacity) == 0 {
				unrated = append(unrated, name)
				continue
			}
			offered = o.add(kind, capacity, price, "", -1) || offered
		}
		if offered {
			o.state.Types = append(o.state.Types, name)
		}
	}
	if len(unknown) > 0 {
		o.problem("the size of %s is not known%s", listed(unknown), o.shard.whyUnknown())
	}
	for _, capacity := range []driver.CapacityType{driver.OnDemand, driver.Spot, driver.BareMetal} {
		if list := unpriced[capacity]; len(list) > 0 {
			o.problem("%s has no price for %s capacity: add one to server.demand.prices", listed(list), capacity)
		}
	}
	if len(unrated) > 0 {
		o.problem("the interruption probability of %s is not known: add it to server.demand.interruptions", listed(unrated))
	}
	o.reserved()
}

// whyUnknown says where the size of a type would come from.
func (s *shard) whyUnknown() string {
	switch {
	case !s.hasCatalogue:
		return ": the provider does not list its types, and the type and the arguments do not say it"
	case s.listed == nil:
		return ": the provider's types have not been listed yet"
	default:
		return ": the provider does not list it in this zone"
	}
}

// reserved adds the offers of what is paid for already in the zone of the shard.
func (o *offering) reserved() {
	for _, r := range o.group.Demand.Reservations {
		if r.Zone != "" && r.Zone != o.shard.cfg.Server.Provider.Zone {
			continue
		}
		kind, known := o.shard.kind(o.group, r.InstanceType)
		switch {
		case !known:
			o.problem("the size of %s, of reservation %s, is not known%s", r.InstanceType, r.ID, o.shard.whyUnknown())
		case kind.Arch != o.group.Arch:
			o.problem("reservation %s is of type %s, which is %s, and the template is %s", r.ID, r.InstanceType, kind.Arch, o.group.Arch)
		case o.shard.cfg.Rules.Serves(string(driver.Reserved)):
			price, _ := o.shard.price(kind, driver.Reserved) // 0 where it is not known: it is paid anyway
			o.add(kind, driver.Reserved, price, r.ID, int64(r.Count))
		}
	}
}

// add adds one offer; false: it has a resource that the engine could not count any more.
func (o *offering) add(kind driver.InstanceType, capacity driver.CapacityType, price int64, reservation string, limit int64) bool {
	name := offerName(o.key, kind.Name, capacity, reservation)
	offer := demand.Offer{
		Name: name, Class: o.shard.class(o.group, kind, capacity), Tenant: o.group.Tenant, PricePerHour: price, Limit: limit,
		Pools: o.shard.uses(o.group, kind, capacity), Capacity: capacityOf(kind),
	}
	if beyond := o.name(offer.Class.Allocatable, offer.Capacity); beyond != "" {
		o.problem("%s has the resource %s, and the groups of a shard offer at most %d resources together: take it out of instance_type, or move the group to a shard of its own",
			kind.Name, beyond, vector.Width)
		return false
	}
	if barred(o.group.Demand.Limits, offer.Capacity, price) {
		offer.Limit = 0
	}
	if short := lacking(offer.Class.Allocatable); short != "" {
		o.problem("%s leaves no %s for Pods: lower node.reserved, or take a larger type", kind.Name, short)
	}
	if beyond := beyond(o.group.Demand.Limits, offer.Capacity, price); beyond != "" {
		o.problem("demand.limits.%s is less than one %s needs: raise it, or take a smaller type", beyond, kind.Name)
	}
	o.Offers = append(o.Offers, offer)
	o.sources[name] = Source{Group: o.key, InstanceType: kind.Name, CapacityType: capacity, Reservation: reservation}
	return true
}

// name adds the names of resources to those of the Book, or returns the first one for which there is no
// room, and adds none.
func (o *offering) name(lists ...[]vector.Amount) (beyond string) {
	names := slices.Clip(o.names)
	for _, list := range lists {
		for _, a := range list {
			switch {
			case slices.Contains(names, a.Name):
			case len(names) == vector.Width:
				return a.Name
			default:
				names = append(names, a.Name)
			}
		}
	}
	o.names = names
	return ""
}

// lacking is what every Pod needs and these amounts have nothing of; "": they have some of all.
func lacking(amounts []vector.Amount) string {
	for _, name := range []string{"cpu", "memory", "pods"} {
		if !slices.ContainsFunc(amounts, func(a vector.Amount) bool { return a.Name == name }) {
			return name
		}
	}
	return ""
}

// beyond is the limit that one machine with these resources and this price is above; "": none. A limit of 0 is
// meant so.
func beyond(l *document.DemandLimits, capacity []vector.Amount, price int64) string {
	below := func(limit *int64, unit, amount int64) bool {
		return limit != nil && *limit > 0 && amount > saturating(*limit, unit)
	}
	for _, a := range capacity {
		count, limited := l.GPU[a.Name]
		switch {
		case a.Name == "cpu" && below(l.VCPU, 1000, a.Amount):
			return "vcpu"
		case a.Name == "memory" && below(l.MemoryGiB, gib, a.Amount):
			return "memory_gib"
		case limited && below(&count, 1, a.Amount):
			return "gpu"
		}
	}
	if spend := (*int64)(l.HourlySpend); below(spend, 1, price) {
		return "hourly_spend"
	}
	return ""
}

// mostListed is how many names a problem lists.
const mostListed = 5

func listed(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if n := len(names) - mostListed; n > 0 {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:mostListed], ", "), n)
	}
	return strings.Join(names, ", ")
}
