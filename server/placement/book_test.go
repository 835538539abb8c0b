package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nstance.dev/server/placement"
)

var (
	epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	wish  = placement.Wish{Types: []string{"big", "small"}, Subnets: []string{"a", "b"}}
)

// asked is a book whose provider was asked about both subnets at the epoch.
func asked(a, b int) *placement.Book {
	book := placement.New(true)
	for name, free := range map[string]int{"a": a, "b": b} {
		book.Asking(name)
		book.Answer(name, free, epoch)
	}
	return book
}

// take chooses n times at once and says what came of it.
func take(book *placement.Book, n int, at time.Duration) (taken []string, last placement.Choice) {
	for range n {
		last = book.Choose(wish, epoch.Add(at))
		if last.Claim == nil {
			taken = append(taken, "none")
			continue
		}
		taken = append(taken, last.Claim.Offering.Type+" in "+last.Claim.Offering.Subnet)
	}
	return taken, last
}

func wantTaken(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestL8_RefusedOfferingsCoolOff(t *testing.T) {
	book := placement.New(false)
	for i, want := range []string{"big in a", "big in b", "small in a", "small in b"} {
		got, c := take(book, 1, time.Duration(i)*time.Second)
		wantTaken(t, fmt.Sprintf("choice %d", i), got, want)
		c.Claim.Refused(epoch.Add(time.Duration(i) * time.Second))
	}
	got, c := take(book, 1, 10*time.Second)
	wantTaken(t, "with everything refused", got, "none")
	if want := epoch.Add(5 * time.Minute); !c.Again.Equal(want) || len(c.Ask) > 0 || strings.Count(c.Why, "cools off") != 4 {
		t.Errorf("with everything refused: %+v, want the first again at %v", c, want)
	}
	got, c = take(book, 1, 5*time.Minute)
	wantTaken(t, "after the first cool-off", got, "big in a")
	c.Claim.Refused(epoch.Add(5 * time.Minute))
	got, _ = take(book, 1, 14*time.Minute)
	wantTaken(t, "while it cools off twice as long", got, "big in b")
	got, c = take(book, 1, 15*time.Minute)
	wantTaken(t, "after the second cool-off", got, "big in a")
	c.Claim.Accepted()
	_, c = take(book, 1, 15*time.Minute)
	c.Claim.Refused(epoch.Add(15 * time.Minute))
	got, _ = take(book, 1, 20*time.Minute)
	wantTaken(t, "a success makes the next cool-off a first one", got, "big in a")
}

func TestL8_CoolOffHasACeiling(t *testing.T) {
	book, at := placement.New(false), time.Duration(0)
	only := placement.Wish{Types: []string{"big"}, Subnets: []string{"a"}}
	for range 20 {
		c := book.Choose(only, epoch.Add(at))
		c.Claim.Refused(epoch.Add(at))
		at += 30 * time.Minute
	}
	if c := book.Choose(only, epoch.Add(at)); c.Claim == nil {
		t.Errorf("after half an hour: %+v", c)
	}
}

func TestL8_BurstOfRefusalsIsOne(t *testing.T) {
	book := placement.New(false)
	_, c := take(book, 1, 0)
	var claims []*placement.Claim
	for range 50 {
		claims = append(claims, book.Choose(wish, epoch).Claim)
	}
	c.Claim.Refused(epoch)
	for _, claim := range claims {
		claim.Refused(epoch.Add(time.Second))
	}
	got, _ := take(book, 1, 5*time.Minute)
	wantTaken(t, "after one cool-off", got, "big in a")
}

func TestSubnetsFillUpInOrder(t *testing.T) {
	book := asked(2, 3)
	got, c := take(book, 6, time.Second)
	wantTaken(t, "six creates at once", got, "big in a", "big in a", "big in b", "big in b", "big in b", "none")
	if len(c.Ask) > 0 || !strings.Contains(c.Why, "a is full (2 free, 2 on their way)") || !c.Again.Equal(epoch.Add(10*time.Second)) {
		t.Errorf("with both full: %+v", c)
	}
}

func TestClaimsAreCountedUntilTheyEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*placement.Claim)
		want string
	}{
		"under way":       {func(*placement.Claim) {}, "big in b"},
		"made":            {(*placement.Claim).Accepted, "big in b"},
		"dropped":         {(*placement.Claim).Dropped, "big in a"},
		"refused":         {func(c *placement.Claim) { c.Refused(epoch) }, "big in b"},
		"dropped, twice":  {func(c *placement.Claim) { c.Dropped(); c.Dropped() }, "big in a"},
		"made, then gone": {func(c *placement.Claim) { c.Accepted(); c.Dropped() }, "big in b"},
	} {
		book := asked(1, 5)
		_, first := take(book, 1, 0)
		c.end(first.Claim)
		got, _ := take(book, 1, time.Second)
		wantTaken(t, name, got, c.want)
	}
}

// TestNewAnswerKnowsOfWhatWasMadeBefore: a machine that was made before the
// question is in the answer; one that was made after it, or is on its way, may
// not be.
func TestNewAnswerKnowsOfWhatWasMadeBefore(t *testing.T) {
	book := asked(10, 0)
	claim := func() *placement.Claim { return book.Choose(wish, epoch.Add(11*time.Second)).Claim }
	claim().Accepted()
	after, underway := claim(), claim()
	if !book.Asking("a") || book.Asking("a") {
		t.Error("one question at a time, and it was none or two")
	}
	after.Accepted()
	book.Answer("a", 3, epoch.Add(12*time.Second))
	got, _ := take(book, 2, 13*time.Second)
	wantTaken(t, "3 free, one made since, one under way", got, "big in a", "none")
	underway.Dropped()
	got, _ = take(book, 2, 13*time.Second)
	wantTaken(t, "when that one was dropped", got, "big in a", "none")
}

func TestAnswersAge(t *testing.T) {
	book := placement.New(true)
	_, c := take(book, 1, 0)
	if c.Claim != nil || !slices.Equal(c.Ask, []string{"a", "b"}) || c.Why != "" {
		t.Errorf("before any answer: %+v, want to ask about both", c)
	}
	for _, tt := range []struct {
		name string
		a, b int
		at   time.Duration
		want string
		ask  []string
	}{
		{"a fresh answer", 5, 5, 9 * time.Second, "big in a", nil},
		{"an old one that says yes serves, and is asked for again", 5, 5, 10 * time.Second, "big in a", []string{"a"}},
		{"any number of machines fits", -1, 0, 5 * time.Minute, "big in a", []string{"a"}},
		{"an old one that says no is passed over, and is asked for again", 0, 5, 10 * time.Second, "big in b", []string{"a", "b"}},
		{"all old ones say no", 0, 0, 10 * time.Second, "none", []string{"a", "b"}},
		{"a stale one says nothing", 5, 5, 10 * time.Minute, "none", []string{"a", "b"}},
	} {
		got, c := take(asked(tt.a, tt.b), 1, tt.at)
		if got[0] != tt.want || !slices.Equal(c.Ask, tt.ask) {
			t.Errorf("%s: %s, ask %q; want %s, ask %q", tt.name, got[0], c.Ask, tt.want, tt.ask)
		}
	}
}

// TestFirstAnswersAreWaitedFor, so that the order of the wish holds whichever
// answer comes first.
func TestFirstAnswersAreWaitedFor(t *testing.T) {
	book := placement.New(true)
	book.Asking("b")
	book.Answer("b", 5, epoch)
	got, c := take(book, 1, time.Second)
	if got[0] != "none" || !slices.Equal(c.Ask, []string{"a"}) {
		t.Errorf("before the answer about the first: %q, ask %q", got, c.Ask)
	}
	book.Answer("a", 5, epoch)
	got, _ = take(book, 1, time.Second)
	wantTaken(t, "after it", got, "big in a")
}

func TestF25_MissingSubnetIsPassedOverAndNamed(t *testing.T) {
	book := asked(0, 0)
	book.Missing("a", "does not exist", epoch)
	_, c := take(book, 1, time.Second)
	if c.Claim != nil || !strings.Contains(c.Why, "a does not exist") {
		t.Errorf("%+v", c)
	}
}

// TestClaimsAtOnce: nothing is claimed beyond the room, however many ask at once.
func TestClaimsAtOnce(t *testing.T) {
	book := asked(30, 20)
	var wg sync.WaitGroup
	claims := make([]*placement.Claim, 100)
	for i := range claims {
		wg.Go(func() { claims[i] = book.Choose(wish, epoch).Claim })
	}
	wg.Wait()
	n := 0
	for _, c := range claims {
		if c != nil {
			n++
			c.Accepted()
		}
	}
	if n != 50 {
		t.Errorf("%d claims on room for 50", n)
	}
}

func TestClaimOfNothing(t *testing.T) {
	var none *placement.Claim
	none.Accepted()
	new(placement.Claim).Refused(epoch)
}
