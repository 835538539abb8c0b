package hostsim_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/sim"
	"nstance.dev/e2e/sim/hostsim"
	"nstance.dev/e2e/sim/seeds"
)

var search = seeds.New(seeds.Options{
	Test: "./e2e/sim/hostsim -run 'TestHostSim$'", Seeds: 5, Shrinks: 200, Stuck: 4 * time.Minute,
	Generate: hostsim.Generate, World: hostsim.Run,
})

// TestHostSim runs the plans of many seeds, and demands that every promise is kept.
func TestHostSim(t *testing.T) { search.Run(t) }

func play(t *testing.T, text string) sim.Result {
	t.Helper()
	p, err := hostsim.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	res := search.Play(t, p)
	for _, v := range res.Violations {
		t.Errorf("%s\nof the plan\n%s", v, p)
	}
	return res
}

// TestSeedsRepeat: a seed says everything of a run.
func TestSeedsRepeat(t *testing.T) {
	for seed := range uint64(3) {
		p := hostsim.Generate(seed+1, "safety")
		want := search.Play(t, p).History
		got := search.Play(t, p).History
		for i := range min(len(want), len(got)) {
			if want[i] != got[i] {
				t.Fatalf("seed %d goes otherwise:\n%s\n%s", seed+1, want[i], got[i])
			}
		}
		if len(want) == 0 || !slices.Equal(want, got) {
			t.Fatalf("seed %d has %d events and %d", seed+1, len(want), len(got))
		}
	}
}

// TestM22M25_CrashesAtEveryWrite: with two processes, one of which, write by write in turn, ends before
// it, ends after it, loses its answer, or is refused, and whose number of a version is taken by an object of nobody.
func TestM22M25_CrashesAtEveryWrite(t *testing.T) {
	for first, with := range []string{"before", "after", "lost", "refused"} {
		for hit := 1 + first; hit <= 24; hit += 4 {
			play(t, fmt.Sprintf(`
				set processes 2
				set length 40s
				set hit %d
				set with %s
				0s make gpu all
				0s machine m0 a
				3s edit gpu 1
				6s foreign gpu 1
				6s edit gpu 2
				9s repave m0
				10s edit gpu 3
			`, hit, with))
		}
	}
}

// TestM24M25_CreationsThatComeTooLate: of two processes one stands still before a write, each in turn, for half a minute. If
// that is the creation of version 2, the other one makes it meanwhile, changes it, locks it, and sees it deleted, and a machine
// names number 2 when the first one goes on. The 16th of its writes is of version 1 still, and the 31st after the creation.
func TestM24M25_CreationsThatComeTooLate(t *testing.T) {
	late := 0
	for hit := range 16 {
		res := play(t, fmt.Sprintf(`
			set processes 2
			set length 70s
			set hit %d
			set with stall
			0s make gpu all
			0s machine m0 a
			3s edit gpu 1
			5s edit gpu 2
			7s machine m1 b
			7s refer m1 gpu 2
			12s edit gpu 3
			14s drop-machine m1
			15s drop-version gpu 2
			16s machine m2 b
			16s refer m2 gpu 2
			50s drop-machine m2
		`, hit+16))
		stalled := slices.ContainsFunc(res.History, func(line string) bool {
			return strings.Contains(line, "create MachineConfigurationVersion gpu-v2: it stands still")
		})
		if stalled {
			late++
		}
	}
	if late == 0 {
		t.Error("no creation of version 2 stood still: the test shows nothing")
	}
}

// TestM13_AssignedWhileItIsChosenAnew: a process has chosen another configuration for a machine, and stands still before it writes
// that, while the machine is assigned to the one that was chosen before: it stays with that.
func TestM13_AssignedWhileItIsChosenAnew(t *testing.T) {
	for hit := range 10 {
		for _, at := range []int{5040, 5080, 5120, 5160} {
			play(t, fmt.Sprintf(`
				set length 70s
				set hit %d
				set with stall
				0s make web all
				0s make gpu none
				5s machine m0 a
				%dms selector gpu all
				50s repave m0
			`, hit+14, at))
		}
	}
}

// TestM29_WhatAnOldProcessWritesIsWrittenAgain: of two processes one stands still before a write, each in turn, for half a minute, and then
// writes what was so before. The other one has said meanwhile what is so, and says it again.
func TestM29_WhatAnOldProcessWritesIsWrittenAgain(t *testing.T) {
	for hit := range 30 {
		play(t, fmt.Sprintf(`
			set processes 2
			set length 60s
			set hit %d
			set with stall
			0s make gpu a
			0s machine m0 a
			5s selector gpu b
			10s edit gpu 1
			15s selector gpu a
		`, hit+1))
	}
}

var stories = map[string]string{
	"M22M27_EditsRaceLocks": `
		set processes 2
		0s make gpu all
		0s machine m0 a
		0s machine m1 a
		1s edit gpu 1
		1100ms edit gpu 2
		1200ms edit gpu 3
		20s repave m0
		20s edit gpu 4
		20100ms edit gpu 5
		20200ms edit gpu 6
		60s repave m1
		60s edit gpu 7
		60100ms edit gpu 8`,
	"M24_DeletedNumbersDoNotComeBack": `
		0s make gpu all
		5s drop-versions gpu
		6s edit gpu 1
		10s drop-version gpu 2
		12s edit gpu 2
		20s machine m0 a
		25s edit gpu 4
		30s drop-version gpu 4
		32s edit gpu 5
		40s expect gpu 3,5
		50s drop-machine m0
		60s drop-versions gpu
		62s edit gpu 3`,
	"M25_NobodysObjectStays": `
		0s make gpu all
		0s machine m0 a
		10s foreign gpu 1
		11s edit gpu 1
		40s repave m0
		60s foreign gpu 2
		61s edit gpu 2`,
	"M13_StickyMachineStays": `
		0s make gpu all
		0s machine m0 a
		20s make web all
		25s priority web 10
		40s label m0 b
		50s edit gpu 1
		60s repave m0
		90s reselect m0`,
	"M34_FiveVersionsLimitTwo": `
		0s make gpu none
		0s limit gpu 2
		1s machine m0 a
		1s machine m1 a
		1s refer m0 gpu newest
		1s refer m1 gpu newest
		20s edit gpu 1
		22s repave m1
		50s edit gpu 2
		52s repave m1
		80s edit gpu 3
		82s repave m1
		110s edit gpu 4
		112s repave m1
		138s expect gpu 1,4,5
		140s drop-versions gpu
		142s drop gpu
		145s expect gpu 1,4,5`,
	"M94_PauseHolds": `
		0s make gpu all
		0s machine m0 a
		20s pause gpu on
		21s edit gpu 1
		30s repave m0
		50s machine m1 a
		90s pause gpu off
		100s repave m0`,
	"M30_ConfigurationMadeAgain": `
		0s make gpu all
		0s machine m0 a
		20s drop gpu
		30s drop-machines x
		40s drop gpu
		41s make gpu all
		42s machine m0 a
		50s edit gpu 1`,
}

// TestStories tells each story; its name says what it is about.
func TestStories(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(stories)) { // a mistake is found by the same story each time
		t.Run(name, func(t *testing.T) { play(t, stories[name]) })
	}
}
