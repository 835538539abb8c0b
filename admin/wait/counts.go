package wait

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// counts are the managed instances of a group by status; those that are gone do
// not count.
type counts struct {
	running int
	others  map[string]int
}

func count(state State, group string) counts {
	c := counts{others: map[string]int{}}
	for _, in := range state.Instances {
		switch {
		case in.GetGroup() != group || in.GetOnDemand() || in.GetStatus() == statusTerminated:
		case in.GetStatus() == statusRunning:
			c.running++
		default:
			c.others[in.GetStatus()]++
		}
	}
	return c
}

func (c counts) total() int {
	n := c.running
	for _, k := range c.others {
		n += k
	}
	return n
}

// rest lists what does not run: ", 1 draining, 2 pending".
func (c counts) rest() string {
	var b strings.Builder
	for _, status := range slices.Sorted(maps.Keys(c.others)) {
		fmt.Fprintf(&b, ", %d %s", c.others[status], status)
	}
	return b.String()
}

func (c counts) String() string {
	if c.running > 0 {
		return fmt.Sprintf("%d running%s", c.running, c.rest())
	}
	return strings.TrimPrefix(c.rest(), ", ")
}
