package cache

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"nstance.dev/protos/identity"
)

// details is a table of what instances have by name. There are a few rows for each
// instance of the shard, so they are kept in one slice for each: a map of all of them
// takes twice the memory. The cache's lock guards it.
type details[V any] struct {
	form[fileKey, V]
	differences[fileKey]
	rows map[identity.ID][]detail[V] // sorted by name, and as long as they have room for
}

// fileKey names something that an instance has by name.
type fileKey struct {
	instance identity.ID
	name     string
}

func (k fileKey) compare(other fileKey) int {
	return cmp.Or(cmp.Compare(k.instance, other.instance), strings.Compare(k.name, other.name))
}

// detail is a row without its instance.
type detail[V any] struct {
	name string
	row  V
}

func newDetails[V any](s schema, bind func(fileKey, V) []any) *details[V] {
	key := func(k fileKey) []any { return []any{k.instance.String(), k.name} }
	return &details[V]{
		form: form[fileKey, V]{schema: s, compare: fileKey.compare, bind: bind, bindKey: key},
		rows: make(map[identity.ID][]detail[V]),
	}
}

// find returns the place of a row, and whether it is there.
func (d *details[V]) find(id identity.ID, name string) (place int, found bool) {
	return slices.BinarySearchFunc(d.rows[id], name, func(r detail[V], name string) int {
		return strings.Compare(r.name, name)
	})
}

// put sets a row, and reports whether it is news for the writer.
func (d *details[V]) put(id identity.ID, name string, v V) (news bool) {
	i, found := d.find(id, name)
	if found {
		d.rows[id][i].row = v
		return d.mark(fileKey{id, d.rows[id][i].name})
	}
	old := d.rows[id]
	rows := make([]detail[V], 0, len(old)+1) // no more: most never get another one
	d.rows[id] = append(append(append(rows, old[:i]...), detail[V]{name, v}), old[i:]...)
	return d.mark(fileKey{id, name})
}

// drop removes all that an instance has, and reports whether it is news for the writer.
func (d *details[V]) drop(id identity.ID) (news bool) {
	for _, r := range d.rows[id] {
		news = d.mark(fileKey{id, r.name}) || news
	}
	delete(d.rows, id)
	return news
}

// dropOne removes one row, as drop does all.
func (d *details[V]) dropOne(id identity.ID, name string) (news bool) {
	i, found := d.find(id, name)
	if !found {
		return false
	}
	setOrDrop(d.rows, id, slices.Delete(d.rows[id], i, i+1))
	return d.mark(fileKey{id, name})
}

// forget removes all rows.
func (d *details[V]) forget() {
	for id := range d.rows {
		d.drop(id)
	}
}

// turnOn makes all rows differ, as they do from an empty file.
func (d *details[V]) turnOn() {
	d.off = false
	for id, rows := range d.rows {
		for _, r := range rows {
			d.mark(fileKey{id, r.name})
		}
	}
}

// take returns what differs, as that of a table does.
func (d *details[V]) take() batch {
	return d.batch(d.taken(), func(k fileKey) (v V, ok bool) {
		i, found := d.find(k.instance, k.name)
		if found {
			v = d.rows[k.instance][i].row
		}
		return v, found
	})
}

// PutFile sets the state of a file at an instance; times count in milliseconds. It
// returns false, and keeps nothing, for an instance that is not in the cache. As
// with reports, nobody reads it from the file in a hurry.
func (c *Cache) PutFile(f File) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.t.instances.rows[f.Instance]; !ok {
		return false
	}
	if c.t.files.put(f.Instance, f.Name, rowOf(f)) {
		c.w.later()
	}
	return true
}

// Files returns the files of an instance, by name.
func (c *Cache) Files(id identity.ID) []File {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]File, len(c.t.files.rows[id]))
	for i, r := range c.t.files.rows[id] {
		out[i] = r.row.file(id, r.name)
	}
	return out
}

// fileRow is what a row holds of a [File] beside its key.
type fileRow struct {
	lastModified, sentAt int64 // milliseconds; 0: zero
	err                  string
	attempts             int
}

func rowOf(f File) fileRow {
	return fileRow{lastModified: millis(f.LastModified), sentAt: millis(f.SentAt), err: f.Error, attempts: f.Attempts}
}

func (r fileRow) file(id identity.ID, name string) File {
	return File{
		Instance: id, Name: name, LastModified: moment(r.lastModified), Error: r.err, SentAt: moment(r.sentAt), Attempts: r.attempts,
	}
}

// DropFile forgets one file of an instance.
func (c *Cache) DropFile(id identity.ID, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.t.files.dropOne(id, name) {
		c.w.later()
	}
}

// publicKey is what a row holds of a public key beside its name.
type publicKey struct {
	pem        string
	receivedAt time.Time
}

// PutPublicKeys adds public keys to those that an instance has, by name and in
// PEM. It returns false, and keeps nothing, for an instance that is not in the
// cache.
func (c *Cache) PutPublicKeys(id identity.ID, keys map[string]string) bool {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.t.instances.rows[id]; !ok {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		c.news(c.t.keys.put(id, name, publicKey{keys[name], now}))
	}
	return true
}

// PublicKeys returns the public keys of an instance, by name and in PEM.
func (c *Cache) PublicKeys(id identity.ID) map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make(map[string]string, len(c.t.keys.rows[id]))
	for _, r := range c.t.keys.rows[id] {
		out[r.name] = r.row.pem
	}
	return out
}
