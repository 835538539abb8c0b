package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/offers"
)

// Plan is what would be bought.
type Plan struct {
	Purchases  []Purchase   `json:"purchases"` // by cluster, need and offer
	Shortfalls []Shortfall  `json:"shortfalls"`
	HourlyCost document.USD `json:"hourly_cost"`
	Problems   []string     `json:"problems,omitempty"` // of groups, why something is not offered
}

// Purchase is so many machines of one offer for one need.
type Purchase struct {
	Cluster      string       `json:"cluster"`
	Need         string       `json:"need"` // its name, else its number in the file, from 0
	Machines     int          `json:"machines"`
	Group        string       `json:"group"`
	InstanceType string       `json:"instance_type"`
	CapacityType string       `json:"capacity_type"`
	HourlyPrice  document.USD `json:"hourly_price"` // of one
	HourlyCost   document.USD `json:"hourly_cost"`  // of all
	Why          string       `json:"why"`
}

// Shortfall is what cannot be bought for a need.
type Shortfall struct {
	Cluster string           `json:"cluster"`
	Need    string           `json:"need"`
	Reason  string           `json:"reason"`
	Missing map[string]int64 `json:"missing"` // by resource: cpu in thousandths of a core, others in their unit
}

// Run hands the needs to an engine with the offers of a shard, and returns what it buys at once.
func Run(cfg *effective.Config, book *offers.Book, file Needs, now time.Time) (Plan, error) {
	plan := Plan{Purchases: []Purchase{}, Shortfalls: []Shortfall{}}
	for _, key := range slices.SortedFunc(maps.Keys(book.States), func(a, b document.GroupKey) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Group, b.Group))
	}) {
		for _, problem := range book.States[key].Problems {
			plan.Problems = append(plan.Problems, key.String()+": "+problem)
		}
	}
	made := 0
	engine, err := demand.New(demand.Settings{
		Policy: offers.Policy(cfg), MaxCreates: -1, MaxShortfalls: 1 << 20,
		NewID: func(string) string { made++; return fmt.Sprintf("machine-%06d", made) },
	})
	if err != nil {
		return plan, err
	}
	var batch []demand.Event
	for _, g := range book.Groups {
		batch = append(batch, demand.GroupChanged{Group: g})
	}
	for _, pool := range book.Pools {
		batch = append(batch, pool)
	}
	batch = append(batch, demand.OffersChanged{Offers: book.Offers})
	rows := map[string][]demand.Row{}
	for _, tenant := range slices.Sorted(maps.Keys(file.Clusters)) {
		if !cfg.HasTenant(tenant) {
			return plan, fmt.Errorf("clusters.%s: there is no such tenant in the configuration", tenant)
		}
		rollup, err := file.Clusters[tenant].rollup(tenant)
		if err != nil {
			return plan, err
		}
		rows[tenant] = rollup.Rows
		batch = append(batch, demand.Session{Cluster: tenant, Live: true}, rollup)
	}
	result := engine.Step(now, batch)
	if len(result.Rejected) > 0 {
		return plan, result.Rejected[0]
	}
	run := report{book: book, file: file, rows: rows}
	plan.Purchases = run.purchases(result.Actions)
	for _, p := range plan.Purchases {
		plan.HourlyCost += p.HourlyCost
	}
	for _, s := range result.Shortfalls {
		short := Shortfall{Cluster: s.Cluster, Need: run.name(s.Cluster, s.Need), Reason: string(s.Reason), Missing: map[string]int64{}}
		for _, a := range engine.Amounts(&s.Deficit) {
			short.Missing[a.Name] = a.Amount
		}
		run.addUnknown(s, short.Missing)
		plan.Shortfalls = append(plan.Shortfalls, short)
	}
	return plan, nil
}

// addUnknown adds what a need asks for and nothing that is offered has: the engine counts only what
// some machine has.
func (r report) addUnknown(s demand.Shortfall, missing map[string]int64) {
	_, row := r.find(s.Cluster, s.Need)
	if row == nil {
		return
	}
	for _, a := range row.Aggregate {
		offered := slices.ContainsFunc(r.book.Offers, func(o demand.Offer) bool {
			return slices.ContainsFunc(o.Class.Allocatable, func(has vector.Amount) bool { return has.Name == a.Name })
		})
		if !offered {
			missing[a.Name] = a.Amount
		}
	}
}

// report puts what was decided into the words of the file.
type report struct {
	book *offers.Book
	file Needs
	rows map[string][]demand.Row
}

func (r report) purchases(actions []demand.Action) []Purchase {
	type slot struct {
		cluster, offer string
		need           demand.Key
		why            demand.Reason
	}
	var order []slot
	count := map[slot]int{}
	for _, a := range actions {
		if a.Kind != demand.Provision {
			continue
		}
		s := slot{a.Cluster, a.Offer, a.Need, a.Reason}
		if count[s]++; count[s] == 1 {
			order = append(order, s)
		}
	}
	all := []Purchase{}
	for _, s := range order {
		i := slices.IndexFunc(r.book.Offers, func(o demand.Offer) bool { return o.Name == s.offer })
		offer := &r.book.Offers[i]
		source, _ := r.book.Source(s.offer)
		all = append(all, Purchase{
			Cluster: s.cluster, Need: r.name(s.cluster, s.need), Machines: count[s], Group: source.Group.String(),
			InstanceType: source.InstanceType, CapacityType: string(source.CapacityType),
			HourlyPrice: document.USD(offer.PricePerHour), HourlyCost: document.USD(offer.PricePerHour * int64(count[s])),
			Why: r.why(s.cluster, s.need, s.why, offer),
		})
	}
	return all
}

// find returns the need of a cluster; nil: it is one that a group's minimum makes.
func (r report) find(cluster string, key demand.Key) (*Need, *demand.Row) {
	rows := r.rows[cluster]
	if i := indexOf(key); i >= 0 && i < len(rows) && rows[i].Key == key {
		return &r.file.Clusters[cluster].Needs[i], &rows[i]
	}
	return nil, nil
}

func (r report) name(cluster string, key demand.Key) string {
	need, _ := r.find(cluster, key)
	switch {
	case need == nil:
		return ""
	case need.Name != "":
		return need.Name
	}
	return strconv.Itoa(indexOf(key))
}

// why says for what a machine is bought, and how its offer compares with the others that serve it.
func (r report) why(cluster string, key demand.Key, reason demand.Reason, offer *demand.Offer) string {
	_, row := r.find(cluster, key)
	switch {
	case reason == demand.ReasonMinimum:
		return "demand.min of the group"
	case reason == demand.ReasonWarm:
		return "demand.min_idle of the group"
	case row == nil:
		return string(reason)
	}
	serving := 0
	for i := range r.book.Offers {
		if serves(&r.book.Offers[i], cluster, row) {
			serving++
		}
	}
	text := fmt.Sprintf("the least cost for what it covers, of %d offers that serve the need", serving)
	if serving == 1 {
		text = "the only offer that serves the need"
	}
	cost := document.USD(effectiveCost(offer, row))
	if int64(cost) != offer.PricePerHour {
		text += fmt.Sprintf("; with the risk of interruption it counts as %s an hour", cost)
	}
	if offer.Class.CapacityType == demand.Reserved {
		text = "reserved, and paid for already"
	}
	return text
}

// serves says whether machines of an offer can serve a need at all.
func serves(o *demand.Offer, cluster string, row *demand.Row) bool {
	if o.Tenant != "" && o.Tenant != cluster || row.Interruption == demand.Pinned && o.Class.InterruptionPPM > 0 {
		return false
	}
	if !row.Terms.Match(o.Class.Labels, o.Class.Taints) {
		return false
	}
	for _, unit := range row.MinUnit {
		i := slices.IndexFunc(o.Class.Allocatable, func(a vector.Amount) bool { return a.Name == unit.Name })
		if unit.Amount > 0 && (i < 0 || o.Class.Allocatable[i].Amount < unit.Amount) {
			return false
		}
	}
	return true
}

// effectiveCost is what an hour of a machine counts for a need: its price, and the probability of an
// interruption times what that costs.
func effectiveCost(o *demand.Offer, row *demand.Row) int64 {
	return o.PricePerHour + o.Class.InterruptionPPM*row.Interruption.Cents()/100
}
