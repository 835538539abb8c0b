package hub

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// maxWaiting is how many events wait for a reader.
const maxWaiting = 1000

// Reader is somebody who wants to know what has changed. It is for one goroutine.
type Reader struct {
	hub  *Hub
	wake chan struct{}

	// The rest is the hub's, under its lock.
	dirty   map[string]*changes
	events  []occurrence
	dropped int
	greeted bool
}

// changes are the objects of a shard that a reader has to be told of.
type changes struct {
	shard bool
	all   [kinds]bool // everything: it has never been told
	keys  [kinds]map[string]bool
}

// occurrence is something that has happened.
type occurrence struct {
	text    json.RawMessage
	failure bool
}

// Subscribe returns a reader that has not been told anything yet. It must be closed.
func (h *Hub) Subscribe() *Reader {
	r := &Reader{hub: h, wake: make(chan struct{}, 1), dirty: map[string]*changes{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.states {
		r.dirty[name] = &changes{shard: true, all: [kinds]bool{true, true, true}}
	}
	h.readers[r] = struct{}{}
	r.signal()
	return r
}

// Close forgets the reader.
func (r *Reader) Close() {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.readers, r)
}

// Wake returns a channel that gets a value when there is something to take.
func (r *Reader) Wake() <-chan struct{} { return r.wake }

func (r *Reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// mark notes for all readers that an object has changed; it needs the hub's lock.
func (h *Hub) mark(name string, of kind, key string) {
	for r := range h.readers {
		c := r.changesOf(name)
		if c.keys[of] == nil {
			c.keys[of] = map[string]bool{}
		}
		c.keys[of][key] = true
		r.signal()
	}
}

func (h *Hub) markShard(name string) {
	for r := range h.readers {
		r.changesOf(name).shard = true
		r.signal()
	}
}

func (r *Reader) changesOf(name string) *changes {
	c := r.dirty[name]
	if c == nil {
		c = &changes{}
		r.dirty[name] = c
	}
	return c
}

// happened needs the hub's lock.
func (r *Reader) happened(text json.RawMessage, failure bool) {
	if !r.greeted {
		return // it is among those that it is greeted with
	}
	r.events = append(r.events, occurrence{text, failure})
	if extra := len(r.events) - maxWaiting; extra > 0 {
		r.events = slices.Delete(r.events, 0, extra)
		r.dropped += extra
	}
	r.signal()
}

// Update is what a reader is told at once.
type Update struct {
	Shards []ShardUpdate // by name
	// Recent is what has happened lately, in place of whatever the reader was told of that before: with the
	// first update, and where it was too slow for what has happened since. There are no Events and Failures then.
	Recent   *Recent
	Events   []json.RawMessage // in order
	Failures []json.RawMessage
	Dropped  int // events and failures that the reader was too slow for
}

// Recent is what has happened lately, the newest last.
type Recent struct {
	Events   []json.RawMessage `json:"events"`
	Failures []json.RawMessage `json:"failures"`
}

// ShardUpdate is what has changed of one shard.
type ShardUpdate struct {
	Name                        string
	Status                      *ShardStatus // nil: as before
	Groups, Instances, Machines Objects
}

// ShardStatus is how a shard is.
type ShardStatus struct {
	Shard     string          `json:"shard"`
	Connected bool            `json:"connected"`
	Error     string          `json:"error,omitempty"`
	Since     time.Time       `json:"since"` // it is connected, or not
	Leader    string          `json:"leader,omitempty"`
	Info      json.RawMessage `json:"info,omitempty"`
}

// Objects are those of one kind that have changed.
type Objects struct {
	Snapshot bool // these are all
	Objects  []json.RawMessage
	Deleted  []string // their keys
}

// Empty reports whether nothing has changed.
func (o Objects) Empty() bool { return !o.Snapshot && len(o.Objects) == 0 && len(o.Deleted) == 0 }

// Take returns what the reader has not been told yet.
func (r *Reader) Take() Update {
	h := r.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	var u Update
	for _, name := range slices.Sorted(maps.Keys(r.dirty)) {
		u.Shards = append(u.Shards, h.states[name].told(name, r.dirty[name]))
	}
	clear(r.dirty)
	if !r.greeted || r.dropped > 0 {
		r.greeted, r.events = true, nil // which are among the recent ones
		u.Recent = &Recent{notNil(h.events), notNil(h.failures)}
	}
	for _, o := range r.events {
		if o.failure {
			u.Failures = append(u.Failures, o.text)
		} else {
			u.Events = append(u.Events, o.text)
		}
	}
	u.Dropped = r.dropped
	r.events, r.dropped = nil, 0
	return u
}

func notNil(list []json.RawMessage) []json.RawMessage {
	return append([]json.RawMessage{}, list...)
}

// told returns what a reader with these changes is to be told.
func (st *state) told(name string, c *changes) ShardUpdate {
	u := ShardUpdate{Name: name}
	if c.shard {
		u.Status = &ShardStatus{name, st.connected, st.problem, st.since.UTC(), st.leader, st.info}
	}
	for of, to := range [kinds]*Objects{&u.Groups, &u.Instances, &u.Machines} {
		*to = st.tables[of].objects(c.all[of], c.keys[of])
	}
	return u
}

// objects returns the rows of some keys, or all.
func (t *table) objects(all bool, keys map[string]bool) Objects {
	if all {
		o := Objects{Snapshot: true}
		for _, key := range slices.Sorted(maps.Keys(t.rows)) {
			o.Objects = append(o.Objects, t.rows[key].text)
		}
		return o
	}
	var o Objects
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if r, there := t.rows[key]; there {
			o.Objects = append(o.Objects, r.text)
		} else {
			o.Deleted = append(o.Deleted, key)
		}
	}
	return o
}
