package configs

import (
	"encoding/json"
	"maps"
	"slices"
)

func sortedKeys(o object) []string { return slices.Sorted(maps.Keys(o)) }

// clone copies a value, so that a document has no part twice.
func clone(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // it came out of a document
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}
