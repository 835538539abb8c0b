package demand_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/demand"
)

// jointRows are rows of which many ask for one rack, for an even spread over racks, or for all or nothing.
func jointRows(rng *rand.Rand, cluster string) []demand.Row {
	rows := mixedRows(rng, cluster)
	for i := range rows {
		r := &rows[i]
		switch rng.IntN(6) {
		case 0:
			*r = together(*r)
		case 1:
			*r = apart(*r)
		case 2:
			r.AllOrNothing = true
		case 3:
			*r = together(*r)
			r.AllOrNothing = true
		}
		r.Fingerprint += fmt.Sprint(r.AllOrNothing)
	}
	return rows
}

// scarce are offers in three racks and outside of them, most of which come to an end: by their own number, by a
// pool that two share, or by their group.
func scarce(rng *rand.Rand) []demand.Event {
	offers := slices.Concat(withSpot()[1].(demand.OffersChanged).Offers, racked("t/r", "r1", "r2", "r3"))
	pools := []demand.Event{}
	for i := range offers {
		o := &offers[i]
		switch rng.IntN(3) {
		case 0:
			o.Limit = rng.Int64N(12)
		case 1:
			o.Pools = []demand.PoolUse{{Pool: fmt.Sprint("pool", i%2), Units: 1 + rng.Int64N(2)}}
		}
	}
	for i := range 2 {
		pools = append(pools, demand.PoolChanged{Name: fmt.Sprint("pool", i), Limit: rng.Int64N(40)})
	}
	groups := []demand.Event{
		demand.GroupChanged{Group: demand.Group{Name: "t/g", Max: 20 + rng.Int64N(60)}},
		demand.GroupChanged{Group: demand.Group{Name: "t/r", Max: rng.Int64N(40)}},
	}
	return slices.Concat(groups, pools, []demand.Event{demand.OffersChanged{Offers: offers}})
}

// E1 where not everything can be had, and where needs ask for more than sums. Each epoch changes what clusters ask for,
// then loses three machines, then gets back what was given back meanwhile.
func TestE1_FixedPointOfScarceAndJointNeeds(t *testing.T) {
	for seed := range seeds(t, 12) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 11))
			h := newHouse(t, demand.Settings{Workers: 1 + seed%3})
			h.tell(scarce(rng)...)
			for epoch := range 1000 {
				if rng.IntN(50) == 0 {
					h.tell(scarce(rng)...)
				}
				for c := range 1 + rng.IntN(3) {
					name := fmt.Sprintf("c%d", c)
					h.tell(needs(name, jointRows(rng, name)...)...)
				}
				h.settled(epoch, "new demand")
				for range 3 {
					ids := h.sorted()
					if len(ids) == 0 {
						break
					}
					id := ids[rng.IntN(len(ids))]
					delete(h.machines, id)
					h.tell(demand.Gone{ID: id})
				}
				h.settled(epoch, "a loss of three")
				h.finish()
				h.settled(epoch, "what came back")
				h.now = h.now.Add(25 * time.Second)
			}
		})
	}
}

// settled lets the engine act in one cycle, and fails the test if it acts in the next. Where needs went short, what was
// bought for the others may have taken a domain or a limit from them, so that they choose again: in two more cycles at
// most. Of the reclaims that a rail let wait it may ask for more, of machines that nothing drew from before and of no others.
func (h *house) settled(epoch int, after string) {
	h.t.Helper()
	story := []string{lines(h.step())}
	left := 0
	if h.last.Short > 0 {
		left = 2
	}
	for {
		surplus, capped := h.surplus(), h.last.Capped > 0
		h.mature()
		acted := slices.DeleteFunc(h.step(), func(a demand.Action) bool { return capped && a.Kind == demand.Reclaim && surplus[a.Machine] })
		if len(acted) == 0 {
			return
		}
		story = append(story, lines(acted))
		if left--; left < 0 {
			h.t.Fatalf("epoch %d: after %s it acts once more than it may:\n%s", epoch, after, strings.Join(story, "then\n"))
		}
	}
}

// surplus are the machines that no need draws from.
func (h *house) surplus() map[string]bool {
	all := map[string]bool{}
	for c := range 3 {
		for _, m := range h.engine.Machines(fmt.Sprintf("c%d", c)) {
			all[m.ID] = !m.Surplus.IsZero()
		}
	}
	return all
}

// mature lets everything that was begun for a cluster be ready.
func (h *house) mature() {
	for _, id := range h.sorted() {
		for m := h.machines[id]; ; {
			switch {
			case m.state == demand.Creating:
				h.move(m, demand.Idle)
				continue
			case m.state == demand.Idle && m.cluster != "":
				h.move(m, demand.Configuring)
				continue
			case m.state == demand.Configuring:
				h.move(m, demand.Configured)
			}
			break
		}
	}
}

// finish lets drains and deletions end.
func (h *house) finish() {
	for _, id := range h.sorted() {
		switch m := h.machines[id]; m.state {
		case demand.Draining:
			m.tenant, m.cluster = m.cluster, ""
			h.move(m, demand.Idle)
		case demand.Deleting:
			delete(h.machines, id)
			h.tell(demand.Gone{ID: id})
		}
	}
}
