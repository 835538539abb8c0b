package render

import (
	"maps"
	"slices"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/texttemplate"
)

// Images returns the keys of the images that the arguments of a create call and
// the user data name, each once, those of the arguments first. For user data of
// source "url" fetched is what was found at the address.
func Images(args map[string]any, u document.Userdata, fetched []byte) ([]string, error) {
	named, err := imagesIn(nil, args)
	if err != nil {
		return nil, err
	}
	raw := []byte(u.Content)
	if u.Source == document.SourceURL {
		raw = fetched
	}
	text, err := u.Decode(raw)
	if err != nil {
		return nil, &Error{Place: "userdata", Err: err}
	}
	if named, err = imagesIn(named, text); err != nil {
		return nil, err
	}
	var keys []string
	for _, key := range named {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// imagesIn adds the keys that the strings in v name, at any depth.
func imagesIn(keys []string, v any) ([]string, error) {
	var err error
	switch v := v.(type) {
	case string:
		t, err := texttemplate.Parse("template", v)
		if err != nil {
			return nil, err
		}
		return append(keys, t.Images()...), nil
	case []any:
		for _, value := range v {
			if keys, err = imagesIn(keys, value); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if keys, err = imagesIn(keys, v[name]); err != nil {
				return nil, err
			}
		}
	}
	return keys, nil
}
