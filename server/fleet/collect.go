package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"nstance.dev/protos/identity"
)

// SeenVM is one VM of a listing.
type SeenVM struct {
	ID         identity.ID // from its tag; empty: missing, malformed or copied
	RawID      string      // the tag as found
	ProviderID string
	Presence   Presence
}

// Known is one instance that the server knows, as far as the collection of
// garbage is concerned.
type Known struct {
	ID         identity.ID
	State      State
	Power      Power
	ProviderID string    // empty: not known yet
	Created    time.Time // when its create was last sent; see [Health]
}

// Record is what storage says of an id that is not among the known instances.
type Record uint8

// The records. A record that could not be read for a reason that may pass is
// RecordUnread, not RecordNone.
const (
	RecordUnread     Record = iota // nobody looked yet
	RecordNone                     // there is none
	RecordLive                     // there is one, of an instance that should live
	RecordTombstone                // there is one, of an instance that was deleted
	RecordUnreadable               // there is one, and it makes no sense
)

// Listing is one complete listing of the shard's VMs.
type Listing struct {
	At  time.Time // when the call began
	VMs []SeenVM
	// Records are the answers to earlier [Collection.Unread]; stale ones do harm
	// and must be left out.
	Records map[identity.ID]Record
}

// CollectOptions are the settings of [Collect].
type CollectOptions struct {
	Lag time.Duration // until an accepted create or delete shows in a listing
}

// Collection is what one listing means.
type Collection struct {
	Matches   []Match       // known instances whose VM was listed
	Absent    []identity.ID // known instances that the listing proves to lack: an observation for [Absence]
	Confirm   []identity.ID // absent for long enough under an alarm: a Get that finds nothing counts as ByGet
	Gone      []identity.ID // deleting instances whose VM is not there any more
	Unread    []identity.ID // no known instance: read their records, and come again
	Restore   []identity.ID // live records without a known instance: take them in
	Orphans   []SeenVM      // to delete: their instance was deleted, and this is the second sight of them
	Unmanaged []UnmanagedVM // to report, and never to delete

	// Alarm, if not empty, says that the listing lacks too many VMs to be
	// believed. Until a collection comes without one nothing may be deleted.
	Alarm string
}

// Match joins an instance with its VM.
type Match struct {
	ID         identity.ID
	ProviderID string
	Presence   Presence
}

// UnmanagedVM is a VM with our tags that is left alone, and why.
type UnmanagedVM struct {
	VM    SeenVM
	Cause Cause
	Why   string // the same in a sentence
}

// Cause is why a VM is unmanaged.
type Cause string

// The causes.
const (
	CauseBadID      Cause = "bad-instance-id"   // the tag that names its instance is missing, malformed or copied
	CauseNoRecord   Cause = "no-record"         // nothing in storage says that it was ever asked for
	CauseUnreadable Cause = "unreadable-record" // its record makes no sense, so nobody knows what it says
	CauseSecondVM   Cause = "second-machine"    // its instance has another VM
)

// Memory is what one collection leaves for the next one. The zero Memory is
// that of a server which has just taken over; it is never changed, only
// replaced.
type Memory struct {
	absent  map[identity.ID]time.Time // live instances → first listing without their VM
	orphans map[SeenVM]bool           // seen once, without their presence
}

// Collect compares a listing with the known instances. The order of its
// arguments does not matter, and what it returns is in a fixed one.
//
// Absence is never proof: what a listing lacks is reported as an observation,
// and a listing that lacks too much at once as an alarm. A VM that cannot be
// tied to a record is unmanaged; only one whose record says "deleted" is an orphan,
// and it goes at the second sight, never at the first one after a take-over.
func Collect(l Listing, known []Known, m Memory, opts CollectOptions) (Collection, Memory) {
	c := collector{l: l, opts: opts, last: m, next: Memory{
		absent:  make(map[identity.ID]time.Time),
		orphans: make(map[SeenVM]bool),
	}}
	vms := c.byInstance()
	known = slices.SortedFunc(slices.Values(known), func(a, b Known) int { return cmp.Compare(a.ID, b.ID) })
	var absent []Known
	for _, k := range known {
		if k.State == Deleted {
			continue // its record is the tombstone, which decides below
		}
		found := vms[k.ID]
		delete(vms, k.ID)
		if len(found) > 0 {
			c.match(k, found)
		} else if c.expected(k) {
			absent = append(absent, k)
		}
	}
	c.brake(known, absent)
	c.judgeAbsent(absent)
	c.judgeUnknown(vms)
	return c.out, c.next
}

// collector is one run of Collect.
type collector struct {
	l    Listing
	opts CollectOptions
	last Memory
	next Memory
	out  Collection
}

// byInstance groups the listed VMs by the instance they claim to be, each group
// in a fixed order.
func (c *collector) byInstance() map[identity.ID][]SeenVM {
	vms := make(map[identity.ID][]SeenVM, len(c.l.VMs))
	for _, vm := range slices.SortedFunc(slices.Values(c.l.VMs), compareVM) {
		vms[vm.ID] = append(vms[vm.ID], vm)
	}
	return vms
}

func compareVM(a, b SeenVM) int {
	return cmp.Or(
		cmp.Compare(a.ID, b.ID),
		cmp.Compare(a.ProviderID, b.ProviderID),
		cmp.Compare(a.RawID, b.RawID),
		cmp.Compare(a.Presence, b.Presence),
	)
}

// match joins an instance with the VM that it is known to have, or else the
// first one that claims to be it. Any other one is unmanaged: an instance has one VM.
func (c *collector) match(k Known, found []SeenVM) {
	i := max(0, slices.IndexFunc(found, func(vm SeenVM) bool { return vm.ProviderID == k.ProviderID }))
	c.out.Matches = append(c.out.Matches, Match{ID: k.ID, ProviderID: found[i].ProviderID, Presence: found[i].Presence})
	for j, vm := range found {
		if j != i {
			c.leaveUnmanaged(vm, CauseSecondVM, fmt.Sprintf("instance %s already has the VM %s", k.ID, found[i].ProviderID))
		}
	}
}

// expected reports whether the listing would show the instance's VM if there
// were one: not while its creation may still lie ahead of what the provider
// shows.
func (c *collector) expected(k Known) bool {
	return !c.l.At.Before(k.Created.Add(c.opts.Lag))
}

// judgeAbsent sorts instances that should have been listed and were not.
func (c *collector) judgeAbsent(absent []Known) {
	for _, k := range absent {
		switch {
		case k.State.Live(), k.silent(), k.draining():
			c.missLive(k)
		case c.out.Alarm != "":
			// a listing that is not believed ends no removal either
		case k.State == Deleting:
			c.out.Gone = append(c.out.Gone, k.ID)
		default:
			c.out.Absent = append(c.out.Absent, k.ID)
		}
	}
}

// judgeUnknown sorts the VMs that no known instance stands for.
func (c *collector) judgeUnknown(vms map[identity.ID][]SeenVM) {
	var all []SeenVM
	for _, found := range vms {
		all = append(all, found...)
	}
	slices.SortFunc(all, compareVM)
	for _, vm := range all {
		switch {
		case vm.ID == "":
			c.leaveUnmanaged(vm, CauseBadID, fmt.Sprintf("its instance id tag %q is missing, malformed or copied from another machine", vm.RawID))
		case c.l.Records[vm.ID] == RecordNone:
			c.leaveUnmanaged(vm, CauseNoRecord, "there is no record of its instance")
		case c.l.Records[vm.ID] == RecordUnreadable:
			c.leaveUnmanaged(vm, CauseUnreadable, "the record of its instance is unreadable")
		case c.l.Records[vm.ID] == RecordLive:
			c.out.Restore = appendOnce(c.out.Restore, vm.ID)
		case c.l.Records[vm.ID] == RecordTombstone:
			c.orphan(vm)
		default:
			c.out.Unread = appendOnce(c.out.Unread, vm.ID)
		}
	}
}

// orphan deletes a VM whose instance was deleted, once it has been seen before
// and the listing is to be believed.
func (c *collector) orphan(vm SeenVM) {
	key := vm
	key.Presence = PresenceUnknown
	c.next.orphans[key] = true
	if c.last.orphans[key] && c.out.Alarm == "" {
		c.out.Orphans = append(c.out.Orphans, vm)
	}
}

func (c *collector) leaveUnmanaged(vm SeenVM, cause Cause, why string) {
	c.out.Unmanaged = append(c.out.Unmanaged, UnmanagedVM{VM: vm, Cause: cause, Why: why})
}

func appendOnce(ids []identity.ID, id identity.ID) []identity.ID {
	if len(ids) > 0 && ids[len(ids)-1] == id {
		return ids
	}
	return append(ids, id)
}
