package cache

import (
	"maps"
	"slices"

	"nstance.dev/protos/identity"
)

// PutFile sets the state of a file at an instance; times count in milliseconds. It
// returns false, and keeps nothing, for an instance that is not in the cache. As
// with reports, nobody reads it from the file in a hurry.
func (t *instances) PutFile(f File) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.table.rows[f.Instance]; !ok {
		return false
	}
	t.news.later(t.files.put(f.Instance, f.Name, rowOf(f)))
	return true
}

// Files returns the files of an instance, by name.
func (t *instances) Files(id identity.ID) []File {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]File, len(t.files.rows[id]))
	for i, r := range t.files.rows[id] {
		out[i] = r.row.file(id, r.name)
	}
	return out
}

// DropFile forgets one file of an instance.
func (t *instances) DropFile(id identity.ID, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news.later(t.files.dropOne(id, name))
}

// PutPublicKeys adds public keys to those that an instance has, by name and in
// PEM. It returns false, and keeps nothing, for an instance that is not in the
// cache.
func (t *instances) PutPublicKeys(id identity.ID, keys map[string]string) bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.table.rows[id]; !ok {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		t.news.add(t.keys.put(id, name, publicKey{keys[name], now}))
	}
	return true
}

// PublicKeys returns the public keys of an instance, by name and in PEM.
func (t *instances) PublicKeys(id identity.ID) map[string]string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[string]string, len(t.keys.rows[id]))
	for _, r := range t.keys.rows[id] {
		out[r.name] = r.row.pem
	}
	return out
}
