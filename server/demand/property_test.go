package demand_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"nstance.dev/server/demand"
)

// seeds is how many seeds a property is tried with; NSTANCE_DEMAND_SEEDS sets more.
func seeds(t *testing.T, ordinary int) int {
	t.Helper()
	if s := os.Getenv("NSTANCE_DEMAND_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return ordinary
}

func randomRows(rng *rand.Rand, cluster string) []demand.Row {
	var rows []demand.Row
	for i := range 1 + rng.IntN(6) {
		cpu := int64(100) << rng.IntN(6)
		r := row(fmt.Sprintf("%s.%d.%d", cluster, i, cpu), int32(rng.IntN(3)*100), 1+rng.Int64N(40), cpu, gi/4<<rng.IntN(5))
		r.Interruption = demand.Bucket(1 + rng.IntN(5))
		if rng.IntN(4) == 0 {
			r.Terms.Requirements = append(r.Terms.Requirements, where("node.kubernetes.io/instance-type", "large", "spot"))
			r.Fingerprint += "large"
		}
		if rng.IntN(20) == 0 {
			r.Interruption = demand.Pinned
		}
		rows = append(rows, r)
	}
	return rows
}

// mixedRows are random rows of which some are of Pods that differ.
func mixedRows(rng *rand.Rand, cluster string) []demand.Row {
	rows := randomRows(rng, cluster)
	for i := range rows {
		if r := &rows[i]; rng.IntN(3) == 0 {
			r.Aggregate[0].Amount -= rng.Int64N(r.Aggregate[0].Amount - r.MinUnit[0].Amount + 1)
		}
	}
	return rows
}

func withSpot() []demand.Event {
	events := market()
	offers := events[1].(demand.OffersChanged)
	spot := offerOf("t/g", "spot", 8, 32, 150_000)
	spot.Class.CapacityType, spot.Class.InterruptionPPM = demand.Spot, 20_000
	return []demand.Event{events[0], demand.OffersChanged{Offers: append(offers.Offers, spot)}}
}

// E1: demand, prices and supply that do not change lead to one cycle that acts. Each epoch changes
// what all clusters ask for, and then three machines are lost.
func TestE1_FixedPoint(t *testing.T) {
	for seed := range seeds(t, 12) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			h := newHouse(t, demand.Settings{Workers: 1 + seed%3})
			h.tell(withSpot()...)
			for epoch := range 1000 {
				for c := range 1 + rng.IntN(3) {
					name := fmt.Sprintf("c%d", c)
					h.tell(needs(name, mixedRows(rng, name)...)...)
				}
				h.once(epoch, "new demand")
				for range 3 {
					ids := h.sorted()
					if len(ids) == 0 {
						break
					}
					id := ids[rng.IntN(len(ids))]
					delete(h.machines, id)
					h.tell(demand.Gone{ID: id})
				}
				h.once(epoch, "a loss of three")
			}
		})
	}
}

// once lets the engine act in one cycle, and fails the test if it acts in the next: not even when
// it has to compute everything again.
func (h *house) once(epoch int, after string) {
	h.t.Helper()
	h.step()
	before, capped := len(h.last.Shortfalls), h.last.Capped > 0
	for _, id := range h.sorted() { // everything matures at once
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
	again := h.step()
	if capped { // the rail let some of what was decided wait, and its bound grows with what is configured
		again = slices.DeleteFunc(again, func(a demand.Action) bool { return a.Kind == demand.Reclaim })
	}
	if len(again) > 0 {
		h.t.Fatalf("epoch %d: after %s it acts twice:\n%s", epoch, after, lines(again))
	}
	if before != 0 || len(h.last.Shortfalls) != 0 {
		h.t.Fatalf("epoch %d: after %s it is short: %+v", epoch, after, h.last.Shortfalls)
	}
	h.now = h.now.Add(25 * time.Second)
}
