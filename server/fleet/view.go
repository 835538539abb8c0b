package fleet

import "time"

// View is everything that a decision about one group depends on.
type View struct {
	Group Group

	// Instances are all of the group, in any order, each id once: on-demand and
	// leaving ones included. Those of other groups are overlooked.
	Instances []Instance

	// CreatesBlocked says why no new instances may be asked for now.
	CreatesBlocked Block

	// DrainCoordinated: somebody moves work off condemned instances of the tenant. Without,
	// nothing waits for a drain.
	DrainCoordinated bool

	// Deletes is how many removals that only the deletion of the group asks for
	// may start now; negative: any number. It binds in a deleted group alone.
	// DeletesNext is when there will be more; zero: not known.
	Deletes     int
	DeletesNext time.Time

	// OwnDeletes bounds the same removals by what the group itself allows in a minute,
	// beside Deletes. The zero Budget does not.
	OwnDeletes Budget

	// MaxRepairs is how many sick instances whose VM still runs may be under
	// replacement or leaving at once. Zero: a tenth of the size, at least 1.
	MaxRepairs int

	// Aging says at which age instances make room.
	Aging Aging

	// RotationBlocked says why instances that work may not be replaced now for their age
	// or for what they were made from. Forced expiry does not ask it.
	RotationBlocked Block

	// SettleTime is how long after its registration an instance still may turn out
	// not to work: until then no other one is rotated. Zero: it is
	// trusted at its first report.
	SettleTime time.Duration

	// Silence says why nobody in the shard is found sick for missing reports now;
	// empty: everybody is judged.
	Silence string

	// Losses bounds the replacement of instances whose VM is gone, for the time
	// after a mass loss. The zero Budget does not.
	Losses Budget
}

// Block says why something may not start now. The zero Block blocks nothing.
type Block struct {
	Why   string    // in words, without a full stop; empty: nothing is blocked
	By    Blocker   // what kind of reason that is; zero in a View: BlockerBackOff
	Until time.Time // when it ends by itself; zero: only an event ends it
}

// Budget is a number of things that may start now. The zero Budget does not
// limit.
type Budget struct {
	Limited bool
	Left    int
	Next    time.Time // when there will be more; zero: not known
}

// Aging says at which age instances make room for younger ones. Zero: never. An
// age counts from the instance's creation, so it outlives every change of leader.
type Aging struct {
	Eligible time.Duration // managed: when the group is settled, one at a time
	Forced   time.Duration // managed: outside of windows and in groups that are not settled too; above Eligible
	OnDemand time.Duration // on demand: it goes, and nobody takes its place
}
