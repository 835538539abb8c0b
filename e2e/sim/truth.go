package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/driver"
	"nstance.dev/server/fleet"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore/memory"
)

// truth is what stands in the store, as the store tells it, with when and how it
// came to be.
type truth struct {
	w *world

	mu      sync.Mutex
	file    *groupfile.File
	records map[identity.ID]*record
	names   map[identity.ID]string
	counts  map[groupID]int
	sizes   map[groupID][]sizeSince
	sick    map[identity.ID]map[identity.ID]bool // who was found sick when an instance was decided on
	infra   map[groupID]string                   // what machines are to be made from
	ends    []ending                             // condemnations, in order
	way     map[string]way                       // of the write of a key that lands now
	first   map[decision]time.Time               // when a condemnation was sent for the first time
	held    lockModel

	snapshots bool // there are some
}

// record is one instance's, also after it was removed.
type record struct {
	layout.InstanceRecord
	born      time.Time
	condemned time.Time // zero: never
	removed   time.Time // zero: it stands
	asked     bool      // a create call was sent
	again     bool      // it was removed, and stands again: a late write, or a caller's id that is repeated
	spent     bool      // when it was removed, a create call had been sent
}

func (r *record) group() groupID { return groupID{r.Tenant, r.Group} }

// live reports whether the instance exists and has not been condemned.
func (r *record) live() bool { return r.removed.IsZero() && r.Deletion == nil }

// ending is a condemnation.
type ending struct {
	at     time.Time
	group  groupID
	reason string
	live   int  // instances, before
	ran    bool // its machine
}

func newTruth(w *world) *truth {
	return &truth{
		w: w, records: map[identity.ID]*record{}, names: map[identity.ID]string{},
		counts: map[groupID]int{}, sizes: map[groupID][]sizeSince{}, infra: map[groupID]string{}, sick: map[identity.ID]map[identity.ID]bool{}, way: map[string]way{}, first: map[decision]time.Time{},
	}
}

// accepted is called inside the store, for every write in its order.
func (t *truth) accepted(write memory.Write) {
	switch {
	case write.Key == layout.LeaderKey(shardName):
		t.lock(write)
	case write.Key == layout.GroupsKey(shardName):
		t.fence(write)
		t.groups(write)
	case strings.HasPrefix(write.Key, layout.InstancePrefix(shardName)):
		t.fence(write)
		t.instance(write)
	case strings.HasPrefix(write.Key, layout.SnapshotPrefix(shardName)):
		t.mu.Lock()
		t.snapshots = true
		t.mu.Unlock()
	}
}

// intends notes whom a process has found sick when it decides on an instance.
func (t *truth) intends(p *process, key string) {
	_, _, id, err := layout.ParseInstanceKey(key)
	if err != nil {
		return
	}
	t.mu.Lock()
	seen := t.sick[id] != nil
	t.mu.Unlock()
	if seen {
		return
	}
	sick := t.w.foundSick(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sick[id] = sick
}

func (t *truth) sickThen(id identity.ID) map[identity.ID]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sick[id]
}

// way is how a write came to the store.
type way struct {
	by      *process
	sent    time.Time
	decided time.Time // not later than sent: when a try of the same write was sent first
	lost    bool      // its connection was lost meanwhile
}

// decision is the condemnation of an instance by a process, as its record names it.
type decision struct {
	by  *process
	key string
	at  string // by the clock of the process
}

// decided returns when a process has sent a write for the first time. Of writes that
// repeat others only condemnations count: one whose answer was lost may stand, so that
// the leader has to repeat it until it knows, whatever has happened since.
func (t *truth) decided(p *process, key string, data []byte) time.Time {
	now := time.Now()
	if bytes.Contains(data, []byte(`"deletion":null`)) {
		return now // as most are, and to decode one takes long
	}
	rec, err := layout.DecodeInstanceRecord(key, data)
	if err != nil || rec.Deletion == nil {
		return now
	}
	d := decision{p, key, rec.Deletion.RequestedAt.String()}
	t.mu.Lock()
	defer t.mu.Unlock()
	if first, known := t.first[d]; known {
		return first
	}
	t.first[d] = now
	return now
}

// late reports whether a write was longer on its way than the margin of a lease, or
// lost its connection. No leader can call that back: there the conditions of the
// writes have to see to it that no harm is done.
func (y way) late() bool { return y.lost || time.Since(y.sent) > leaseMargin }

// lands notes how the write of a key came that is about to land.
func (t *truth) lands(key string, y way) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.way[key] = y
}

// fence checks that no leader writes after a later one (S1).
func (t *truth) fence(write memory.Write) {
	if write.Deleted {
		return
	}
	var doc struct{ Term uint64 }
	if err := json.Unmarshal(write.Data, &doc); err != nil {
		t.w.violate("S1", "%s: %v", write.Key, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.held.acting(); doc.Term < last && !t.way[write.Key].late() {
		t.w.violate("S1", "%s was written in term %d after a write of term %d", write.Key, doc.Term, last)
	}
	t.held.written = max(t.held.written, doc.Term)
}

// instance takes note of a record's version.
func (t *truth) instance(write memory.Write) {
	_, _, id, err := layout.ParseInstanceKey(write.Key)
	if err != nil {
		t.w.violate("S3", "%v", err)
		return
	}
	if write.Deleted {
		t.removed(id)
		return
	}
	rec, err := layout.DecodeInstanceRecord(write.Key, write.Data)
	if err != nil {
		return // somebody damaged it
	}
	vm, exists := t.w.cloud.Machine(id)
	ran := exists && vm.Status == driver.Running
	t.mu.Lock()
	old := t.records[id]
	next := &record{InstanceRecord: rec, born: time.Now()}
	if old != nil {
		next.born, next.condemned, next.asked = old.born, old.condemned, old.asked
		next.again = old.again || !old.removed.IsZero()
		next.spent = old.spent || !old.removed.IsZero() && old.asked
	} else {
		t.counts[next.group()]++
		t.names[id] = fmt.Sprintf("%s/%d", next.group(), t.counts[next.group()])
	}
	if rec.Deletion == nil {
		next.condemned = time.Time{} // it may have been taken back
	}
	condemned := rec.Deletion != nil && next.condemned.IsZero()
	if condemned {
		next.condemned = time.Now()
		t.ends = append(t.ends, ending{time.Now(), next.group(), rec.Deletion.Reason, t.live(), ran})
	}
	t.records[id] = next
	name, came := t.names[id], t.way[write.Key]
	t.mu.Unlock()
	t.w.checkRecord(name, old, next)
	t.w.checkHold(name, next, condemned)
	if condemned {
		t.w.logf("%s is condemned: %s", name, rec.Deletion.Reason)
		t.w.checkCondemned(name, next, came)
	}
}

func (t *truth) removed(id identity.ID) {
	t.mu.Lock()
	old := t.records[id]
	if old != nil {
		gone := *old
		gone.removed = time.Now()
		t.records[id] = &gone
	}
	t.mu.Unlock()
}

// record returns what is known of an instance, which nobody changes, or nil.
func (t *truth) record(id identity.ID) *record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.records[id]
}

// live is how many instances live. The caller holds mu.
func (t *truth) live() int {
	n := 0
	for _, rec := range t.records {
		if rec.live() {
			n++
		}
	}
	return n
}

// stands reports whether any record stands. The caller holds mu.
func (t *truth) stands() bool {
	for _, rec := range t.records {
		if rec.removed.IsZero() {
			return true
		}
	}
	return false
}

// ask notes that a create call was sent.
func (t *truth) ask(id identity.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.records[id]; old != nil {
		next := *old
		next.asked = true
		t.records[id] = &next
	}
}

func (t *truth) name(id identity.ID) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if name, ok := t.names[id]; ok {
		return name
	}
	return id.String()
}

// standing are the records that stand.
func (t *truth) standing() map[identity.ID]*record {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[identity.ID]*record{}
	for id, rec := range t.records {
		if rec.removed.IsZero() {
			all[id] = rec
		}
	}
	return all
}

// left is how many managed instances of a group live, or lived at a moment and are lost
// since.
func (t *truth) left(g groupID, then time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, rec := range t.records {
		if rec.group() == g && !rec.OnDemand && (rec.live() || t.lost(rec, then)) {
			n++
		}
	}
	return n
}

// lost reports whether an instance was condemned since a moment because it failed or
// because somebody asked for it: not for the size, and not to make room for another one,
// which counts itself. The caller holds mu.
func (t *truth) lost(rec *record, since time.Time) bool {
	if rec.Deletion == nil || rec.condemned.Before(since) {
		return false
	}
	switch fleet.Reason(rec.Deletion.Reason) {
	case fleet.ReasonScaleDown, fleet.ReasonGroupDeleted, fleet.ReasonExpired, fleet.ReasonForcedExpiry, fleet.ReasonConfigDrift:
		return false
	}
	heir := t.records[rec.Deletion.ReplacementID]
	return heir == nil || !heir.live()
}

// outdated reports whether a machine is to be replaced for what it was made from.
func (t *truth) outdated(rec *record) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !rec.OnDemand && rec.InfraHash != t.infra[rec.group()]
}
