package consolidation

import "slices"

// MostReplaced is how many machines an attempt replaces at most.
const MostReplaced = 4

const (
	// Rest is how long a group is left alone after an attempt has ended, in milliseconds. Each attempt that fails after
	// another one doubles it, up to MostRest: what the operator refuses, because only it knows which Pod is where,
	// it will refuse again, and what was bought for it costs.
	Rest = 600_000
	// MostRest is the longest Rest: a day, in milliseconds.
	MostRest = 86_400_000
	// Penance is how long machines are left alone that could not be replaced.
	Penance = 3_600_000
)

// Phase is how far an attempt has come.
//
//	Buying ─▶ Giving ─▶ ended
//	   └────────┴─────▶ ended, and the machines are left alone
type Phase uint8

// The phases.
const (
	Buying Phase = iota + 1 // the replacement is made and joins
	Giving                  // it has taken the place, and what it replaced is given back
)

var phaseNames = [...]string{"", "buying", "giving"}

// String is the phase in words.
func (p Phase) String() string { return phaseNames[p] }

// Attempt is one replacement that is under way.
type Attempt struct {
	Cluster  string
	Replaced []string // machines, 1 to [MostReplaced]
	Bought   []string // machines; none: what the others have left is enough
	Phase    Phase
	Began    int64 // when, in milliseconds
	placed   int64 // when the bought machines took their place
}

// Holds reports whether a machine may not be given back yet, although nothing draws from it.
func (a *Attempt) Holds(id string) bool {
	return a.Phase == Buying && (slices.Contains(a.Bought, id) || slices.Contains(a.Replaced, id))
}

// Gives reports whether a machine is given back because it was replaced.
func (a *Attempt) Gives(id string) bool { return a.Phase == Giving && slices.Contains(a.Replaced, id) }

// Sight is what one cycle sees of the machines of an attempt.
type Sight struct {
	Failed    bool // a bought one failed, is gone, or goes
	Joined    bool // all bought ones are configured
	Standing  bool // all replaced ones are configured for the cluster
	Left      bool // none of the replaced ones is the cluster's any more
	Refused   bool // the operator does not give one of the replaced ones back
	Claimed   bool // a need draws from one of the replaced ones
	Short     bool // the cluster lacks something
	Unsettled bool // whatever is seen now will be seen otherwise in the next cycle
	Withdrawn bool // consolidation is off
}

// Step is what comes next.
type Step uint8

// The steps.
const (
	Wait    Step = iota // nothing, for now
	Place               // the bought machines take the place of the replaced ones, if no need lacks more by that
	Restore             // the replaced machines that are left take their place again; the attempt has failed
	Abandon             // nothing: the attempt has failed
	Finish              // nothing: the attempt has ended well
)

// Next is what comes next, and why, in words that follow on `the attempt ended because`; empty while it
// goes on.
func (a *Attempt) Next(s Sight) (Step, string) {
	if a.Phase == Giving {
		switch {
		case s.Left:
			return Finish, "the replaced machines are given back"
		case s.Unsettled:
			return Wait, ""
		case s.Refused:
			return Restore, "the drain of a replaced machine was refused"
		case s.Claimed:
			return Finish, "a need draws from a replaced machine again"
		default:
			return Wait, ""
		}
	}
	switch {
	case s.Failed:
		return Abandon, "a bought machine failed or left"
	case !s.Standing:
		return Abandon, "a machine to be replaced left"
	case s.Withdrawn:
		return Abandon, "consolidation was switched off"
	case s.Short:
		return Abandon, "the cluster lacks something"
	case !s.Joined || s.Unsettled:
		return Wait, ""
	default:
		return Place, ""
	}
}

// Place notes that the bought machines have taken the place of the replaced ones.
func (a *Attempt) Place(now int64) { a.Phase, a.placed = Giving, now }

// Memory is what is known of the attempts of one group. The zero Memory knows of none.
type Memory struct {
	Attempt *Attempt // nil: none is under way
	Next    int64    // when to look for another one, in milliseconds; 0: at once
	Again   int64    // the same for machines that have to make room: they do not wait after an attempt that ended well
	Why     string   // the last attempt of this process ended; empty: there was none
	rest    int64    // after the last attempt, if that failed; 0: it did not
	unsure  unsure   // of what the last attempt was for
	alone   []alone
}

// unsure is an attempt that ended well, and may have saved nothing all the same.
type unsure struct {
	cluster string // empty: there is none
	since   int64  // when the replaced machines lost their place
}

// alone is a machine that is not to be replaced, and until when.
type alone struct {
	id    string
	until int64
}

// End notes that the attempt has ended, and whether it has failed.
func (m *Memory) End(now int64, why string, failed bool) {
	m.alone = slices.DeleteFunc(m.alone, func(a alone) bool { return a.until <= now })
	m.unsure = unsure{}
	m.Next, m.Again = now+Rest, now
	if failed {
		for _, id := range m.Attempt.Replaced {
			m.alone = append(m.alone, alone{id, now + Penance})
		}
		m.Next = now + m.longer()
		m.Again = m.Next
	} else {
		m.unsure = unsure{m.Attempt.Cluster, m.Attempt.placed}
	}
	m.Attempt, m.Why = nil, why
}

// longer makes the rest of a failure twice as long as that of the one before.
func (m *Memory) longer() int64 {
	m.rest = min(max(Rest, 2*m.rest), MostRest)
	return m.rest
}

// Unsure returns the cluster of the last attempt, of which it is not known yet whether it saved anything; empty: it is.
func (m *Memory) Unsure() string { return m.unsure.cluster }

// Judge says of the last attempt, Rest after its end, when its cluster has last bought for a need. If that was since the
// machines lost their place, they are missed perhaps: the sums of what Pods ask for do not say whether each of them fits. Then it
// counts as one that failed.
func (m *Memory) Judge(now, bought int64) {
	if bought >= m.unsure.since {
		m.Next, m.Why = now+m.longer(), "the cluster had to buy again soon after it"
	} else {
		m.rest = 0
	}
	m.unsure = unsure{}
}

// LeaveAlone notes that a machine cannot be replaced now.
func (m *Memory) LeaveAlone(id string, now int64) {
	m.alone = append(m.alone, alone{id, now + Penance})
}

// Alone reports whether a machine is not to be replaced now.
func (m *Memory) Alone(id string, now int64) bool {
	return slices.ContainsFunc(m.alone, func(a alone) bool { return a.id == id && a.until > now })
}
