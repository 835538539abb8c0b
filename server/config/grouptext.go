package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// EncodeGroups writes a group file in its one form: version 1, keys in order,
// indented, with the fields that were not known when it was read.
//
// A shard may have thousands of groups, and every change of one writes the file:
// the text of an entry is kept with the file and its clones until the entry
// changes, so that a change costs one entry and a copy of the rest.
func EncodeGroups(f *GroupFile) ([]byte, error) {
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
func (f *GroupFile) writeGroups(out *bytes.Buffer) error {
	return writeMembers(out, "  ", f.Groups, func(tenant string) error {
		return writeMembers(out, "    ", f.Groups[tenant], func(key string) error {
			text, err := f.text(tenant, key)
			out.Write(text)
			return err
		})
	})
}

// text is the entry of a group as the file shows it.
func (f *GroupFile) text(tenant, key string) ([]byte, error) {
	if text, ok := f.texts[GroupKey{tenant, key}]; ok {
		return text, nil
	}
	text, err := indented(f.Groups[tenant][key], "      ")
	if err != nil {
		return nil, fmt.Errorf("group %s of tenant %s: %w", key, tenant, err)
	}
	if f.texts == nil {
		f.texts = map[GroupKey][]byte{}
	}
	f.texts[GroupKey{tenant, key}] = text
	return text, nil
}

// writeMembers writes an object: its names in order, and what value writes for
// each. The object itself stands at the indent.
func writeMembers[V any](out *bytes.Buffer, indent string, members map[string]V, value func(name string) error) error {
	if len(members) == 0 {
		out.WriteString("{}")
		return nil
	}
	separator := "{\n"
	for _, name := range slices.Sorted(maps.Keys(members)) {
		quoted, err := json.Marshal(name)
		if err != nil {
			return err
		}
		out.WriteString(separator + indent + "  ")
		out.Write(quoted)
		out.WriteString(": ")
		if err := value(name); err != nil {
			return err
		}
		separator = ",\n"
	}
	out.WriteString("\n" + indent + "}")
	return nil
}
