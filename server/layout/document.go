package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// version is the one that this program writes, and the newest that it reads.
const version = 1

var (
	// ErrNewer marks a document of a version that this program does not know.
	// It must be left as it is: what it says is not known, and not nothing.
	ErrNewer = errors.New("written by a newer version")
	// ErrUnreadable marks a document that is truncated, empty, or not what its
	// key promises. It must not be taken for absent.
	ErrUnreadable = errors.New("unreadable")
)

// DocumentError says which object cannot be used and why. It matches [ErrNewer]
// or [ErrUnreadable].
type DocumentError struct {
	Key string
	Err error
}

// Error names the key, the fault and the remedy, and quotes no content.
func (e *DocumentError) Error() string {
	remedy := "restore it from a backup, or delete it if the machine is gone"
	switch {
	case errors.Is(e.Err, ErrNewer):
		remedy = "upgrade this program"
	case strings.HasPrefix(e.Key, "snapshot/"):
		remedy = "nothing has to be done, the records themselves are read instead"
	}
	return fmt.Sprintf("object %q: %v; %s", e.Key, e.Err, remedy)
}

// Unwrap returns the fault.
func (e *DocumentError) Unwrap() error { return e.Err }

// documentError classes what [decode] or a check found.
func documentError(k string, err error) error {
	if !errors.Is(err, ErrNewer) {
		err = fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return &DocumentError{Key: k, Err: err}
}

func mismatch(member, got, want string) error {
	const most = 64
	return fmt.Errorf("member %s is %q, and the key says %q", member, got[:min(len(got), most)], want)
}

// unknown holds the members of one JSON object that this version does not know,
// and the unknown ones of the objects in it.
type unknown struct {
	members map[string]json.RawMessage
	nested  map[string]*unknown
}

func (u *unknown) empty() bool { return u == nil || len(u.members) == 0 && len(u.nested) == 0 }

// decode reads a document into the struct that v points to and returns what it
// could not place. The standard decoder would also take a name in another case
// for a known one; then a member could be both known and unknown.
func decode(data []byte, v any) (*unknown, error) {
	var object map[string]json.RawMessage
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("it is empty")
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("it is not a JSON object, or only a part of one (%d bytes)", len(data))
	}
	var v1 int64
	if err := json.Unmarshal(object["v"], &v1); err != nil || v1 < 1 {
		return nil, errors.New("member v is not a version")
	}
	if v1 > version {
		return nil, fmt.Errorf("%w: v is %d, the newest known is %d", ErrNewer, v1, version)
	}
	return decodeObject(object, reflect.ValueOf(v).Elem())
}

// decodeObject fills the struct into from object, of which it removes what it
// has used.
func decodeObject(object map[string]json.RawMessage, into reflect.Value) (*unknown, error) {
	u := &unknown{members: object}
	for i := range into.NumField() {
		name, known := memberName(into.Type().Field(i))
		raw, present := object[name]
		if !known || !present {
			continue
		}
		delete(object, name)
		nested, err := decodeMember(raw, into.Field(i))
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", name, err)
		}
		if !nested.empty() {
			if u.nested == nil {
				u.nested = make(map[string]*unknown)
			}
			u.nested[name] = nested
		}
	}
	return u, nil
}

func decodeMember(raw json.RawMessage, into reflect.Value) (*unknown, error) {
	if target, ok := objectTarget(raw, into); ok {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, errors.New("it is not an object")
		}
		return decodeObject(object, target)
	}
	if err := json.Unmarshal(raw, into.Addr().Interface()); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("it is a %s", strings.SplitN(e.Value, " ", 2)[0])
		}
		return nil, err
	}
	return nil, nil
}

// objectTarget returns the struct that raw is to be read into member by member:
// into or, allocated here, what into points to. Other values, times and null
// are for the standard decoder.
func objectTarget(raw json.RawMessage, into reflect.Value) (reflect.Value, bool) {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return into, false
	}
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	_, own := into.Addr().Interface().(json.Unmarshaler)
	return into, into.Kind() == reflect.Struct && !own
}

func memberName(f reflect.StructField) (name string, known bool) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	return name, name != ""
}

// encode writes v, with the members that were kept for it.
func encode(v any, u *unknown) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return u.restore(data), nil
}

// restore adds the unknown members to an encoded object. A known object that is
// gone takes its unknown members along.
func (u *unknown) restore(data []byte) []byte {
	var object map[string]json.RawMessage
	if u.empty() || json.Unmarshal(data, &object) != nil || object == nil {
		return data
	}
	for name, raw := range u.members {
		object[name] = raw
	}
	for name, nested := range u.nested {
		object[name] = nested.restore(object[name])
	}
	out, err := json.Marshal(object)
	if err != nil {
		return data // can't be: each part has been parsed before
	}
	return out
}
