package cache

import (
	"maps"
	"slices"

	"nstance.dev/protos/identity"
)

// named is a table of what instances have by name, and the index of the names.
// The cache's lock guards it.
type named[V any] struct {
	table *table[fileKey, V]
	names map[identity.ID][]string // sorted
}

func newNamed[V any](t *table[fileKey, V]) named[V] {
	return named[V]{t, make(map[identity.ID][]string)}
}

func (n named[V]) put(id identity.ID, name string, v V) (news bool) {
	if i, found := slices.BinarySearch(n.names[id], name); !found {
		n.names[id] = slices.Insert(n.names[id], i, name)
	}
	return n.table.put(fileKey{id, name}, v)
}

// drop removes all that an instance has.
func (n named[V]) drop(id identity.ID) (news bool) {
	for _, name := range n.names[id] {
		news = n.table.drop(fileKey{id, name}) || news
	}
	delete(n.names, id)
	return news
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
	if c.files.put(f.Instance, f.Name, rowOf(f)) {
		c.w.later()
	}
	return true
}

// Files returns the files of an instance, by name.
func (c *Cache) Files(id identity.ID) []File {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]File, len(c.files.names[id]))
	for i, name := range c.files.names[id] {
		out[i] = c.t.files.rows[fileKey{id, name}].file(id, name)
	}
	return out
}

// fileRow is what a row holds of a [File] beside its key: there are a few for each
// instance of the shard, so they are small.
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
	i, found := slices.BinarySearch(c.files.names[id], name)
	if !found {
		return
	}
	c.files.names[id] = slices.Delete(c.files.names[id], i, i+1)
	if c.t.files.drop(fileKey{id, name}) {
		c.w.later()
	}
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
		c.news(c.keys.put(id, name, publicKey{keys[name], now}))
	}
	return true
}

// PublicKeys returns the public keys of an instance, by name and in PEM.
func (c *Cache) PublicKeys(id identity.ID) map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make(map[string]string, len(c.keys.names[id]))
	for _, name := range c.keys.names[id] {
		out[name] = c.t.keys.rows[fileKey{id, name}].pem
	}
	return out
}
