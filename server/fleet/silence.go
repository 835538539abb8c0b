package fleet

import (
	"fmt"
	"time"
)

// Bounds of the brake on mass silence, in shares of the registered instances of a
// shard.
const (
	silenceFloor   = 3                // fewer than this many are never a mass
	silenceOn      = 2                // the brake goes on above one in this many, falling silent within one interval
	silenceOff     = 4                // and off below one in this many
	silenceLongest = 30 * time.Minute // or after this long
)

// Census counts the registered instances of a shard whose VM runs, as far as
// anybody knows.
type Census struct {
	Registered int
	Silent     int // suspect: a report is overdue, or the stream broke
	Fresh      int // those of them that fell silent within the last interval
}

// Silence is the brake on mass silence: where most agents of a shard fall silent
// at once, while their VMs run, it is probably the server that is cut off. No
// instance is found sick for missing reports while it is on (F32, S8); what the
// provider says counts as ever. The zero Silence is off.
type Silence struct {
	Since time.Time // when the brake went on; zero: it is off
}

// Next is the brake after a look at the shard. One that has been on for too long
// goes off, and verdicts go on within their bounds: what was silent all the time is
// not fresh, so it does not go on again by itself.
func (s Silence) Next(c Census, now time.Time) Silence {
	switch on := !s.Since.IsZero(); {
	case !on && c.Fresh >= silenceFloor && c.Fresh*silenceOn > c.Registered:
		return Silence{Since: now}
	case on && (c.Silent*silenceOff < c.Registered || !now.Before(s.Until())):
		return Silence{}
	default:
		return s
	}
}

// Until is when the brake goes off at the latest; zero while it is off.
func (s Silence) Until() time.Time {
	if s.Since.IsZero() {
		return time.Time{}
	}
	return s.Since.Add(silenceLongest)
}

// Alarm says what the brake means; empty while it is off.
func (s Silence) Alarm() string {
	if s.Since.IsZero() {
		return ""
	}
	return fmt.Sprintf("most agents of the shard fell silent at once, at %s, while their machines run: the server may be cut off, so no machine is replaced for missing reports",
		s.Since.UTC().Format(time.RFC3339))
}
