package inventory

import (
	"maps"
	"strings"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// TombstoneLife is how long it is remembered that an instance was deleted, so that a late
// listing cannot bring it back.
const TombstoneLife = time.Hour

// Presence is what is known of whether something is there.
type Presence string

// The answers. Unknown is the answer for whatever a shard that is out of sight may have.
const (
	Unknown Presence = "unknown"
	Present Presence = "present"
	Gone    Presence = "gone"
)

// State says how far a shard can be believed.
type State struct {
	// Term is the term of the leader that the shard last answered with.
	Term int64
	// GroupsSynced and InstancesSynced: since the last connection a whole listing came,
	// so that what it lacks is not there. Both are false while the shard is out of sight.
	GroupsSynced, InstancesSynced bool
	// GroupsAt and InstancesAt are when such listings last came, also before the last
	// connection; zero: never.
	GroupsAt, InstancesAt time.Time
	// UnconfirmedMissing is the number of instances that listings lack and that still count, because
	// so many at once have to be confirmed.
	UnconfirmedMissing int
}

// Synced reports whether all that the shard has is known.
func (s State) Synced() bool { return s.GroupsSynced && s.InstancesSynced }

// Shard is what one shard has said about one tenant. NewShard makes one.
type Shard struct {
	tenant      string
	state       State
	connected   bool      // and not lost since
	connectedAt time.Time // the last time
	listedAt    listedAt
	groups      map[string]*entry[*nstancev1.GroupStatus]
	instances   members
	tombstones  map[string]tombstone
	unlisted    map[string]tombstone // taken out by a listing; one that has them brings them back
	missing     map[string]time.Time // when a listing first lacked it
	ended       map[string]time.Time // groups: when their deletion was heard of
}

// listedAt is when the newest listings that were believed were asked for.
type listedAt struct{ groups, instances time.Time }

// tombstone is what is left of an instance: when its deletion was heard of, and its provider
// id if that was known.
type tombstone struct {
	at  time.Time
	uri string
	why string // in the server's words; empty: it did not say
}

// entry is what was said about one thing, and when it was last said to be there.
type entry[T any] struct {
	said  T
	heard time.Time
}

// NewShard returns a shard that has said nothing yet and is not connected. What belongs to
// another tenant is never taken in.
func NewShard(tenant string) *Shard {
	return &Shard{
		tenant:     tenant,
		groups:     map[string]*entry[*nstancev1.GroupStatus]{},
		instances:  newMembers(),
		tombstones: map[string]tombstone{},
		unlisted:   map[string]tombstone{},
		missing:    map[string]time.Time{},
		ended:      map[string]time.Time{},
	}
}

// Kind is what a Change is about.
type Kind string

// The kinds of changes.
const (
	GroupChanged    Kind = "group changed"
	GroupGone       Kind = "group gone"
	InstanceChanged Kind = "instance changed"
	InstanceGone    Kind = "instance gone"
	ShardChanged    Kind = "shard changed"    // its State, beyond the times in it
	Shrunken        Kind = "inventory shrunk" // a listing lacks too much, and has to be confirmed
	Foreign         Kind = "foreign tenant"   // something was dropped that is not ours
)

// Change is something that is known now and was not before.
type Change struct {
	Kind     Kind
	Group    string // key; empty where the change is not about a group or its instance
	Instance string // id; empty where the change is not about an instance
	// Why says how it came to be known, for InstanceGone, Shrunken and Foreign.
	Why string
}

// State returns how far the shard can be believed.
func (s *Shard) State() State {
	state := s.state
	state.UnconfirmedMissing = len(s.missing)
	return state
}

// Group returns what was said last about a group; nil if nothing is known.
func (s *Shard) Group(key string) *nstancev1.GroupStatus {
	if e := s.groups[key]; e != nil {
		return e.said
	}
	return nil
}

// Groups returns all groups, sorted by key.
func (s *Shard) Groups() []*nstancev1.GroupStatus {
	return sorted(s.groups)
}

// Instance returns what was said last about an instance that is there as far as is known;
// nil otherwise.
func (s *Shard) Instance(id string) *nstancev1.InstanceStatus {
	if e := s.instances.byID[id]; e != nil {
		return e.said
	}
	return nil
}

// Instances returns the instances of a group, on-demand ones included, sorted by id;
// those of all groups for an empty key. Of some HasDetails may be false.
func (s *Shard) Instances(group string) []*nstancev1.InstanceStatus {
	return s.instances.of(group)
}

// HasDetails reports whether a listing, or an event that carries the whole instance, has told all about it. Of one
// that is expected, or of which an older server's events have told, it is not known yet whether it is on demand,
// when it was created and what its provider calls it.
func HasDetails(i *nstancev1.InstanceStatus) bool { return i.GetCreatedAt() != nil }

// IsManaged reports whether an instance is one of those that its group keeps at size, and not
// on demand. Without details nobody knows, unless something of ours stands for it already: shown.
func IsManaged(i *nstancev1.InstanceStatus, shown bool) (managed, known bool) {
	if HasDetails(i) {
		return !i.GetOnDemand(), true
	}
	return shown, shown
}

// Runs reports whether an instance counts as one that runs: it does, or it is switched off on purpose and comes
// back.
func Runs(i *nstancev1.InstanceStatus) bool {
	return i.GetStatus() == StatusRunning || i.GetStatus() == StatusPoweredOff
}

// HeldUntil is until when an instance is on hold: something is done to it that looks like a failure, and that is to
// be taken for none. Zero: it is not on hold at now.
func HeldUntil(i *nstancev1.InstanceStatus, now time.Time) time.Time {
	until := i.GetHold().GetUntil()
	if until == nil || !now.Before(until.AsTime()) {
		return time.Time{}
	}
	return until.AsTime()
}

// Presence says whether an instance is there. Only of a shard all of whose instances are
// known, something that is not among them is gone.
func (s *Shard) Presence(id string) Presence {
	_, deleted := s.tombstones[id]
	switch {
	case s.instances.byID[id] != nil:
		return Present
	case deleted, s.state.InstancesSynced:
		return Gone
	default:
		return Unknown
	}
}

// Unlisted is the reason of an instance of which nothing else is known than that a complete
// listing of its shard lacks it.
const Unlisted = "a complete listing of the shard lacks it"

// WhyDeleted returns why an instance is gone: the reason that the server gave for its end, in
// its words, or [Unlisted]. Empty: the server gave none with its deletion, or the instance was
// not gone within [TombstoneLife].
func (s *Shard) WhyDeleted(id string) string {
	if t, deleted := s.tombstones[id]; deleted {
		return t.why
	}
	return s.unlisted[id].why
}

// Deleted reports whether the deletion of an instance with a provider id, or of one whose id
// that ends with, was heard of within [TombstoneLife]. Other than absence, that says that the
// instance was one of this tenant.
func (s *Shard) Deleted(providerURI string) bool {
	if _, deleted := s.tombstones[providerURI[strings.LastIndex(providerURI, "/")+1:]]; deleted {
		return true
	}
	for _, t := range s.tombstones {
		if t.uri != "" && t.uri == providerURI {
			return true
		}
	}
	return false
}

// GroupPresence says the same of a group.
func (s *Shard) GroupPresence(key string) Presence {
	switch {
	case s.groups[key] != nil:
		return Present
	case s.state.GroupsSynced:
		return Gone
	default:
		return Unknown
	}
}

// Expect takes in an instance that was there before this process began, as far as its
// caller remembers, so that its absence from the first listing is seen as one.
func (s *Shard) Expect(id, group, providerURI string) {
	if _, deleted := s.tombstones[id]; deleted || s.instances.byID[id] != nil {
		return
	}
	s.instances.put(id, &entry[*nstancev1.InstanceStatus]{said: &nstancev1.InstanceStatus{
		InstanceId: id, Group: group, ProviderUri: providerURI, Tenant: s.tenant, Status: StatusUnknown,
	}})
}

// Connected notes a new connection to the leader of that term. What is known stays; what
// is not known has to be asked for again.
func (s *Shard) Connected(term int64, now time.Time) []Change {
	s.connected, s.connectedAt = true, now
	s.state.Term = term
	return s.unsynced()
}

// Lost notes that the shard is not connected any more. All that it had
// stays as it was last known, also if answers that were on their way lack some of it.
func (s *Shard) Lost() []Change {
	s.connected = false
	return s.unsynced()
}

// believes reports whether what a listing lacks is gone: one that was asked for on this
// connection, and not on an earlier one, maybe of another leader.
func (s *Shard) believes(asked time.Time) bool { return s.connected && !asked.Before(s.connectedAt) }

func (s *Shard) unsynced() []Change {
	before := s.State()
	s.state.GroupsSynced, s.state.InstancesSynced = false, false
	clear(s.missing) // what comes after is another leader's listing
	return s.changed(before)
}

// changed returns the change of the shard's state since before, if there is one. That
// everything was listed once more is none.
func (s *Shard) changed(before State) []Change {
	now := s.State()
	before.GroupsAt, before.InstancesAt = now.GroupsAt, now.InstancesAt
	if now == before {
		return nil
	}
	return []Change{{Kind: ShardChanged}}
}

// prune forgets deletions of long ago.
func (s *Shard) prune(now time.Time) {
	old := func(_ string, at time.Time) bool { return now.Sub(at) > TombstoneLife }
	buried := func(_ string, t tombstone) bool { return old("", t.at) }
	maps.DeleteFunc(s.tombstones, buried)
	maps.DeleteFunc(s.unlisted, buried)
	maps.DeleteFunc(s.ended, old)
}

// foreign returns the change that stands for something of another tenant; nil if it is
// ours, or says nothing of whose it is.
func (s *Shard) foreign(tenant, what string) []Change {
	if tenant == "" || tenant == s.tenant {
		return nil
	}
	return []Change{{Kind: Foreign, Why: what + " of another tenant"}}
}
