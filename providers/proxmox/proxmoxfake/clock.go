package proxmoxfake

import (
	"cmp"
	"slices"
	"time"
)

// clock is what will happen in a Cloud, in order of time. It has no hands of its
// own: whoever looks at the Cloud winds it on to the present.
type clock struct {
	due []event
	seq int
}

type event struct {
	at  time.Time
	seq int // order of those at one time
	do  func(now time.Time)
}

// at plans do for a time.
func (c *clock) at(t time.Time, do func(now time.Time)) {
	c.seq++
	e := event{t, c.seq, do}
	i, _ := slices.BinarySearchFunc(c.due, e, func(a, b event) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.seq, b.seq))
	})
	c.due = slices.Insert(c.due, i, e)
}

// next returns the time of what comes next.
func (c *clock) next() (time.Time, bool) {
	if len(c.due) == 0 {
		return time.Time{}, false
	}
	return c.due[0].at, true
}

// wind lets everything happen that is due by now, each at its own time; before is
// told of each time first, and of now at the end.
func (c *clock) wind(now time.Time, before func(time.Time)) {
	for len(c.due) > 0 && !c.due[0].at.After(now) {
		e := c.due[0]
		c.due = c.due[1:]
		before(e.at)
		e.do(e.at)
	}
	before(now)
}

// locks are exclusive locks with a known end, by name.
type locks map[string]time.Time

// take takes a lock for a while as soon as it is free, and returns when that is. It
// fails if that is later than patience allows.
func (l locks) take(name string, now time.Time, patience, hold time.Duration) (from time.Time, ok bool) {
	from = now
	if free := l[name]; free.After(now) {
		from = free
	}
	if from.Sub(now) > patience {
		return now.Add(patience), false
	}
	l[name] = from.Add(hold)
	return from, true
}
