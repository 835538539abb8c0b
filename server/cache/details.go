package cache

import (
	"cmp"
	"slices"
	"strings"

	"nstance.dev/protos/identity"
)

// details is a table of what instances have by name. There are a few rows for each
// instance of the shard, so they are kept in one slice for each: a map of all of them
// takes twice the memory. Its owner's lock guards it.
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
