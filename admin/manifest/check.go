package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// check says what is wrong with the members of an object that is to become a
// message, and brings the short forms of maps and lists into the message's own.
// The decoder would stop at the first problem and tell a place in a text that
// nobody has written.
func check(message protoreflect.MessageDescriptor, path string, object map[string]any) []error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field := message.Fields().ByName(protoreflect.Name(name))
		if field == nil {
			problems = append(problems, fmt.Errorf("%s: unknown field%s", path+name, known(message)))
			continue
		}
		value, more := checkValue(field, path+name, object[name])
		object[name] = value
		problems = append(problems, more...)
	}
	return problems
}

func known(message protoreflect.MessageDescriptor) string {
	var names []string
	for i := range message.Fields().Len() {
		names = append(names, string(message.Fields().Get(i).Name()))
	}
	return "; known are " + strings.Join(names, ", ")
}

func checkValue(field protoreflect.FieldDescriptor, path string, value any) (any, []error) {
	if value == nil {
		return nil, []error{fmt.Errorf("%s: it has no value; leave it out to keep what is set", path)}
	}
	if field.IsList() {
		return checkList(field, path, value)
	}
	return checkOne(field, path, value)
}

func checkList(field protoreflect.FieldDescriptor, path string, value any) (any, []error) {
	list, ok := value.([]any)
	if !ok {
		return value, []error{fmt.Errorf("%s: it must be a list, not %s", path, describe(value))}
	}
	var problems []error
	for i, element := range list {
		checked, more := checkOne(field, fmt.Sprintf("%s[%d]", path, i), element)
		list[i] = checked
		problems = append(problems, more...)
	}
	return list, problems
}

func checkOne(field protoreflect.FieldDescriptor, path string, value any) (any, []error) {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return checkMessage(field.Message(), path, value)
	case protoreflect.BoolKind:
		if _, ok := value.(bool); !ok {
			return value, []error{fmt.Errorf("%s: it must be true or false, not %s", path, describe(value))}
		}
	case protoreflect.Int32Kind:
		if !isInt32(value) {
			return value, []error{fmt.Errorf("%s: it must be a whole number, not %s", path, describe(value))}
		}
	case protoreflect.StringKind:
		if _, ok := value.(string); !ok {
			return value, []error{fmt.Errorf("%s: it must be a text, not %s; put it in quotes", path, describe(value))}
		}
	}
	return value, nil
}

// checkMessage reads a map or list of texts in its short form, as the server
// shows it, or wrapped into values, as the message has it.
func checkMessage(message protoreflect.MessageDescriptor, path string, value any) (any, []error) {
	object, isObject := value.(map[string]any)
	switch message.Name() {
	case "StringMap":
		if inner, ok := object["values"].(map[string]any); ok && len(object) == 1 {
			object = inner
		}
		if !isObject {
			return value, []error{fmt.Errorf("%s: it must be an object, not %s", path, describe(value))}
		}
		texts, err := textMap(object)
		return map[string]any{"values": texts}, prefixed(path, err)
	case "StringList":
		if inner, ok := object["values"]; ok && len(object) == 1 {
			value = inner
		}
		list, ok := value.([]any)
		if !ok {
			return value, []error{fmt.Errorf("%s: it must be a list, not %s", path, describe(value))}
		}
		for i, element := range list {
			if _, ok := element.(string); !ok {
				return value, []error{fmt.Errorf("%s[%d]: it must be a text, not %s", path, i, describe(element))}
			}
		}
		return map[string]any{"values": list}, nil
	}
	if !isObject {
		return value, []error{fmt.Errorf("%s: it must be an object, not %s", path, describe(value))}
	}
	return object, check(message, path+".", object)
}

// textMap makes texts of the values: those that are none become their JSON,
// which is how the server reads arguments.
func textMap(object map[string]any) (map[string]any, error) {
	texts := make(map[string]any, len(object))
	for name, value := range object {
		if text, ok := value.(string); ok {
			texts[name] = text
			continue
		}
		if value == nil {
			return nil, fmt.Errorf("%s: it has no value", name)
		}
		data, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		texts[name] = string(data)
	}
	return texts, nil
}

func prefixed(path string, err error) []error {
	if err == nil {
		return nil
	}
	return []error{fmt.Errorf("%s.%w", path, err)}
}

func isInt32(value any) bool {
	number, ok := value.(json.Number)
	if !ok {
		return false
	}
	n, err := number.Int64()
	return err == nil && n >= math.MinInt32 && n <= math.MaxInt32
}

func describe(value any) string {
	switch v := value.(type) {
	case string:
		return "a text"
	case bool:
		return "true or false"
	case json.Number:
		return "the number " + v.String()
	case []any:
		return "a list"
	}
	return "an object"
}
