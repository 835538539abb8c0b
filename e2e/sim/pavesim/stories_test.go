package pavesim_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// every has each step and each write taken in turn, and not only some of them.
var every = flag.Bool("every", false, "let a process end at every step and write, not only at some")

// stride is from one to the next.
func stride(all int) int {
	if *every {
		return all
	}
	return 5 * all
}

// stories are plans for what a seed seldom draws. Templates whose number leaves 2 when it is divided by 4 never
// join, those that leave 3 have no image.
var stories = map[string]string{
	"M49_ANodeIsDeletedAndComesBack": `
		0s make gpu
		3m delete-node m0
		8m edit gpu 1
		9m delete-node m0
	`,
	"M51_ANodeIsDeletedWhileEverybodyIsAway": `
		0s make gpu
		3m operator-away 5m
		3m server-away 6m
		3m away m0 7m
		4m delete-node m0
	`,
	"M66_ANewVersionIsRolledOut": `
		set machines 4
		set rolling 2
		0s make gpu
		6m edit gpu 1
	`,
	"M67_WhatIsDownAnywayCounts": `
		set machines 3
		set rolling 1
		set length 30m
		0s make gpu
		6m delete-node m2
		6m8s edit gpu 1
	`,
	"M68_WhatWasBegunKeepsItsVersion": `
		set machines 3
		set rolling 1
		set length 30m
		0s make gpu
		5m stuck m0 on
		6m edit gpu 1
		6m40s edit gpu 4
		7m stuck m0 off
	`,
	"M68_ItHaltsAtABadVersion": `
		set machines 4
		set rolling 2
		set length 40m
		0s make gpu
		6m edit gpu 2
	`,
	"M69_PodsThatDoNotLeave": `
		set machines 3
		set rolling 1
		set length 40m
		0s make gpu
		5m stuck m1 on
		6m edit gpu 1
		25m stuck m1 off
	`,
	"M70_TheOperatorDiesInARollout": `
		set machines 3
		set rolling 1
		set length 30m
		0s make gpu
		6m edit gpu 1
		6m10s kill-operator a
		7m kill-server
		8m kill-operator a
	`,
	"M96_NothingIsBegunOutsideOfTheWindow": `
		set machines 3
		set rolling 2
		set window 12m
		set length 30m
		0s make gpu
		5m edit gpu 1
	`,
	"M75_ExecutorsRace": `
		set machines 3
		set executors 3
		set length 12m
		0s make gpu
		3m ask one m0 packetCapture
		3m1s ask two m0 packetCapture
		3m2s fan all 2 packetCapture
		5m kill-operator a
		6m fan more 0 packetCapture
	`,
	"M79_ARebootHappensOnce": `
		set machines 2
		set executors 1
		set length 25m
		0s make gpu
		5m ask one m0 reboot
		5m1s ask two m0 reboot
		5m3s kill-paver m0
		5m6s kill-server
		10m fan all 1 reboot
		10m20s kill-operator a
	`,
	"M52_TheAPIServerRefusesForAnHour": `
		set length 70m
		0s make gpu
		3m api 403 1h
	`,
	"M52_SomethingElseAnswersWith404ForAnHour": `
		set length 70m
		0s make gpu
		3m api 404 1h
	`,
	"M52_TheAPIServerBreaksForAnHour": `
		set length 70m
		0s make gpu
		3m api 500 1h
	`,
	"M52_TheAPIServerIsAwayForAnHour": `
		set length 70m
		0s make gpu
		3m api timeout 30m
		35m api away 30m
	`,
	"M52_ACacheOfNodesIsBehind": `
		set processes 2
		0s make gpu
		4m delete-node m0
		4m1s lag b Node 8m
		4m1s lag a Node 2s
	`,
	"M50_TheKubeletComesFirst": `
		0s make gpu
		4m operator-away 1m
		4m1s delete-node m0
		4m2s restart-kubelet m0
		10m delete-node m0
		10m restart-kubelet m0
	`,
	"M87_AScriptDeletesAllNodes": `
		set machines 6
		set length 40m
		0s make gpu
		5m delete-nodes 6
	`,
	"M87_AndAUserSaysThatItIsMeant": `
		set machines 6
		set length 40m
		0s make gpu
		5m delete-nodes 6
		6m release gpu
	`,
	"M53_APausedMachineIsLeftAlone": `
		0s make gpu
		4m pause m0 on
		5m delete-node m0
		12m pause m0 off
	`,
	"M60_WhatDoesNotJoinIsReverted": `
		set length 40m
		0s make gpu
		4m edit gpu 2
		5m delete-node m0
		30m edit gpu 4
	`,
	"M60_WhatFailsIsHeld": `
		set length 40m
		0s make gpu
		3m policy m0 Hold
		4m edit gpu 2
		5m delete-node m0
	`,
	"M59_AnImageIsMissing": `
		set length 40m
		0s make gpu
		4m edit gpu 3
		5m delete-node m0
		30m retry m0 again
	`,
	"M43_ACredentialIsStolen": `
		set length 40m
		0s make gpu
		3m edit gpu 2
		4m delete-node m0
		4m40s steal m0 m1
		4m45s steal m0 m0
		4m55s steal m0 m0
	`,
	"M43_TheLeaderChangesAmidARepave": `
		0s make gpu
		4m delete-node m0
		4m3s kill-server
		4m20s kill-server
		4m40s kill-server
		10m delete-node m1
		10m4s reboot m1
	`,
	"M43_NobodyMakesACredentialAnew": `
		set machines 1
		set length 150m
		0s make gpu
		1ms edit gpu 3
		10m operator-away 2h
		11m kill-server
		75m mend 3
	`,
	"M6_AHostIsReset": `
		0s make gpu
		4m drop m0
		10m remake m1
	`,
	"M41_AWordComesLateAfterAReset": `
		set machines 1
		0s make gpu
		4m drop m0
		4m3s late m0 1
	`,
	"M61_TheJournalIsLost": `
		0s make gpu
		4m lose-journal m0
		12m delete-node m1
		12m10s lose-journal m1
	`,
	"M61_AMachineEndsByItself": `
		0s make gpu
		4m end m0
		5m orphan m1
		8m reboot m0
		10m delete-node m0
		10m30s orphan m0
	`,
}

func TestStories(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(stories)) { // a mistake is found by the same story each time
		t.Run(name, func(t *testing.T) { play(t, stories[name]) })
	}
}

// TestM58_KilledAtEveryStep: the process of a paver is killed before, within and after each step of a first build, a
// repave and a way back.
func TestM58_KilledAtEveryStep(t *testing.T) {
	for i, dies := range []string{"before", "within", "after"} {
		for step := 1 + i; step <= 40; step += stride(3) {
			play(t, fmt.Sprintf(`
				set machines 1
				set length 30m
				set step %d
				set dies %s
				0s make gpu
				3m delete-node m0
				8m edit gpu 2
				9m delete-node m0
			`, step, dies))
		}
	}
}

// TestM49M51_CrashesAtEveryWrite: a process of the operator, write by write in turn, ends before it, ends after it, loses
// its answer, or is refused.
func TestM49M51_CrashesAtEveryWrite(t *testing.T) {
	for i, with := range []string{"before", "after", "lost", "refused"} {
		for hit := 1 + i; hit <= 40; hit += stride(4) {
			play(t, fmt.Sprintf(`
				set machines 1
				set length 8m
				set hit %d
				set with %s
				0s make gpu
				3m delete-node m0
			`, hit, with))
		}
	}
}
