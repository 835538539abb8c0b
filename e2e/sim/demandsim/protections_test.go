package demandsim_test

import (
	"fmt"
	"testing"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/demandsim"
)

// steady is a demand that does not change, and more than a cycle of machines that boot for it.
const steady = "set length 1h\nset boot %s\n1m set cluster-a service api 60\n1m set cluster-a tiny web 90"

// provisions is how many machines are bought in a world with some protections turned off.
func provisions(t *testing.T, text string, tamper demandsim.Tamper) int {
	t.Helper()
	res := demandsim.RunWith(plan(t, text), sim.Options{}, tamper)
	return count(t, res.Log)["provision"]
}

// TestE3_NoMoreIsBoughtWhileMachinesBoot: whatever a boot takes, what is bought is what would be
// bought if it took no time.
func TestE3_NoMoreIsBoughtWhileMachinesBoot(t *testing.T) {
	want := provisions(t, fmt.Sprintf(steady, "0s"), demandsim.Tamper{})
	for _, boot := range []string{"0s", "30s", "1m", "5m"} {
		if got := provisions(t, fmt.Sprintf(steady, boot), demandsim.Tamper{}); got != want || want == 0 {
			broken(t, "E3", "boot of %s: %d machines are bought, and %d without a boot", boot, got, want)
		}
	}
}

// TestE3_WithoutWhatIsInFlightMoreIsBought shows that the test above can fail.
func TestE3_WithoutWhatIsInFlightMoreIsBought(t *testing.T) {
	const text = "set length 4m\nset boot 1m\n1m set cluster-a service api 10"
	want := provisions(t, text, demandsim.Tamper{})
	got := provisions(t, text, demandsim.Tamper{HideInFlight: true})
	if got < 2*want {
		t.Errorf("%d machines are bought with what is in flight hidden, and %d with it: the simulation does not see it", got, want)
	}
}

// TestE1_DemandOfPendingPodsAloneAsksForWhatIsUsed: at constant load no machine is asked for; where
// Pods count only while they are pending, all are, again and again.
func TestE1_DemandOfPendingPodsAloneAsksForWhatIsUsed(t *testing.T) {
	const text = "set length 1h\n1m set cluster-a tiny web 90"
	for _, tt := range []struct {
		tamper      demandsim.Tamper
		least, most int
	}{{demandsim.Tamper{}, 0, 0}, {demandsim.Tamper{PendingOnly: true}, 20, 1000}} {
		res := demandsim.RunWith(plan(t, text), sim.Options{}, tt.tamper)
		if got := count(t, res.Log)["reclaim"]; got < tt.least || got > tt.most {
			broken(t, "E1", "%+v: %d machines are asked for, want %d to %d", tt.tamper, got, tt.least, tt.most)
		}
	}
}
