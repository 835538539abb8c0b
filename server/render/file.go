package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/texttemplate"
	"nstance.dev/server/layout"
)

// File renders a file of kind env, json or string. The other kinds have no text
// of their own: for certificates see [Certificate], for storage [StorageKey].
// More than [MaxFile] bytes are an error.
func File(name string, f document.File, data Data) ([]byte, error) {
	place := fmt.Sprintf("files[%q]", name)
	var out []byte
	rendered, err := tree(place, f.Template, data, texttemplate.Files, MaxFile)
	if err != nil {
		return nil, err
	}
	switch value := rendered.(type) {
	case string:
		if f.Kind == document.FileString {
			out = []byte(value)
			break
		}
		out, err = written(f.Kind, value)
	default:
		out, err = written(f.Kind, value)
	}
	switch {
	case err != nil:
		return nil, &Error{Place: place, Err: err}
	case len(out) > MaxFile:
		return nil, &Error{Place: place, Err: fmt.Errorf("the output is larger than %d bytes", MaxFile)}
	}
	return out, nil
}

// SameForAll reports whether every instance with the same variables gets the same
// text, or the same key of an object, from a file. False is always safe. It is
// false for a file that does not render.
func SameForAll(f document.File) bool {
	if f.Kind == document.FileStorage {
		return sameForAll(f.Source)
	}
	return sameForAll(f.Template)
}

func sameForAll(v any) bool {
	switch v := v.(type) {
	case string:
		t, err := texttemplate.Parse("", v)
		return err == nil && t.SameForAll()
	case []any:
		return !slices.ContainsFunc(v, func(one any) bool { return !sameForAll(one) })
	case map[string]any:
		for _, one := range v {
			if !sameForAll(one) {
				return false
			}
		}
	}
	return true
}

// written gives the text of a file whose template is a value.
func written(kind string, value any) ([]byte, error) {
	switch kind {
	case document.FileJSON:
		return indented(value)
	case document.FileEnv:
		variables, ok := value.(map[string]any)
		if !ok {
			return nil, errors.New("the template is not an object of strings")
		}
		return environment(variables)
	}
	return nil, fmt.Errorf("a file of kind %q has no text of its own", kind)
}

// environment is a line KEY=value for each variable, in order.
func environment(variables map[string]any) ([]byte, error) {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		value, ok := variables[name].(string)
		if !ok {
			return nil, fmt.Errorf("the value of %s is not a string", name)
		}
		out.WriteString(name + "=" + envValue(value) + "\n")
	}
	return []byte(out.String()), nil
}

var envEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`", "\n", `\n`, "\r", `\r`)

// envValue quotes a value where a reader of the file, a shell or systemd, would
// else take it for something else.
func envValue(s string) string {
	if !strings.ContainsAny(s, " \t\r\n\v\f\"'`#$\\;&|<>()*?[]{}~!") {
		return s
	}
	return `"` + envEscapes.Replace(s) + `"`
}

// StorageKey renders the key of the object that a file of kind storage comes
// from. It must be one of the sources: what a template made of it counts, not
// what stood in the configuration.
func StorageKey(name string, f document.File, data Data, sources layout.FileSources) (string, error) {
	place := fmt.Sprintf("files[%q].source", name)
	key, err := execute(place, f.Source, data, texttemplate.Files, 1024)
	if err != nil {
		return "", err
	}
	if err := sources.Check(key); err != nil {
		return "", &Error{Place: place, Err: fmt.Errorf("the output: %w", err)}
	}
	return key, nil
}
