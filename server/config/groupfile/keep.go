package groupfile

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// decodeKeeping reads data into known, and gives the members that known has no
// field for. Numbers in fields of type any become json.Number.
func decodeKeeping(data []byte, known any) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(known); err != nil {
		return nil, err
	}
	var extra map[string]json.RawMessage
	if err := json.Unmarshal(data, &extra); err != nil {
		return nil, err
	}
	names := fieldNames(reflect.TypeOf(known).Elem())
	for name := range extra {
		if names[strings.ToLower(name)] { // the decoder matches in any case, too
			delete(extra, name)
		}
	}
	if len(extra) == 0 {
		return nil, nil
	}
	return extra, nil
}

// encodeKeeping writes known and the members that it has no field for, with
// the keys in order.
func encodeKeeping(known any, extra map[string]json.RawMessage) ([]byte, error) {
	data, err := json.Marshal(known)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	for name, value := range extra {
		members[name] = value
	}
	return json.Marshal(members)
}

// fieldNames gives the names of a struct's fields in JSON, in lower case.
func fieldNames(t reflect.Type) map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "" {
			names[strings.ToLower(name)] = true
		}
	}
	return names
}
