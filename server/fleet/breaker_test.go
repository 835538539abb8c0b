package fleet_test

import (
	"testing"
	"time"

	"nstance.dev/server/fleet"
)

// atBirth is a machine that was made from hash and never registered.
func atBirth(hash string) fleet.Instance {
	return fleet.Instance{Group: web, State: fleet.Provisioning, InfraHash: hash}
}

func registeredAt(at time.Time) fleet.Instance {
	return fleet.Instance{Group: web, State: fleet.Running, RegisteredAt: at}
}

func TestL3_CameToNothing(t *testing.T) {
	for name, c := range map[string]struct {
		in   fleet.Instance
		want bool
	}{
		"it never registered":                 {atBirth("h"), true},
		"it ended soon after its birth":       {registeredAt(epoch.Add(-5*time.Minute + 1)), true},
		"it was of use for five minutes":      {registeredAt(epoch.Add(-5 * time.Minute)), false},
		"on demand, and nobody's replacement": {fleet.Instance{OnDemand: true}, false},
	} {
		if got := fleet.LaunchFailed(c.in, epoch); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestF26_BreakerBoundsAnHour: of machines that die at birth, the first and five more
// are made within an hour, and in any hour after that no more than five.
func TestF26_BreakerBoundsAnHour(t *testing.T) {
	const perHour = 5
	var b fleet.Breaker
	var made []time.Time
	for now := epoch; now.Before(epoch.Add(5 * time.Hour)); now = now.Add(time.Minute) {
		if gate := b.CreatesBlocked(perHour, now); gate.Why != "" {
			if gate.By != fleet.BlockerCrashLoop || !gate.Until.After(now) {
				t.Fatalf("%v: %+v", now, gate)
			}
			continue
		}
		made = append(made, now)
		b = b.Tried(now).Failed(atBirth("h"), "", now)
	}
	for i := range made {
		if j := i + perHour; i > 0 && j < len(made) && made[j].Sub(made[i]) < time.Hour {
			t.Errorf("six within an hour: %v", made[i:j+1])
		}
	}
	if len(made) < 5*perHour {
		t.Errorf("%d tries in five hours: it gave up", len(made))
	}
}

func TestF26_BreakerBoundsOnlyWhatMakesUpForAFailure(t *testing.T) {
	b := fleet.Breaker{}.Failed(atBirth("h"), "", epoch).Failed(atBirth("h"), "", epoch)
	if left, bounded := b.Left(5, epoch); left != 5 || !bounded {
		t.Errorf("after two failures: %d, %v", left, bounded)
	}
	b = b.Tried(epoch).Tried(epoch)
	if left, bounded := b.Left(5, epoch); bounded {
		t.Errorf("both are made up for, and still %d", left)
	}
	b = b.Tried(epoch).Failed(atBirth("h"), "", epoch)
	if left, _ := b.Left(5, epoch); left != 3 {
		t.Errorf("%d left, want 3: a create that makes up for nothing is free", left)
	}
}

// TestL3_AMachineThatLastsRefills: five minutes after a registration that is younger
// than the last failure, or was still to prove itself then, everything is forgiven.
func TestL3_AMachineThatLastsRefills(t *testing.T) {
	b := fleet.Breaker{}.Failed(atBirth("h"), "", epoch)
	for name, c := range map[string]struct {
		in   fleet.Instance
		now  time.Time
		full bool
		next time.Time
	}{
		"nobody":                            {atBirth("h"), epoch.Add(time.Hour), false, time.Time{}},
		"one that had lasted before":        {registeredAt(epoch.Add(-5 * time.Minute)), epoch.Add(time.Hour), false, time.Time{}},
		"one that registered a moment ago":  {registeredAt(epoch.Add(time.Minute)), epoch.Add(2 * time.Minute), false, epoch.Add(6 * time.Minute)},
		"one that lasted since":             {registeredAt(epoch.Add(time.Minute)), epoch.Add(6 * time.Minute), true, time.Time{}},
		"one that was about to last before": {registeredAt(epoch.Add(-time.Minute)), epoch.Add(4 * time.Minute), true, time.Time{}},
	} {
		got, next := b.Settle([]fleet.Instance{c.in}, c.now)
		_, bounded := got.Left(5, c.now)
		if bounded == c.full || !next.Equal(c.next) {
			t.Errorf("%s: bounded %v, next %v", name, bounded, next)
		}
	}
}

// TestL3_RotationStopsAfterOneMachine: longer after each machine that comes to
// nothing, up to an hour, and only for the configuration that it was made from.
func TestL3_RotationStopsAfterOneMachine(t *testing.T) {
	var b fleet.Breaker
	now := epoch
	for i, want := range []float64{5, 10, 20, 40, 60, 60} { // minutes
		b = b.Failed(atBirth("bad"), "", now)
		gate := b.RotationBlocked("bad", now)
		if wait := gate.Until.Sub(now).Minutes(); gate.By != fleet.BlockerRotationStopped || wait != want {
			t.Fatalf("failure %d: %+v, held for %v minutes", i+1, gate, wait)
		}
		if gate := b.RotationBlocked("good", now); gate.Why != "" {
			t.Errorf("another configuration: %+v", gate)
		}
		if now = gate.Until; b.RotationBlocked("bad", now).Why != "" {
			t.Errorf("failure %d: not tried again", i+1)
		}
	}
	b = b.Failed(atBirth("other"), "", now)
	if wait := b.RotationBlocked("other", now).Until.Sub(now); wait != 5*time.Minute {
		t.Errorf("the first machine of another configuration holds for %v", wait)
	}
}
