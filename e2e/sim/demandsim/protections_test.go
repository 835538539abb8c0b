package demandsim_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

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

// steadyKinds are workloads that ask for the same whether their Pods run or not. Others end, or ask for the rack in
// which the first of them runs.
var steadyKinds = []string{"tiny", "service", "huge", "giant", "bare", "roll", "sidecar", "urgent", "boss", "costly", "stubborn", "spread", "gpu", "gang", "either", "daemon"}

// steadily is a random demand that does not change, and stays until its machines have joined.
func steadily(seed uint64, boot time.Duration) string {
	r := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // luck that has to repeat
	clusters := 1 + r.IntN(3)
	var b strings.Builder
	// Machines with GPUs take twice as long.
	fmt.Fprintf(&b, "set clusters %d\nset boot %s\nset length %s\n", clusters, boot, 2*time.Minute+2*boot)
	for c := range clusters {
		for n := range 1 + r.IntN(5) {
			kind := steadyKinds[r.IntN(len(steadyKinds))]
			fmt.Fprintf(&b, "1m set cluster-%c %s %s-%d %d\n", 'a'+c, kind, kind, n, 1+r.IntN(12))
		}
	}
	return b.String()
}

// TestE3_TheFactorIsOne: of random demands that do not change, each buys the same machines with any boot. The factor
// is what is bought with a boot by what is bought without. How Pods find places on machines that come one after another
// is luck, and what is bought for those that find none is another demand.
func TestE3_TheFactorIsOne(t *testing.T) {
	without, with := 0, map[time.Duration]int{}
	for seed := range uint64(40) {
		want := bought(t, steadily(seed, 0))
		for _, n := range want {
			without += n
		}
		for _, boot := range []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute} {
			got := bought(t, steadily(seed, boot))
			for _, n := range got {
				with[boot] += n
			}
			if !maps.Equal(got, want) {
				broken(t, "E3", "seed %d, boot of %s: %v are bought, and %v without a boot", seed, boot, got, want)
			}
		}
	}
	for boot, n := range with {
		t.Logf("boot of %s: %d machines, and %d without a boot: factor %.2f", boot, n, without, float64(n)/float64(without))
		if without == 0 || n == 0 {
			t.Error("nothing is bought")
		}
	}
}

// bought is how many machines of each offer are, but for Pods that find no place.
func bought(t *testing.T, text string) map[string]int {
	t.Helper()
	res := demandsim.Run(plan(t, text), sim.Options{FailFast: search.FailFast()})
	for _, v := range res.Violations {
		t.Errorf("%s", v)
	}
	all := map[string]int{}
	for kind, n := range count(t, res.Log) {
		if offer, is := strings.CutPrefix(kind, "provision "); is {
			if n -= res.Fired[demandsim.ForStuckPods+offer]; n > 0 {
				all[offer] = n
			}
		}
	}
	return all
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
