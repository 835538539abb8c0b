package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/texttemplate"
)

// The data of templates, by the names of this package.
type (
	// Data is what templates can refer to.
	Data = texttemplate.Data
	// Instance is the machine that is rendered for.
	Instance = texttemplate.Instance
	// Cluster is the cluster that the machine belongs to.
	Cluster = texttemplate.Cluster
	// Server is how the machine reaches its shard.
	Server = texttemplate.Server
	// Provider is the cloud that the machine lives in.
	Provider = texttemplate.Provider
)

// Limits of what is rendered, in bytes.
const (
	MaxUserdata = document.MaxUserdata
	MaxFile     = 3 << 20
	maxArg      = 1 << 20 // of one string
)

// Error says which place could not be rendered, and why.
type Error struct {
	Place string // such as userdata, args.Labels.role or files["kubelet.env"]
	Err   error
}

// Error names the place and the reason.
func (e *Error) Error() string {
	if t := new(texttemplate.Error); errors.As(e.Err, &t) {
		return "render " + t.Error() // it names the place itself
	}
	return "render " + e.Place + ": " + e.Err.Error()
}

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// Userdata decodes and renders user data. For source "url" fetched is what was
// found at the address; else it is not looked at. No user data at all gives
// nothing. A limit of 0, or above [MaxUserdata], is [MaxUserdata].
func Userdata(u document.Userdata, fetched []byte, data Data, limit int) ([]byte, error) {
	raw := []byte(u.Content)
	if u.Source == document.SourceURL {
		raw = fetched
	}
	text, err := u.Decode(raw)
	if err != nil {
		return nil, &Error{Place: "userdata", Err: err}
	}
	if limit <= 0 || limit > MaxUserdata {
		limit = MaxUserdata
	}
	out, err := execute("userdata", text, data, texttemplate.Userdata, limit)
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(out, 0) {
		return nil, &Error{Place: "userdata", Err: errors.New("the output contains a NUL")}
	}
	return []byte(out), nil
}

// Args renders every string in the arguments of a create call, at any depth.
// Keys and all other values stay as they are.
func Args(args map[string]any, data Data) (map[string]any, error) {
	if args == nil {
		return nil, nil
	}
	out, err := tree("args", args, data, texttemplate.Args, maxArg)
	if err != nil {
		return nil, err
	}
	return out.(map[string]any), nil
}

func execute(place, text string, data Data, scope texttemplate.Scope, limit int) (string, error) {
	t, err := texttemplate.Parse(place, text)
	if err != nil {
		return "", &Error{Place: place, Err: err}
	}
	out, err := t.Execute(data, scope, limit)
	if err != nil {
		return "", &Error{Place: place, Err: err}
	}
	return out, nil
}

// tree gives a copy of v with its strings rendered.
func tree(place string, v any, data Data, scope texttemplate.Scope, limit int) (any, error) {
	switch v := v.(type) {
	case string:
		return execute(place, v, data, scope, limit)
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			rendered, err := tree(fmt.Sprintf("%s[%d]", place, i), value, data, scope, limit)
			if err != nil {
				return nil, err
			}
			out[i] = rendered
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) { // the first error is always the same one
			rendered, err := tree(place+"."+key, v[key], data, scope, limit)
			if err != nil {
				return nil, err
			}
			out[key] = rendered
		}
		return out, nil
	}
	return v, nil
}

// indented is v as JSON for people, with a line break at its end.
func indented(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
