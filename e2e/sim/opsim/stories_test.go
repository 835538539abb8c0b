//go:build !race

package opsim_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/sim"
)

// told is what happened in a story, in its order.
type told struct {
	t   *testing.T
	log []string
	res sim.Result

	without map[string]bool // whom count leaves out, as the first two words after the time
}

// name is the first two words of a line after the time.
func name(line string) string {
	words := strings.SplitN(line, " ", 4)
	return strings.Join(words[1:min(3, len(words))], " ")
}

// tell runs a story in which nothing goes wrong but what it says, and demands that every
// promise is kept.
func tell(t *testing.T, plan string) told {
	t.Helper()
	t.Parallel()
	return again(t, plan)
}

// again is tell once more, in the same test.
func again(t *testing.T, plan string) told {
	t.Helper()
	p, err := sim.Parse("set operator guest\nset servers 1\nset jobs 0\n" + plan)
	if err != nil {
		t.Fatal(err)
	}
	res := search.Play(t, p)
	for _, v := range res.Violations {
		t.Errorf("%s", v)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", strings.Join(res.Log, "\n"))
		}
	})
	return told{t: t, log: res.Log, res: res}
}

// count is how many lines between two times contain a text.
func (s told) count(text string, from, to time.Duration) int {
	s.t.Helper()
	n := 0
	for _, line := range s.log {
		at, err := time.Parse("15:04:05", line[:8])
		if err != nil {
			s.t.Fatal(err)
		}
		since := at.Sub(at.Truncate(24 * time.Hour))
		if since >= from && since <= to && strings.Contains(line, text) && !s.without[name(line)] {
			n++
		}
	}
	return n
}

// While the API server is away for ten minutes, sizes stay: one machine of two that fails
// is replaced by its shard, a size that somebody wants meanwhile is heard of afterwards,
// and each machine is made once.
func TestF36_S6_TheAPIServerIsAwayForTenMinutes(t *testing.T) {
	s := tell(t, `
		seed 1
		set length 14m
		1s guest scale web 2
		1m guest away 10m
		2m kill web 0
		3m guest scale web 4
	`)
	if n := s.count(" is created", time.Minute, 11*time.Minute); n != 1 {
		t.Errorf("%d machines were made while the API server was away, want the one that replaces", n)
	}
	if n := s.count("condemned: requested", 0, 14*time.Minute); n != 0 {
		t.Errorf("the operator has asked for the end of %d machines", n)
	}
	if s.res.Made != 5 {
		t.Errorf("%d machines were made, want 2, the one that replaces and 2 more", s.res.Made)
	}
}

// What somebody could not write while the API server was away is written some time after it
// is back. Until then nothing is settled, and what comes of it is no work of the servers.
func TestS16_WhatSomebodyStillWantsIsWaitedFor(t *testing.T) {
	s := tell(t, `
		seed 5
		set length 2m
		1s guest scale web 1
		30s guest away 10m
		1m guest scale web 3
	`)
	if s.res.Made != 3 {
		t.Errorf("%d machines were made, want 3", s.res.Made)
	}
}

// A pool grows and shrinks again while its shard and the operator do not reach each other, and
// the operator begins anew when they do. The size in between is told to nobody: no machine is
// made that has to go at once.
func TestS5_ASizeThatWasTakenBackWhileItsShardWasAway(t *testing.T) {
	s := tell(t, `
		seed 1
		set length 12m
		1s guest scale web 3
		1m cut a operators 8m
		2m guest scale web 6
		4m guest scale web 2
		8m30s guest restart 1m
	`)
	if s.res.Made != 3 {
		t.Errorf("%d machines were made, want the 3 of the beginning", s.res.Made)
	}
}

// When all custom resources of a large pool are deleted, its machines go at a bounded pace,
// and a pause of the group stops them.
func TestF37_S8_AllCustomResourcesAreDeleted(t *testing.T) {
	s := tell(t, `
		seed 1
		set length 8m
		1s guest scale web 24
		2m guest wipe
		2m20s pause web 3m
	`)
	s.without = map[string]bool{"pool web": true}
	for n := 25; n <= 60; n++ { // the group makes them in the place of others, and they never run
		s.without[fmt.Sprintf("web/%d is", n)] = true
	}
	for at := 2 * time.Minute; at < 8*time.Minute; at += 10 * time.Second {
		if n := s.count(" is deleted", at, at+time.Minute-time.Second); n > 20 {
			t.Errorf("%d machines are deleted within the minute after %v, and 10 by name and 10 with their group are allowed", n, at)
		}
	}
	if n := s.count(" is deleted", 2*time.Minute+25*time.Second, 5*time.Minute+15*time.Second); n > 0 {
		t.Errorf("%d machines are deleted while the group is paused", n)
	}
}

// A budget that spares no Pod and Pods that do not end hold a drain up until its time is
// over. Then it goes on, and says which Pods were in the way.
func TestF38_S20_ABudgetOfZeroAndPodsThatDoNotEnd(t *testing.T) {
	s := tell(t, `
		seed 1
		set length 10m
		set drain 3m
		1s guest scale web 2
		1m guest budget 8m
		1m guest stubborn 8m
		1m30s hang web 1
	`)
	if s.res.Fired["says DrainForced"] == 0 {
		t.Error("nobody was told that Pods were in the way")
	}
	if n := s.count(" is deleted", 4*time.Minute, 5*time.Minute); n != 1 {
		t.Errorf("the machine was deleted %d times when its drain was over, want once", n)
	}
}

// An autoscaler names one machine of three and lowers the size: that one goes, and no
// other, and none takes its place. The same things happen each time.
func TestS5S6_TheNamedMachineGoes(t *testing.T) {
	const plan = `
		seed 1
		set length 3m
		1s guest scale web 3
		1m guest shrink web 1
	`
	s := tell(t, plan)
	if gone, made := s.count("is condemned", 0, 3*time.Minute), s.res.Made; gone != 1 || made != 3 {
		t.Errorf("%d machines went and %d were made, want 1 and 3", gone, made)
	}
	if first, second := s.words(), again(t, plan).words(); !slices.Equal(first, second) {
		t.Errorf("the same seed went otherwise:\n%s\n\nand\n\n%s", strings.Join(first, "\n"), strings.Join(second, "\n"))
	}
}

// A Machine that somebody deletes by hand takes its instance with it, and the group makes
// another one: it keeps its size.
func TestO6_AMachineDeletedByHandIsReplaced(t *testing.T) {
	s := tell(t, `
		seed 1
		set length 3m
		1s guest scale web 3
		1m guest remove web 0
	`)
	if gone, made := s.count("is condemned: requested", 0, 3*time.Minute), s.res.Made; gone != 1 || made != 4 {
		t.Errorf("%d machines went and %d were made, want 1 and 4", gone, made)
	}
}

// A Pod asks for a machine of its own, runs there and alone, and the machine goes within
// two minutes of its end: also where the Pod ends before its machine is there, and where
// its name comes back at once.
func TestO12_AMachineForAPod(t *testing.T) {
	s := tell(t, `
		seed 1
		set length 14m
		1s guest scale web 1
		1m guest ask 0 web
		3m guest done 0
		5m guest drop 0
		6m guest ask 0 web
		6m3s guest drop 0
		6m30s guest ask 0 web
		8m guest ask 1 web
		10m guest drop 1
		12m guest drop 0
	`)
	for _, w := range []struct {
		text     string
		from, to time.Duration
		n        int
	}{
		{" registers", time.Minute, 2 * time.Minute, 1},
		{" is condemned: requested", 3 * time.Minute, 5 * time.Minute, 1},               // its Pod is done
		{" is condemned: requested", 6 * time.Minute, 8*time.Minute + 3*time.Second, 1}, // its Pod went before it came
		{" registers", 6*time.Minute + 30*time.Second, 8 * time.Minute, 1},              // that of the same name
		{" registers", 8 * time.Minute, 9 * time.Minute, 1},
		{" is condemned: requested", 10 * time.Minute, 12 * time.Minute, 1},
		{" is condemned: requested", 12 * time.Minute, 14 * time.Minute, 1},
	} {
		if n := s.count(w.text, w.from, w.to); n != w.n {
			t.Errorf("between %v and %v, %d machines: %q; want %d", w.from, w.to, n, w.text, w.n)
		}
	}
	if s.res.Made != 5 {
		t.Errorf("%d machines were made, want one for the group and four for Pods", s.res.Made)
	}
}

// The operator is down while the Node joins that it made for a Pod. Others are bound to it before it
// has its taint, and fill it. They stay, so the Pod gets another machine.
func TestO12_OthersFillTheNodeOfAPod(t *testing.T) {
	s := tell(t, `
		seed 9
		set length 40m
		1s guest scale web 1
		3m guest ask 0 web
		3m4s guest restart 1m
		6m guest scale web 3
	`)
	if n := s.count("web/2 is deleted", 15*time.Minute, 30*time.Minute); n != 1 {
		t.Errorf("the machine without room was deleted %d times, want once", n)
	}
	if n := s.count("web/5 registers", 15*time.Minute, 30*time.Minute); n != 1 {
		t.Errorf("%d machines came in its place, want 1", n)
	}
}

// The answer to the call for the machine of a Pod is lost, and the machine ends while the API
// server is away, so nobody can write that it was there; then the operator begins anew, and another
// server leads. The operator asks for the same id as before, hears that it has ended, and makes
// another machine.
func TestO12_S18_AMachineThatCameAndWentUnseen(t *testing.T) {
	s := tell(t, `
		seed 1
		set servers 2
		set length 14m
		1s guest scale web 0
		49s cut a operators 30s
		50s guest ask 0 web
		55s guest away 4m
		4m kill web 0
		4m50s guest restart 1m
		5m10s stop a
		6m start a
	`)
	if n := s.count("web/1 is created", 0, time.Minute); n != 1 {
		t.Errorf("the machine was made %d times before anybody heard of it, want once", n)
	}
	if n := s.count("web/2 is created", 5*time.Minute+10*time.Second, 14*time.Minute); n != 1 {
		t.Errorf("%d machines were made in its place, want 1", n)
	}
}

// instanceID is an id in a line. It begins with the moment of its making.
var instanceID = regexp.MustCompile(`\bvm[a-z]?[0-9a-z]{20,}\b`)

// words are the lines without their times and ids, sorted: a moment may move by an answer.
func (s told) words() []string {
	var all []string
	for _, line := range s.log {
		_, text, _ := strings.Cut(line, " ")
		all = append(all, instanceID.ReplaceAllString(text, "ID"))
	}
	slices.Sort(all)
	return all
}
