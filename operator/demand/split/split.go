// Package split divides what a cluster asks for among several shards: each gets a share and
// knows nothing of the others.
//
// What runs counts for the shard that it runs in, so that each zone knows what is surplus
// there. What is pending goes to one of the shards that its requirements on zone and region
// allow: a group whole to one of them, the one in which the Pods run that it has to be near, units that are spread over zones to the one that has
// the fewest, everything else to the one that has the best to offer. A pending request stays
// with its shard until it runs, until the shard is not eligible any longer, until it is one too
// many there of those that are spread, or until the shard has been short of it for [Patience]
// without a break; then it does not go back there for [Away].
//
// A [Splitter] is pure: time and what is observed are arguments. It is not safe for concurrent
// use. It leaves to others where requests come from and that every shard gets a roll-up, an
// empty share included; a shard that cannot be reached keeps what runs there.
package split

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
)

const (
	// Away is how long pending requests do not go back to a shard that was short of them.
	Away = 10 * time.Minute
	// Patience is how long a shard is short of a profile before what is pending goes elsewhere. It is
	// a time and no number of updates: a shard says once what does not change.
	Patience = 30 * time.Second
)

// Shard is one shard of the directory. Its order there decides ties.
type Shard struct {
	ID           string
	Zone, Region string // empty: not known, which excludes nothing
}

// Request is one CapacityRequest.
type Request struct {
	ID          string // the UID of the Pod, or of the request
	Fingerprint string // of its profile
	Group       string // key of its group; empty for most
	Spec        *demandv1.CapacityRequestSpec
	// Runs is the shard that the Pod runs in; empty while it is pending. [ByZone] finds it.
	Runs string
	// Near is the shard in which most of the Pods run that its group has to be near, in a zone or
	// region; empty: none of them runs, or that is of no account.
	Near string
}

// Offer is what a shard has for a profile. The zero value: nothing is known.
type Offer struct {
	Confidence demandv1.Confidence
	Cost       int64 // of the cheapest machine, in millionths of a US dollar for an hour
}

// ByZone returns the first shard of a zone; empty: there is none.
func ByZone(shards []Shard, zone string) string {
	i := slices.IndexFunc(shards, func(s Shard) bool { return zone != "" && s.Zone == zone })
	if i < 0 {
		return ""
	}
	return shards[i].ID
}

// Splitter remembers where pending requests are. The zero value is of use.
type Splitter struct {
	chosen map[string]string   // by the id of a request, or by "group " and a group
	short  map[place]time.Time // since when without a break, of what is asked for
	away   map[place]time.Time
}

type place struct{ shard, fingerprint string }

// Observe takes one update of what a shard has for a profile: whether it falls short of it.
func (s *Splitter) Observe(now time.Time, shard, fingerprint string, shortfall bool) {
	if s.short == nil {
		s.short, s.away = map[place]time.Time{}, map[place]time.Time{}
	}
	at := place{shard, fingerprint}
	if !shortfall {
		delete(s.short, at)
	} else if _, since := s.short[at]; !since {
		s.short[at] = now
	}
}

// Forget drops that a shard was short of a profile: it is asked for it no longer.
func (s *Splitter) Forget(shard, fingerprint string) { delete(s.short, place{shard, fingerprint}) }

// Split returns the shard of each request, by its id. offers says what a shard has for a
// profile. Without shards nothing is returned; with one shard it gets everything. A request
// that no shard can satisfy goes to one all the same, which reports that it cannot.
func (s *Splitter) Split(now time.Time, shards []Shard, requests []Request, offers func(shard, fingerprint string) Offer) map[string]string {
	for at, until := range s.away {
		if !now.Before(until) {
			delete(s.away, at)
		}
	}
	d := division{s, shards, offers, map[string]string{}, map[string]string{}, map[count]int{}, map[string]int{}}
	if len(shards) == 0 {
		return d.result
	}
	s.forget(shards, requests)
	for at, since := range s.short {
		if now.Sub(since) >= Patience {
			delete(s.short, at)
			s.away[at] = now.Add(Away)
		}
	}
	sorted := slices.SortedFunc(slices.Values(requests), func(a, b Request) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range sorted {
		d.totals[r.Fingerprint]++
	}
	d.running(sorted)
	d.groups(sorted)
	var fresh []Request
	for _, r := range sorted {
		if d.result[r.ID] != "" {
			continue
		}
		// Those that stay come first: the others are divided around them.
		if before := s.chosen[r.ID]; before != "" && slices.Contains(d.allowed(r), before) && d.even(r, before) {
			d.put(r, before)
		} else {
			fresh = append(fresh, r)
		}
	}
	for _, r := range fresh {
		if spreadsOverZones(r.Spec) {
			d.put(r, d.fewest(r))
		} else {
			d.put(r, d.best(r))
		}
	}
	s.chosen = d.chosen
	return d.result
}

// forget drops the shortfalls of shards that are gone and of profiles that nobody asks for.
func (s *Splitter) forget(shards []Shard, requests []Request) {
	exists, asked := map[string]bool{}, map[string]bool{}
	for _, shard := range shards {
		exists[shard.ID] = true
	}
	for _, r := range requests {
		asked[r.Fingerprint] = true
	}
	maps.DeleteFunc(s.short, func(at place, _ time.Time) bool { return !exists[at.shard] || !asked[at.fingerprint] })
}

// division is one run of Split.
type division struct {
	*Splitter
	shards []Shard
	offers func(shard, fingerprint string) Offer
	result map[string]string
	chosen map[string]string // what is remembered
	counts map[count]int     // of one profile in one shard
	totals map[string]int    // of one profile
}

type count struct{ fingerprint, shard string }

// put gives a pending request to a shard.
func (d *division) put(r Request, shard string) {
	d.result[r.ID] = shard
	d.chosen[r.ID] = shard
	d.counts[count{r.Fingerprint, shard}]++
}

// running leaves what runs where it is.
func (d *division) running(requests []Request) {
	for _, r := range requests {
		if r.Runs != "" && slices.ContainsFunc(d.shards, func(s Shard) bool { return s.ID == r.Runs }) {
			d.result[r.ID] = r.Runs
			d.counts[count{r.Fingerprint, r.Runs}]++
		}
	}
}

// groups puts the pending members of each group into one shard: the one in which most of it
// runs, else the one in which it has to be, else the one it was in, else one by its name.
func (d *division) groups(requests []Request) {
	members := map[string][]Request{}
	var order []string
	for _, r := range requests {
		if r.Group == "" {
			continue
		}
		if members[r.Group] == nil {
			order = append(order, r.Group)
		}
		members[r.Group] = append(members[r.Group], r)
	}
	for _, group := range order {
		all := members[group]
		shard := cmp.Or(d.mostRunning(all), d.near(all))
		if shard == "" {
			shard = d.ofGroup(group, all)
		}
		d.chosen["group "+group] = shard
		for _, r := range all {
			if d.result[r.ID] == "" {
				d.put(r, shard)
			}
		}
	}
}

func (d *division) mostRunning(members []Request) (most string) {
	running := map[string]int{}
	for _, r := range members {
		if shard := d.result[r.ID]; shard != "" {
			running[shard]++
		}
	}
	for _, s := range d.shards { // in order of the directory
		if running[s.ID] > running[most] {
			most = s.ID
		}
	}
	return most
}

// near is the shard in which a group finds the Pods that it has to be near: elsewhere no Node is of
// use to it. Empty: there is none, or nothing of the group may go there.
func (d *division) near(members []Request) string {
	for _, s := range d.shards {
		for _, r := range members {
			if r.Near == s.ID && Eligible(s, r.Spec) {
				return s.ID
			}
		}
	}
	return ""
}

func (d *division) ofGroup(group string, members []Request) string {
	allowed := d.allowed(members[0])
	for _, r := range members[1:] {
		also := d.allowed(r)
		if both := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return !slices.Contains(also, s) }); len(both) > 0 {
			allowed = both
		}
	}
	if before := d.Splitter.chosen["group "+group]; slices.Contains(allowed, before) {
		return before
	}
	return rendezvous(group, allowed)
}

// allowed returns the shards that a request may go to, in order of the directory: those that
// are eligible and have not been short of it lately; all eligible ones if all have; all shards
// if none is eligible.
func (d *division) allowed(r Request) []string {
	var eligible, good []string
	for _, s := range d.shards {
		if !Eligible(s, r.Spec) {
			continue
		}
		eligible = append(eligible, s.ID)
		// Units that are spread over zones gain nothing elsewhere.
		if _, away := d.away[place{s.ID, r.Fingerprint}]; !away || spreadsOverZones(r.Spec) {
			good = append(good, s.ID)
		}
	}
	switch {
	case len(good) > 0:
		return good
	case len(eligible) > 0:
		return eligible
	}
	for _, s := range d.shards {
		eligible = append(eligible, s.ID)
	}
	return eligible
}

// even is whether a shard may keep a pending request: kube-scheduler puts any of alike Pods on a Node that
// comes, so one that is spread over zones may find its place taken by a Pod that counted elsewhere.
func (d *division) even(r Request, shard string) bool {
	if !spreadsOverZones(r.Spec) {
		return true
	}
	zones := len(d.allowed(r))
	return d.counts[count{r.Fingerprint, shard}] < (d.totals[r.Fingerprint]+zones-1)/zones
}

// fewest returns the shard that has the fewest of the request's profile, running and pending.
func (d *division) fewest(r Request) string {
	return slices.MinFunc(d.allowed(r), func(a, b string) int {
		return cmp.Compare(d.counts[count{r.Fingerprint, a}], d.counts[count{r.Fingerprint, b}])
	})
}

// best returns the shard that has the most to offer for the request, at the lowest cost.
func (d *division) best(r Request) string {
	allowed := d.allowed(r)
	compare := func(a, b string) int {
		x, y := d.offers(a, r.Fingerprint), d.offers(b, r.Fingerprint)
		return cmp.Or(cmp.Compare(rank(x.Confidence), rank(y.Confidence)), cmp.Compare(x.Cost, y.Cost))
	}
	least := slices.MinFunc(allowed, compare)
	return rendezvous(r.ID, slices.DeleteFunc(allowed, func(s string) bool { return compare(s, least) != 0 }))
}

// rank orders confidences, the best first. Nothing known is what may yet be bought.
func rank(c demandv1.Confidence) int {
	switch c {
	case demandv1.ConfidenceHigh:
		return 0
	case demandv1.ConfidenceMedium, "":
		return 1
	case demandv1.ConfidenceLow:
		return 2
	default:
		return 3
	}
}

// rendezvous chooses one of several shards by a name, evenly, so that a shard that comes or
// goes moves no more than its own part.
func rendezvous(name string, shards []string) string {
	weight := func(shard string) []byte {
		sum := sha256.Sum256([]byte(name + "\x00" + shard))
		return sum[:]
	}
	return slices.MaxFunc(shards, func(a, b string) int { return cmp.Or(bytes.Compare(weight(a), weight(b)), cmp.Compare(a, b)) })
}

func spreadsOverZones(spec *demandv1.CapacityRequestSpec) bool {
	return slices.ContainsFunc(spec.TopologySpread, func(c demandv1.TopologySpread) bool {
		return c.TopologyKey == corev1.LabelTopologyZone && c.WhenUnsatisfiable == demandv1.DoNotSchedule
	})
}

// Eligible says whether a shard may serve a request by its zone and region.
func Eligible(s Shard, spec *demandv1.CapacityRequestSpec) bool {
	if !holds(s, spec.Requirements) {
		return false
	}
	return len(spec.Alternatives) == 0 ||
		slices.ContainsFunc(spec.Alternatives, func(a demandv1.Alternative) bool { return holds(s, a.Requirements) })
}

func holds(s Shard, requirements []demandv1.Requirement) bool {
	for _, r := range requirements {
		value := ""
		switch r.Key {
		case corev1.LabelTopologyZone:
			value = s.Zone
		case corev1.LabelTopologyRegion:
			value = s.Region
		}
		if value != "" && !satisfies(value, r) {
			return false
		}
	}
	return true
}

func satisfies(value string, r demandv1.Requirement) bool {
	switch r.Operator {
	case demandv1.OperatorIn:
		return slices.Contains(r.Values, value)
	case demandv1.OperatorNotIn:
		return !slices.Contains(r.Values, value)
	case demandv1.OperatorExists:
		return true
	case demandv1.OperatorGt, demandv1.OperatorLt:
		have, err := strconv.ParseInt(value, 10, 64)
		if err != nil || len(r.Values) != 1 {
			return false
		}
		than, err := strconv.ParseInt(r.Values[0], 10, 64)
		return err == nil && (r.Operator == demandv1.OperatorGt && have > than || r.Operator == demandv1.OperatorLt && have < than)
	default:
		return false
	}
}
