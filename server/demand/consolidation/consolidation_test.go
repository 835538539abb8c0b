package consolidation_test

import (
	"math/rand/v2"
	"testing"

	"nstance.dev/server/demand/consolidation"
)

const minute, hour = int64(60_000), int64(3_600_000)

// The mean is that of the prices of every millisecond of the last hour.
func TestMean(t *testing.T) {
	var m consolidation.Mean
	if _, known := m.At(5 * hour); known {
		t.Error("a price is known that was never noted")
	}
	rng := rand.New(rand.NewPCG(1, 1))
	begin, now := 10*hour, 10*hour
	var prices []int64 // of each minute since
	price := int64(0)
	for range 600 {
		if price == 0 || rng.IntN(4) == 0 {
			price = 1 + rng.Int64N(1_000_000)
		}
		m.Note(now, price)
		prices = append(prices, price)
		now += minute
		got, known := m.At(now)
		if known != (now-begin >= hour) {
			t.Fatalf("after %d min it is known: %v", (now-begin)/minute, known)
		}
		if !known {
			continue
		}
		want := int64(0)
		for _, p := range prices[len(prices)-60:] {
			want += p
		}
		if want /= 60; got != want {
			t.Fatalf("after %d min the mean is %d, want %d", (now-begin)/minute, got, want)
		}
	}
}

// However often a price changes, its mean is between the extremes and takes a bounded amount of memory;
// the largest prices are no matter.
func TestMeanIsBounded(t *testing.T) {
	var m consolidation.Mean
	const most = int64(1)<<62 + 1
	for i := range int64(10_000) {
		m.Note(hour+i*1000, most-i%2)
	}
	if got, known := m.At(hour + 10_000_000); !known || got < most-1 || got > most {
		t.Errorf("%d, %v", got, known)
	}
	if n := testing.AllocsPerRun(100, func() { m.At(hour + 10_000_000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWorth(t *testing.T) {
	for _, c := range []struct {
		from, to, min int64
		want          bool
	}{
		{100, 85, 150_000, true},
		{100, 86, 150_000, false},
		{100, 0, 1_000_000, true},
		{100, 1, 1_000_000, false},
		{100, 100, 0, false},
		{100, 99, 0, true},
		{0, 0, 0, false},
		{1 << 62, 1<<62 - 1<<61, 500_000, true},
	} {
		if got := consolidation.Worth(c.from, c.to, c.min); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestAttempt(t *testing.T) {
	type sight = consolidation.Sight
	ready := sight{Joined: true, Standing: true}
	with := func(s sight, change func(*sight)) sight { change(&s); return s }
	for _, c := range []struct {
		name  string
		phase consolidation.Phase
		sight sight
		want  consolidation.Step
	}{
		{"it joins", consolidation.Buying, sight{Standing: true}, consolidation.Wait},
		{"it has joined", consolidation.Buying, ready, consolidation.Place},
		{"it has joined in an odd moment", consolidation.Buying, with(ready, func(s *sight) { s.Unsettled = true }), consolidation.Wait},
		{"a create failed", consolidation.Buying, with(ready, func(s *sight) { s.Failed = true }), consolidation.Abandon},
		{"what is replaced left", consolidation.Buying, with(ready, func(s *sight) { s.Standing = false }), consolidation.Abandon},
		{"demand grew", consolidation.Buying, with(ready, func(s *sight) { s.Short = true }), consolidation.Abandon},
		{"switched off", consolidation.Buying, with(ready, func(s *sight) { s.Withdrawn = true }), consolidation.Abandon},
		{"it drains", consolidation.Giving, sight{}, consolidation.Wait},
		{"switched off, but too late", consolidation.Giving, sight{Withdrawn: true}, consolidation.Wait},
		{"it is given back", consolidation.Giving, sight{Left: true}, consolidation.Finish},
		{"it is refused", consolidation.Giving, sight{Refused: true}, consolidation.Restore},
		{"it is needed again", consolidation.Giving, sight{Claimed: true}, consolidation.Finish},
	} {
		a := consolidation.Attempt{Replaced: []string{"a"}, Bought: []string{"b"}, Phase: c.phase}
		if got, why := a.Next(c.sight); got != c.want || (why == "") != (got == consolidation.Wait || got == consolidation.Place) {
			t.Errorf("%s: step %d, %q", c.name, got, why)
		}
		held := c.phase == consolidation.Buying
		if a.Holds("a") != held || a.Holds("b") != held || a.Holds("c") || a.Gives("a") == held || a.Gives("b") {
			t.Errorf("%s: holds or gives what it should not", c.phase)
		}
	}
}

// What could not be replaced is left alone for an hour, and the group for ten minutes.
func TestMemory(t *testing.T) {
	m := consolidation.Memory{Attempt: &consolidation.Attempt{Replaced: []string{"a", "b"}}}
	m.End(hour, "it failed", true)
	if m.Attempt != nil || m.Next != hour+10*minute || m.Why != "it failed" {
		t.Errorf("%+v", m)
	}
	if !m.Alone("b", 2*hour-1) || m.Alone("b", 2*hour) || m.Alone("c", hour) {
		t.Error("the wrong machines are left alone")
	}
	m.Attempt = &consolidation.Attempt{Replaced: []string{"c"}}
	m.End(3*hour, "done", false)
	if m.Alone("c", 3*hour) || m.Alone("a", hour) {
		t.Error("a machine that was replaced, or one whose hour is over, is left alone")
	}
}

// Attempts that fail one after another come ever more seldom, until one does not.
func TestMemory_FailuresInARow(t *testing.T) {
	var m consolidation.Memory
	end := func(failed bool) int64 {
		m.Attempt = &consolidation.Attempt{Cluster: "c", Replaced: []string{"a"}}
		m.Attempt.Place(hour - minute)
		m.End(hour, "it ended", failed)
		return (m.Next - hour) / minute
	}
	for _, want := range []int64{10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440} {
		if got := end(true); got != want {
			t.Fatalf("the next one comes after %d min, want %d", got, want)
		}
	}
	if got := end(false); got != 10 || m.Again != hour {
		t.Errorf("after a good one the next comes after %d min", got)
	}
	m.Judge(hour+10*minute, hour-2*minute)
	if m.Unsure() != "" || m.Next != hour+10*minute {
		t.Errorf("nothing was bought since, and %+v", m)
	}
	if got := end(true); got != 10 {
		t.Errorf("after the first failure the next comes after %d min", got)
	}
}

// An attempt after which the cluster has to buy again was in vain.
func TestMemory_InVain(t *testing.T) {
	var m consolidation.Memory
	now := hour
	for _, want := range []int64{10, 20, 40} {
		m.Attempt = &consolidation.Attempt{Cluster: "c", Replaced: []string{"a"}}
		m.Attempt.Place(now)
		m.End(now+minute, "it ended", false)
		if m.Unsure() != "c" {
			t.Fatalf("%+v", m)
		}
		m.Judge(m.Next, now+2*minute)
		if got := (m.Next - now - 11*minute) / minute; got != want {
			t.Fatalf("the next one comes %d min later, want %d", got, want)
		}
		now = m.Next
	}
}
