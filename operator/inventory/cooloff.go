package inventory

import "time"

// A shard whose provider had no room is passed over for the first of these times, then for
// twice as long each time, up to the second.
const (
	FirstCoolOff   = 5 * time.Minute
	LongestCoolOff = 30 * time.Minute
)

// Forgiven is how long after a cool-off a provider must have refused nothing for its next
// refusal to count as the first.
const Forgiven = LongestCoolOff

// CoolOff is what a provider's refusals say about one group on one shard. The zero value
// is a shard that has refused nothing; a success brings it back to that, and so does time.
type CoolOff struct {
	// Refusals in a row, of which those within one cool-off count once.
	Refusals int
	// Since is when the first of them came.
	Since time.Time
	// Until is when growth may be tried here again.
	Until time.Time
	// The last one.
	Refusal
}

// Refusal is what a provider said against growth.
type Refusal struct {
	// Quota: what the account may have is used up; else the provider has no more.
	Quota bool
	// Why is it in the provider's words.
	Why string
}

// Refused returns what is known after one more refusal.
func (c CoolOff) Refused(at time.Time, last Refusal) CoolOff {
	if !at.Before(c.Until.Add(Forgiven)) {
		c = CoolOff{}
	}
	c.Refusal = last
	if at.Before(c.Until) {
		return c
	}
	if c.Refusals == 0 {
		c.Since = at
	}
	c.Until = at.Add(min(FirstCoolOff<<min(c.Refusals, 8), LongestCoolOff))
	c.Refusals++
	return c
}

// Refuses reports whether growth is to go elsewhere at that time.
func (c CoolOff) Refuses(now time.Time) bool { return now.Before(c.Until) }
