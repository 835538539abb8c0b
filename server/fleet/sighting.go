package fleet

import "time"

// Presence is what the provider last said about a VM.
type Presence uint8

// The presences. Absence is not among them: that a listing or a Get lacks a VM
// is an observation that needs a second one; see [Absence].
const (
	PresenceUnknown Presence = iota // the provider was not asked yet
	PresenceUp                      // it has the VM, and does not say that it is down
	PresenceDown                    // it says: stopping, stopped, suspended, being deleted or failed
)

// Source is how the absence of a VM was observed.
type Source uint8

// The sources.
const (
	ByList Source = iota + 1 // a complete listing lacks it
	ByGet                    // the provider answered that it knows no such VM
)

// absenceApart is how far apart two observations of one kind must be to count
// as two.
const absenceApart = 10 * time.Second

// Absence is an uninterrupted run of observations that a VM is not there. The
// zero Absence: it was seen, or never looked for. Seeing the VM ends the run.
type Absence struct {
	First time.Time
	Last  time.Time
	Get   time.Time // the last one made by a Get; zero: none
	List  time.Time // the last one made by a listing; zero: none
}

// Missed returns the run with one more observation, made at the given time.
// Observations within lag of created do not count: the provider may not show
// the VM yet.
func (a Absence) Missed(by Source, at, created time.Time, lag time.Duration) Absence {
	shown := created.Add(lag)
	if at.Before(shown) {
		return a
	}
	if a.First.Before(shown) {
		a = Absence{First: at} // the create was sent again since
	}
	a.Last = later(a.Last, at)
	switch by {
	case ByGet:
		a.Get = later(a.Get, at)
	case ByList:
		a.List = later(a.List, at)
	}
	return a
}

// Confirmed reports whether the observations prove that the VM is gone: a Get
// and a listing agree, or two observations lie 10 s apart.
func (a Absence) Confirmed() bool {
	return a.agreed(a.First) || a.Last.Sub(a.First) >= absenceApart
}

// agreed reports whether a Get and a listing both lacked the VM at since or
// later.
func (a Absence) agreed(since time.Time) bool {
	return !a.Get.IsZero() && !a.List.IsZero() && !a.Get.Before(since) && !a.List.Before(since)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
