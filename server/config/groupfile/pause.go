package groupfile

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// covers says whether a group lies in the scope of the pause.
func (p Pause) covers(tenant, group string) bool {
	switch p.Scope {
	case PauseShard:
		return true
	case PauseTenant:
		return p.Tenant == tenant
	case PauseGroup:
		return p.Tenant == tenant && p.Group == group
	default:
		return false
	}
}

// InForce says whether the pause holds at a moment.
func (p Pause) InForce(at time.Time) bool { return p.Until == nil || at.Before(p.Until.Time) }

// sameScope says whether two pauses are of the same thing.
func (p Pause) sameScope(other Pause) bool {
	return p.Scope == other.Scope && p.Tenant == other.Tenant && p.Group == other.Group
}

// PauseOf gives the widest pause that is in force for a group at a moment; false
// if none is.
func (f *File) PauseOf(tenant, group string, at time.Time) (Pause, bool) {
	if f == nil {
		return Pause{}, false
	}
	for _, scope := range []string{PauseShard, PauseTenant, PauseGroup} {
		for _, p := range f.Paused {
			if p.Scope == scope && p.covers(tenant, group) && p.InForce(at) {
				return p, true
			}
		}
	}
	return Pause{}, false
}

// SetPause puts a pause in the place of one of the same scope. Pauses that are
// over at the given moment go.
func (f *File) SetPause(p Pause, at time.Time) {
	f.ClearPause(p, at)
	f.Paused = append(f.Paused, p)
}

// ClearPause ends the pause of the same scope and says whether there was one.
// Pauses that are over at the given moment go as well.
func (f *File) ClearPause(p Pause, at time.Time) bool {
	found := false
	f.Paused = slices.DeleteFunc(slices.Clone(f.Paused), func(other Pause) bool {
		same := other.sameScope(p)
		found = found || same
		return same || !other.InForce(at)
	})
	return found
}

// MaxPauseReason is how long the reason of a pause may be, in bytes.
const MaxPauseReason = 500

// Check says why a pause that a caller asks for can't be stored, as an
// [InvalidError] about its reason or its end.
func (p Pause) Check() error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) }
	switch n := len(p.Reason); {
	case n == 0:
		return &InvalidError{Field: "reason", Msg: "it is empty; say why, for those who find the shard paused"}
	case n > MaxPauseReason:
		return &InvalidError{Field: "reason", Msg: fmt.Sprintf("%d bytes; at most %d", n, MaxPauseReason)}
	case strings.ContainsFunc(p.Reason, bad) || !utf8.ValidString(p.Reason):
		return &InvalidError{Field: "reason", Msg: "it has characters that can't be printed; write one line of text"}
	case p.Until != nil && p.Until.After(lastMoment):
		return &InvalidError{Field: "until", Msg: "after the year 9999; leave it out for a pause that ends when it is resumed"}
	}
	return nil
}

// lastMoment is the last that a document can name.
var lastMoment = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
