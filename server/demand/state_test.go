package demand_test

import (
	"errors"
	"testing"

	"nstance.dev/server/demand"
)

func TestMoves(t *testing.T) {
	const n = 8
	legal := map[[2]demand.State]bool{}
	for from, all := range map[demand.State][]demand.State{
		demand.Speculative: {demand.Creating},
		demand.Creating:    {demand.Idle, demand.Failed},
		demand.Idle:        {demand.Configuring, demand.Deleting, demand.Failed},
		demand.Configuring: {demand.Configured, demand.Failed, demand.Idle},
		demand.Configured:  {demand.Draining, demand.Failed},
		demand.Draining:    {demand.Idle, demand.Failed, demand.Deleting, demand.Configured},
		demand.Deleting:    {demand.Speculative, demand.Failed},
		demand.Failed:      {demand.Deleting},
	} {
		for _, to := range all {
			legal[[2]demand.State{from, to}] = true
		}
	}
	for from := range demand.State(n) {
		for to := range demand.State(n) {
			err := demand.Move(from, to)
			if want := legal[[2]demand.State{from, to}] || from == to; want != (err == nil) || err != nil && !errors.Is(err, demand.ErrTransition) {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
	}
	if demand.Move(n, demand.Idle) == nil {
		t.Error("a state that does not exist moves")
	}
}

// What is not possible is refused, and the machine is what it was.
func TestRefusedEvents(t *testing.T) {
	h := full(t, 1)
	id := h.sorted()[0]
	for _, e := range []demand.Event{
		demand.Changed{ID: id, State: demand.Creating}, demand.Changed{ID: id, State: demand.Idle}, demand.Changed{ID: "none", State: demand.Idle},
		demand.Gone{ID: "none"}, demand.Observed{Machine: demand.Supply{ID: "x"}},
		demand.OffersChanged{Offers: []demand.Offer{{Name: "bad", PricePerHour: -1}, offerOf("t/g", "small", 2, 8, 100_000)}},
	} {
		r := h.engine.Step(h.now, []demand.Event{e})
		if len(r.Rejected) != 1 || len(r.Actions) != 0 {
			t.Errorf("%+v: rejected %v, actions %v", e, r.Rejected, r.Actions)
		}
	}
	if err := (demand.Settings{Workers: -1, NewID: func(string) string { return "" }}).Validate(); err == nil {
		t.Error("negative workers are possible")
	}
	if _, err := demand.New(demand.Settings{}); err == nil {
		t.Error("an engine without ids is possible")
	}
}
