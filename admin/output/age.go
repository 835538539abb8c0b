package output

import (
	"fmt"
	"time"
)

// Age is how long ago something was, in its one or two largest units.
func Age(t, now time.Time) string {
	d := max(0, now.Sub(t)).Truncate(time.Second)
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 2*day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
