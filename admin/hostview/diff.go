package hostview

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Difference is one field that two templates have differently.
type Difference struct {
	// Field by its path: kubernetes.version, or machine.files[/etc/motd].content.
	Field string `json:"field"`
	// From and To are the values; nil: the template does not have the field.
	From any `json:"from"`
	To   any `json:"to"`
}

// Diff returns the fields that differ between two templates, by their paths in order. Entries of a list are
// compared by what names them, where something does.
func Diff(from, to *hostsv1.Template) ([]Difference, error) {
	a, err := tree(from)
	if err != nil {
		return nil, err
	}
	b, err := tree(to)
	if err != nil {
		return nil, err
	}
	all := map[string]*Difference{}
	for path, value := range a {
		all[path] = &Difference{Field: path, From: value}
	}
	for path, value := range b {
		if all[path] == nil {
			all[path] = &Difference{Field: path}
		}
		all[path].To = value
	}
	differences := []Difference{}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if d := all[path]; d.From != d.To { // leaves are strings, numbers, booleans or nil
			differences = append(differences, *d)
		}
	}
	return differences, nil
}

// tree returns the leaves of a template by their paths.
func tree(t *hostsv1.Template) (map[string]any, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode template: %w", err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, fmt.Errorf("decode template: %w", err)
	}
	leaves := map[string]any{}
	collect(leaves, "", value)
	return leaves, nil
}

func collect(leaves map[string]any, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			collect(leaves, join(path, key), v)
		}
	case []any:
		named := map[string]int{}
		for i, v := range value {
			name := entry(v, i)
			if named[name]++; named[name] > 1 { // such as taints with the same key
				name += "#" + strconv.Itoa(named[name])
			}
			collect(leaves, path+"["+name+"]", v)
		}
	default:
		leaves[path] = value
	}
}

func join(path, key string) string {
	if strings.ContainsAny(key, "./[]") { // such as the name of a sysctl or a label
		return path + "[" + key + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// entry is what names an entry of a list: one of its fields, the text itself, or its place.
func entry(v any, place int) string {
	if text, ok := v.(string); ok {
		return text
	}
	if fields, ok := v.(map[string]any); ok {
		for _, key := range []string{"name", "path", "target", "host", "user", "key"} {
			if text, ok := fields[key].(string); ok {
				return text
			}
		}
	}
	return strconv.Itoa(place)
}

// Lines prints differences: a field a line, and texts of several lines line by line.
func Lines(differences []Difference) []Line {
	var lines []Line
	for _, d := range differences {
		from, to := text(d.From), text(d.To)
		switch {
		case strings.Contains(from, "\n") || strings.Contains(to, "\n"):
			lines = append(lines, Line{0, "~ " + d.Field + ":"})
			for _, line := range changed(split(from), split(to)) {
				lines = append(lines, Line{1, line})
			}
		case d.From == nil:
			lines = append(lines, Line{0, fmt.Sprintf("+ %s: %s", d.Field, to)})
		case d.To == nil:
			lines = append(lines, Line{0, fmt.Sprintf("- %s: %s", d.Field, from)})
		default:
			lines = append(lines, Line{0, fmt.Sprintf("~ %s: %s -> %s", d.Field, from, to)})
		}
	}
	return lines
}

func text(v any) string {
	if v == nil {
		return ""
	}
	if text, ok := v.(string); ok {
		return text
	}
	return fmt.Sprint(v)
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// changed returns the lines that go and come, each part of them in its order, without what both texts begin and
// end with.
func changed(from, to []string) []string {
	first := 0
	for first < min(len(from), len(to)) && from[first] == to[first] {
		first++
	}
	from, to = from[first:], to[first:]
	for len(from) > 0 && len(to) > 0 && from[len(from)-1] == to[len(to)-1] {
		from, to = from[:len(from)-1], to[:len(to)-1]
	}
	lines := []string{fmt.Sprintf("@ line %d", first+1)}
	for _, line := range from {
		lines = append(lines, "- "+line)
	}
	for _, line := range to {
		lines = append(lines, "+ "+line)
	}
	return lines
}
