package stuck

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"nstance.dev/protos/needs"
)

var start = time.Unix(1_800_000_000, 0)

// waiting is a Pod that became unschedulable at the start, in a row of its own if it stays apart.
func waiting(uid string, apart bool) Pod {
	return Pod{UID: uid, Need: "n", Unschedulable: start, Rollups: 2, Apart: apart}
}

func placed(uid string) Pod { return Pod{UID: uid, Need: "n"} }

func at(minutes float64) time.Time { return start.Add(time.Duration(minutes * float64(time.Minute))) }

func want(t *testing.T, got, want map[string]uint32) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("numbers %v, want %v", got, want)
	}
}

func TestWhoGetsANumber(t *testing.T) {
	for name, tt := range map[string]struct {
		at      float64
		pod     Pod
		need    Need
		numbers map[string]uint32
	}{
		"one that waits for a minute":         {1, waiting("a", false), Need{}, map[string]uint32{"a": 1}},
		"not sooner":                          {0.99, waiting("a", false), Need{}, nil},
		"not with a machine in flight":        {5, waiting("a", false), Need{InFlight: true}, nil},
		"not where a shard falls short":       {5, waiting("a", false), Need{Shortfall: true}, nil},
		"not before two roll-ups spoke of it": {5, Pod{UID: "a", Need: "n", Unschedulable: start, Rollups: 1}, Need{}, nil},
		"not one that has a Node":             {5, placed("a"), Need{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var tracker Tracker
			want(t, tracker.Step(at(tt.at), []Pod{tt.pod}, map[string]Need{"n": tt.need}), tt.numbers)
		})
	}
}

// Pods that stay apart get a number each, in order of their UID; all others share the next.
func TestNumbersOfOneNeed(t *testing.T) {
	var tracker Tracker
	pods := []Pod{waiting("z", true), waiting("b", false), waiting("c", true), waiting("a", false), {UID: "o", Need: "other", Unschedulable: start, Rollups: 2}}
	numbers := map[string]uint32{"c": 1, "z": 2, "a": 3, "b": 3, "o": 1}
	want(t, tracker.Step(at(1), pods, nil), numbers)
	want(t, tracker.Step(at(1.5), pods, nil), numbers)
	// One that comes later joins those that share.
	pods = append(pods, waiting("d", false))
	numbers["d"] = 3
	want(t, tracker.Step(at(1.6), pods, nil), numbers)
}

// A row stays for ten minutes after its last Pod was placed; then its number rests as long.
func TestARowOutlivesItsPods(t *testing.T) {
	var tracker Tracker
	want(t, tracker.Step(at(1), []Pod{waiting("a", true)}, nil), map[string]uint32{"a": 1})
	want(t, tracker.Step(at(2), []Pod{placed("a")}, nil), map[string]uint32{"a": 1})
	want(t, tracker.Step(at(11.9), []Pod{placed("a")}, nil), map[string]uint32{"a": 1})
	want(t, tracker.Step(at(12), []Pod{placed("a")}, nil), nil)
	want(t, tracker.Step(at(15), []Pod{waiting("b", true)}, nil), map[string]uint32{"b": 2})
	want(t, tracker.Step(at(22), []Pod{placed("b"), waiting("c", true)}, nil), map[string]uint32{"b": 2, "c": 1})
}

func TestAPodThatIsGoneLeavesItsRow(t *testing.T) {
	var tracker Tracker
	want(t, tracker.Step(at(1), []Pod{waiting("a", true)}, nil), map[string]uint32{"a": 1})
	want(t, tracker.Step(at(2), nil, nil), nil)
	want(t, tracker.Step(at(3), []Pod{waiting("b", true)}, nil), map[string]uint32{"b": 2})
	want(t, tracker.Step(at(12), []Pod{placed("b"), waiting("c", true)}, nil), map[string]uint32{"b": 2, "c": 1})
}

// A Pod that its row does not help moves on, each time after twice the wait, and never while
// something is in flight or short.
func TestMovesBackOff(t *testing.T) {
	var tracker Tracker
	pods := []Pod{waiting("a", true)}
	busy := map[string]Need{"n": {InFlight: true}}
	for _, step := range []struct {
		at     float64
		needs  map[string]Need
		number uint32
	}{
		{1, nil, 1}, {1.5, busy, 1}, {6, busy, 1}, // its machine is being made
		{6.9, nil, 1}, {7, nil, 2}, // a minute after that was over
		{8.9, nil, 2}, {9, nil, 3}, // two minutes
		{12.9, nil, 3}, {13, nil, 4}, // four
		{20, map[string]Need{"n": {Shortfall: true}}, 4}, {27.9, nil, 4}, {28, nil, 1}, // eight, counted from the shortfall
	} {
		got := tracker.Step(at(step.at), pods, step.needs)
		if got["a"] != step.number {
			t.Errorf("after %v minutes: %d, want %d", step.at, got["a"], step.number)
		}
	}
	if wait(3) != 8*time.Minute || wait(40) != time.Hour {
		t.Errorf("%v, %v", wait(3), wait(40))
	}
}

func TestThereAreSixteenNumbers(t *testing.T) {
	var tracker Tracker
	var pods []Pod
	for i := range 20 {
		pods = append(pods, waiting(fmt.Sprintf("p%02d", i), true))
	}
	got := tracker.Step(at(1), pods, nil)
	if len(got) != needs.MostStuck || got["p15"] != 16 || got["p16"] != 0 {
		t.Errorf("%v", got)
	}
}

// Whatever happens: numbers are 1 to 16, Pods that stay apart share none, and a number that was
// given up is not used within ten minutes.
func TestNumbersAreNeverShared(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var tracker Tracker
		now := start
		var pods []Pod
		lastUsed := map[uint32]time.Time{}
		before := map[string]uint32{}
		for range 200 {
			now = now.Add(time.Duration(r.IntN(120)) * time.Second)
			if r.IntN(3) == 0 {
				pods = append(pods, Pod{UID: fmt.Sprint(seed, now.UnixNano(), len(pods)), Need: "n", Unschedulable: now, Rollups: r.IntN(4), Apart: true})
			}
			for i := range pods {
				switch r.IntN(20) {
				case 0:
					pods[i].Unschedulable = time.Time{}
				case 1:
					pods[i].Rollups++
				}
			}
			if len(pods) > 0 && r.IntN(8) == 0 {
				pods = append(pods[:0:0], pods[1:]...)
			}
			got := tracker.Step(now, pods, map[string]Need{"n": {InFlight: r.IntN(4) == 0, Shortfall: r.IntN(8) == 0}})
			owner := map[uint32]string{}
			for uid, n := range got {
				if n < 1 || n > needs.MostStuck || owner[n] != "" {
					t.Fatalf("seed %d: number %d of %s and %s", seed, n, uid, owner[n])
				}
				owner[n] = uid
				if used, was := lastUsed[n]; was && before[uid] != n && now.Sub(used) < Keep {
					t.Fatalf("seed %d: number %d is used again after %v", seed, n, now.Sub(used))
				}
			}
			for n := range owner {
				lastUsed[n] = now
			}
			before = got
		}
	}
}
