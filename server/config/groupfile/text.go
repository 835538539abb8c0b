package groupfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Encode writes a group file in its one form: version 1, keys in order,
// indented, with the fields that were not known when it was read.
//
// A shard may have thousands of groups, and every change of one writes the file:
// the text of an entry is kept with the file and its clones until the entry
// changes, so that a change costs one entry and a copy of the rest. A file that
// would be too large to be read is [ErrTooLarge].
func Encode(f *File) ([]byte, error) {
	frame := *f
	frame.Groups = nil
	text, err := indented(frame, "")
	if err != nil {
		return nil, fmt.Errorf("encode group file: %w", err)
	}
	// Nothing else has these bytes: a string has no line break, and what is
	// deeper has more spaces.
	const empty = "\n  \"groups\": {}"
	before, after, found := bytes.Cut(text, []byte(empty))
	if !found {
		return nil, errors.New("encode group file: no place for the groups")
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString("\n  \"groups\": ")
	if err := f.writeGroups(&out); err != nil {
		return nil, fmt.Errorf("encode group file: %w", err)
	}
	out.Write(after)
	out.WriteByte('\n')
	if out.Len() > MaxBytes {
		return nil, fmt.Errorf("encode group file: %w", ErrTooLarge)
	}
	return out.Bytes(), nil
}

// indented is a value in JSON; the lines after the first begin with the prefix.
func indented(value any, prefix string) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, data, prefix, "  ")
	return out.Bytes(), err
}

// writeGroups writes the groups of all tenants, at the depth where the file has
// them.
func (f *File) writeGroups(out *bytes.Buffer) error {
	if f.texts == nil {
		f.texts = newGroupTexts(f.Groups)
	}
	if len(f.Groups) == 0 {
		out.WriteString("{}")
		return nil
	}
	separator := "{\n    "
	for _, tenant := range slices.Sorted(maps.Keys(f.Groups)) {
		name, err := json.Marshal(tenant)
		if err != nil {
			return err
		}
		out.WriteString(separator)
		out.Write(name)
		out.WriteString(": ")
		if err := f.texts[tenant].write(out, f.Groups[tenant]); err != nil {
			return fmt.Errorf("tenant %s: %w", tenant, err)
		}
		separator = ",\n    "
	}
	out.WriteString("\n  }")
	return nil
}

// groupTexts are the texts of the entries of a group file, by tenant. nil keeps
// none.
type groupTexts map[string]memberTexts

// memberTexts are the members of an object, in order.
type memberTexts []memberText

type memberText struct {
	key  string
	text []byte // name and value; nil: not encoded yet
}

func newGroupTexts(groups map[string]map[string]*Entry) groupTexts {
	texts := make(groupTexts, len(groups))
	for tenant, entries := range groups {
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			texts[tenant] = append(texts[tenant], memberText{key: key})
		}
	}
	return texts
}

func (t groupTexts) clone() groupTexts {
	c := maps.Clone(t)
	for tenant := range c {
		c[tenant] = slices.Clone(c[tenant])
	}
	return c
}

// change forgets the text of an entry, which may be new, or there no more.
func (t groupTexts) change(tenant, key string, there bool) {
	if t == nil {
		return
	}
	members := t[tenant]
	i, found := slices.BinarySearchFunc(members, key, func(m memberText, key string) int { return strings.Compare(m.key, key) })
	switch {
	case there && found:
		members[i].text = nil
	case there:
		t[tenant] = slices.Insert(members, i, memberText{key: key})
	case found:
		t[tenant] = slices.Delete(members, i, i+1)
	}
}

// write writes the object, and encodes what is not yet.
func (m memberTexts) write(out *bytes.Buffer, entries map[string]*Entry) error {
	if len(m) == 0 {
		out.WriteString("{}")
		return nil
	}
	for i := range m {
		if m[i].text == nil {
			if err := m[i].encode(entries[m[i].key]); err != nil {
				return fmt.Errorf("group %s: %w", m[i].key, err)
			}
		}
		if i == 0 {
			out.WriteString("{\n      ")
		} else {
			out.WriteString(",\n      ")
		}
		out.Write(m[i].text)
	}
	out.WriteString("\n    }")
	return nil
}

func (m *memberText) encode(entry *Entry) error {
	name, err := json.Marshal(m.key)
	if err != nil {
		return err
	}
	value, err := indented(entry, "      ")
	if err != nil {
		return err
	}
	m.text = slices.Concat(name, []byte(": "), value)
	return nil
}
