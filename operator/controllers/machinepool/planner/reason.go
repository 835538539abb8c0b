package planner

import (
	"fmt"
	"strings"
)

// reason puts a plan into words, such as
//
//	workers 5→7: us-west-2a 3→4, us-west-2b 2→3
func (d *draft) reason(pool string) string {
	var parts []string
	from, to := 0, 0
	for _, c := range d.out.Changes {
		from, to = from+c.From, to+c.To
		if c.From != c.To {
			parts = append(parts, c.String())
		}
	}
	if len(parts) == 0 && d.out.Blocked == 0 && d.out.Unplaced == 0 {
		return ""
	}
	text := fmt.Sprintf("%s %d→%d", pool, from, to)
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	for _, note := range d.notes() {
		text += "; " + note
	}
	return text
}

// String returns the change as it stands in a reason: "b 2→1 (named: i1)".
func (c Change) String() string {
	text := fmt.Sprintf("%s %d→%d", c.Shard, c.From, c.To)
	if len(c.Requested) > 0 {
		text += " (named: " + strings.Join(c.Requested, " ") + ")"
	}
	return text
}

// notes says what was not done as the equal split would have it.
func (d *draft) notes() []string {
	var notes []string
	if d.out.Blocked > 0 {
		var incomplete []string
		for _, s := range d.shards {
			if s.onlyRequested() {
				incomplete = append(incomplete, s.Name)
			}
		}
		notes = append(notes, fmt.Sprintf("scale-down by %[2]d waits until %[1]s is reachable and its instances are known", strings.Join(incomplete, " and "), d.out.Blocked))
	}
	if d.out.Unplaced > 0 {
		notes = append(notes, fmt.Sprintf("%d more have no place: a shard has at most %d", d.out.Unplaced, MaxSize))
	}
	for i, s := range d.shards {
		switch {
		case !d.passed[i]:
		case s.RedirectGrowth:
			notes = append(notes, s.Name+" is skipped: unreachable")
		default:
			notes = append(notes, s.Name+" is skipped: "+s.Refusal)
		}
	}
	return notes
}
