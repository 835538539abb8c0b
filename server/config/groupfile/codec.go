package groupfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
)

// Decode reads a group file. The name is for errors. A file of a newer
// version is [ErrNewer], one that can't be read [ErrUnreadable]; neither means
// that there are no groups.
func Decode(name string, data []byte) (*File, error) {
	plain, err := jsonc.Standard(name, data)
	if err != nil {
		return nil, fmt.Errorf("group file %s: %w: %w", name, ErrUnreadable, err)
	}
	var head struct {
		V *int `json:"v"`
	}
	if err := json.Unmarshal(plain, &head); err != nil {
		return nil, fmt.Errorf("group file %s: %w: %w", name, ErrUnreadable, err)
	}
	switch {
	case head.V == nil || *head.V < 1:
		return nil, fmt.Errorf("group file %s: %w: it has no version", name, ErrUnreadable)
	case *head.V > Version:
		return nil, fmt.Errorf("group file %s: %w: version %d, known is %d", name, ErrNewer, *head.V, Version)
	}
	file := new(File)
	if err := json.Unmarshal(plain, file); err != nil {
		return nil, fmt.Errorf("group file %s: %w: %w", name, ErrUnreadable, err)
	}
	if file.Term < 0 {
		return nil, fmt.Errorf("group file %s: %w: negative term", name, ErrUnreadable)
	}
	return file, nil
}

// Clone gives a copy that shares no group entry with f, so that one may be
// changed while others still read the other. What an entry points to is shared:
// replace it, don't change it.
func (f *File) Clone() *File {
	c := *f
	c.Groups = make(map[string]map[string]*Entry, len(f.Groups))
	for tenant, groups := range f.Groups {
		c.Groups[tenant] = maps.Clone(groups)
	}
	c.texts, c.changed, c.before = f.texts.clone(), nil, nil
	return &c
}

// Changed gives the groups whose entries were set or removed since the file was
// cloned, in no order.
func (f *File) Changed() []document.GroupKey { return slices.Collect(maps.Keys(f.changed)) }

// change notes that an entry is not what it was.
func (f *File) change(tenant, key string, old *Entry) {
	if f.changed == nil {
		f.changed = map[document.GroupKey]bool{}
	}
	f.changed[document.GroupKey{Tenant: tenant, Group: key}] = true
	f.before.note(document.GroupKey{Tenant: tenant, Group: key}, old)
	f.texts.change(tenant, key, f.Groups[tenant][key] != nil)
}

// Group gives the entry of a group.
func (f *File) Group(tenant, key string) (Entry, bool) {
	if f == nil {
		return Entry{}, false
	}
	g, ok := f.Groups[tenant][key]
	if !ok {
		return Entry{}, false
	}
	return *g, true
}

// Len is how many groups of a tenant have an entry.
func (f *File) Len(tenant string) int {
	if f == nil {
		return 0
	}
	return len(f.Groups[tenant])
}

// Set puts the entry of a group in place.
func (f *File) Set(tenant, key string, g Entry) {
	if f.Groups == nil {
		f.Groups = map[string]map[string]*Entry{}
	}
	if f.Groups[tenant] == nil {
		f.Groups[tenant] = map[string]*Entry{}
	}
	old := f.Groups[tenant][key]
	f.Groups[tenant][key] = &g
	f.change(tenant, key, old)
}

// Remove takes the entry of a group out.
func (f *File) Remove(tenant, key string) {
	old := f.Groups[tenant][key]
	delete(f.Groups[tenant], key)
	f.change(tenant, key, old)
	if len(f.Groups[tenant]) == 0 {
		delete(f.Groups, tenant)
	}
}

// Equal says whether two entries mean the same.
func (g Entry) Equal(other Entry) bool {
	a, errA := json.Marshal(g)
	b, errB := json.Marshal(other)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// MarshalJSON writes the file with the fields that were not known.
func (f File) MarshalJSON() ([]byte, error) {
	type plain File
	f.V = Version
	if f.Groups == nil {
		f.Groups = map[string]map[string]*Entry{}
	}
	return encodeKeeping(plain(f), f.extra)
}

// UnmarshalJSON reads the file and keeps the fields that are not known.
func (f *File) UnmarshalJSON(data []byte) error {
	type plain File
	if err := decodeInto(data, (*plain)(f), &f.extra); err != nil {
		return err
	}
	for tenant, groups := range f.Groups {
		for key, g := range groups {
			if g == nil {
				return fmt.Errorf("group %s of tenant %s: %w", key, tenant, errNull)
			}
		}
	}
	return nil
}

// MarshalJSON writes the entry with the fields that were not known.
func (g Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	return encodeKeeping(plain(g), g.extra)
}

// UnmarshalJSON reads the entry and keeps the fields that are not known.
func (g *Entry) UnmarshalJSON(data []byte) error {
	type plain Entry
	return decodeInto(data, (*plain)(g), &g.extra)
}

// MarshalJSON writes the pause with the fields that were not known.
func (p Pause) MarshalJSON() ([]byte, error) {
	type plain Pause
	return encodeKeeping(plain(p), p.extra)
}

// UnmarshalJSON reads the pause and keeps the fields that are not known.
func (p *Pause) UnmarshalJSON(data []byte) error {
	type plain Pause
	return decodeInto(data, (*plain)(p), &p.extra)
}

// MarshalJSON writes the group with the fields that were not known.
func (g StaticGroup) MarshalJSON() ([]byte, error) {
	type plain StaticGroup
	return encodeKeeping(plain(g), g.extra)
}

// UnmarshalJSON reads the group and keeps the fields that are not known.
func (g *StaticGroup) UnmarshalJSON(data []byte) error {
	type plain StaticGroup
	return decodeInto(data, (*plain)(g), &g.extra)
}

var errNull = errors.New("null where an object belongs")

func decodeInto(data []byte, known any, extra *map[string]json.RawMessage) error {
	if string(data) == "null" {
		return errNull
	}
	reflect.ValueOf(known).Elem().SetZero()
	kept, err := decodeKeeping(data, known)
	*extra = kept
	return err
}

// Origin is what the record of an instance keeps of its group's entry, so that the
// entry can be rebuilt: all but what is counted (the size), named (retired) or
// asked for (a deletion). It serves the instance, too, if it outlives its group.
func (g Entry) Origin() Entry {
	g.Size, g.Retired, g.DeletedAt, g.Rebuilt = nil, nil, nil, nil
	return g
}

// Confirm takes off an entry that it was rebuilt. False: it was not.
func (f *File) Confirm(tenant, key string) bool {
	entry, ok := f.Group(tenant, key)
	if !ok || entry.Rebuilt == nil {
		return false
	}
	entry.Rebuilt = nil
	if entry.Equal(Entry{}) {
		f.Remove(tenant, key)
	} else {
		f.Set(tenant, key, entry)
	}
	return true
}

// Types are the instance types that the entry sets, if any.
func (g *Entry) Types() []string {
	switch {
	case len(g.InstanceTypes) > 0:
		return g.InstanceTypes
	case g.InstanceType != "":
		return []string{g.InstanceType}
	}
	return nil
}
