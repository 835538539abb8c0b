package fleet_test

import (
	"errors"
	"testing"

	"nstance.dev/server/fleet"
)

// life is the whole state machine: one line a state, one column an event, in
// the order of Events; "-" is an error.
var life = map[fleet.State][]fleet.State{
	//                  accepted     refused  registered  reported    missed       found sick   condemned   drain       delete sent gone  reconsidered
	fleet.Pending:      {"provisioning", "deleted", "running", "-", "-", "unhealthy", "condemned", "-", "-", "-", "-"},
	fleet.Provisioning: {"provisioning", "deleted", "running", "-", "-", "unhealthy", "condemned", "-", "-", "-", "-"},
	fleet.Running:      {"running", "-", "running", "running", "suspect", "unhealthy", "condemned", "-", "-", "-", "-"},
	fleet.Suspect:      {"suspect", "-", "running", "running", "suspect", "unhealthy", "condemned", "-", "-", "-", "-"},
	fleet.Unhealthy:    {"unhealthy", "deleted", "running", "running", "unhealthy", "unhealthy", "condemned", "-", "-", "-", "-"},
	fleet.Condemned:    {"condemned", "-", "-", "condemned", "condemned", "condemned", "condemned", "draining", "deleting", "deleted", "running"},
	fleet.Draining:     {"draining", "-", "-", "draining", "draining", "draining", "draining", "draining", "deleting", "deleted", "-"},
	fleet.Deleting:     {"deleting", "-", "-", "deleting", "deleting", "deleting", "deleting", "-", "deleting", "deleted", "-"},
	fleet.Deleted:      {"-", "-", "-", "-", "-", "-", "-", "-", "-", "deleted", "-"},
	"":                 {"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
}

func TestTransitions(t *testing.T) {
	for s, row := range life {
		if len(row) != len(fleet.Events()) {
			t.Fatalf("%s: %d columns for %d events", s, len(row), len(fleet.Events()))
		}
		for i, e := range fleet.Events() {
			got, err := s.On(e)
			want := row[i]
			if want != "-" {
				if err != nil || got != want {
					t.Errorf("%s on %s = %s, %v; want %s", s, e, got, err, want)
				}
				continue
			}
			var te *fleet.TransitionError
			if got != s || !errors.Is(err, fleet.ErrTransition) || !errors.As(err, &te) || te.State != s || te.Event != e {
				t.Errorf("%s on %s = %s, %v; want a TransitionError and no change", s, e, got, err)
			}
		}
	}
}

func TestTransitionsCoverEveryState(t *testing.T) {
	for _, s := range fleet.States() {
		if _, ok := life[s]; !ok {
			t.Errorf("no row for %s", s)
		}
		for _, e := range []fleet.Event{0, 200} {
			if got, err := s.On(e); got != s || err == nil {
				t.Errorf("%s on %s = %s, %v; want an error", s, e, got, err)
			}
		}
	}
}

// TestS6_OneWayBackFromCondemned: nothing but a new leader's second look brings a
// condemned instance back, nothing at all one that is drained or deleted, and none but a
// condemnation leads to a delete.
func TestS6_OneWayBackFromCondemned(t *testing.T) {
	for _, s := range fleet.States() {
		for _, e := range fleet.Events() {
			next, err := s.On(e)
			if err != nil {
				continue
			}
			back := s == fleet.Condemned && e == fleet.EventReconsidered
			if s.Leaving() && (next.Live() || next.Sick()) && !back {
				t.Errorf("%s on %s comes back as %s", s, e, next)
			}
			if next == fleet.Deleting && !s.Leaving() {
				t.Errorf("%s on %s is deleted without being condemned", s, e)
			}
		}
	}
}

func TestStateSets(t *testing.T) {
	for _, s := range append(fleet.States(), "", "nonsense") {
		n := 0
		for _, in := range []bool{s.Live(), s.Sick(), s.Leaving()} {
			if in {
				n++
			}
		}
		want := 1
		if s == fleet.Deleted || s == "" || s == "nonsense" {
			want = 0
		}
		if n != want {
			t.Errorf("%q is in %d sets, want %d", s, n, want)
		}
		if s.Registered() && !s.Live() {
			t.Errorf("%q is registered and not live", s)
		}
	}
}

func TestStatus(t *testing.T) {
	drains := fleet.Removal{DeleteAt: epoch}
	for _, c := range []struct {
		in   fleet.Instance
		want string
	}{
		{fleet.Instance{State: fleet.Pending}, "pending"},
		{fleet.Instance{State: fleet.Provisioning}, "provisioning"},
		{fleet.Instance{State: fleet.Running}, "running"},
		{fleet.Instance{State: fleet.Suspect}, "running"},
		{fleet.Instance{State: fleet.Unhealthy}, "unhealthy"},
		{fleet.Instance{State: fleet.Condemned}, "terminating"},
		{fleet.Instance{State: fleet.Condemned, Removal: drains}, "draining"},
		{fleet.Instance{State: fleet.Draining, Removal: drains}, "draining"},
		{fleet.Instance{State: fleet.Deleting}, "terminating"},
		{fleet.Instance{State: fleet.Deleted}, "terminated"},
		{fleet.Instance{}, "unknown"},
	} {
		if got := fleet.Status(c.in); got != c.want {
			t.Errorf("status of %s = %s, want %s", c.in.State, got, c.want)
		}
	}
}
