package provider

import (
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// valueError is about a value that a message cannot hold.
type valueError struct {
	at   path.Path
	text string
}

// Error names the attribute.
func (e *valueError) Error() string { return e.at.String() + ": " + e.text }

// object is the attributes of an object by name.
type object = map[string]tftypes.Value

// attributesOf returns the attributes of an object; nil if it is null or not known.
func attributesOf(v tftypes.Value) object {
	all := object{}
	if v.IsNull() || !v.IsKnown() || v.As(&all) != nil {
		return nil
	}
	return all
}

// fill sets the fields of a message that an object has. What is null or not known stays unset, and so does a list or map of
// which one value is not known.
func fill(m protoreflect.Message, from object, at path.Path, fields []protoreflect.FieldDescriptor) error {
	for _, field := range fields {
		name := string(field.Name())
		v, ok := from[name]
		if !ok || v.IsNull() || !v.IsKnown() || simple(field) != nil && !v.IsFullyKnown() {
			continue
		}
		where := at.AtName(name)
		if at.Equal(path.Empty()) {
			where = path.Root(name)
		}
		if err := fillField(m, field, v, where); err != nil {
			return err
		}
	}
	return nil
}

func fillField(m protoreflect.Message, field protoreflect.FieldDescriptor, v tftypes.Value, at path.Path) error {
	switch {
	case field.IsMap():
		values := m.Mutable(field).Map()
		entries := object{}
		if err := v.As(&entries); err != nil {
			return &valueError{at, err.Error()}
		}
		for name, entry := range entries {
			value, err := scalarValue(field.MapValue(), entry, at.AtMapKey(name))
			if err != nil {
				return err
			}
			values.Set(protoreflect.ValueOfString(name).MapKey(), value)
		}
		return nil
	case field.IsList():
		return fillList(m.Mutable(field).List(), field, v, at)
	case field.Kind() != protoreflect.MessageKind:
		value, err := scalarValue(field, v, at)
		if err == nil {
			m.Set(field, value)
		}
		return err
	}
	switch field.Message().FullName() {
	case messageDuration:
		var text string
		if err := v.As(&text); err != nil {
			return &valueError{at, err.Error()}
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return &valueError{at, fmt.Sprintf("%q must be a span of time such as 90s or 1h30m", text)}
		}
		m.Set(field, protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()))
		return nil
	case messageMap, messageList: // their one field has the values
		inner := m.Mutable(field).Message()
		return fillField(inner, field.Message().Fields().ByName("values"), v, at)
	}
	return fill(m.Mutable(field).Message(), attributesOf(v), at, fieldsOf(field.Message()))
}

func fillList(values protoreflect.List, field protoreflect.FieldDescriptor, v tftypes.Value, at path.Path) error {
	var entries []tftypes.Value
	if err := v.As(&entries); err != nil {
		return &valueError{at, err.Error()}
	}
	for i, entry := range entries {
		if field.Kind() == protoreflect.MessageKind {
			if err := fill(values.AppendMutable().Message(), attributesOf(entry), at.AtListIndex(i), fieldsOf(field.Message())); err != nil {
				return err
			}
			continue
		}
		value, err := scalarValue(field, entry, at.AtListIndex(i))
		if err != nil {
			return err
		}
		values.Append(value)
	}
	return nil
}

func scalarValue(field protoreflect.FieldDescriptor, v tftypes.Value, at path.Path) (protoreflect.Value, error) {
	if v.IsNull() {
		return protoreflect.Value{}, &valueError{at, "must not be null"}
	}
	switch field.Kind() {
	case protoreflect.BoolKind:
		var b bool
		err := v.As(&b)
		return protoreflect.ValueOfBool(b), err
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		n := new(big.Float)
		if err := v.As(n); err != nil {
			return protoreflect.Value{}, &valueError{at, err.Error()}
		}
		i, accuracy := n.Int64()
		if accuracy != big.Exact {
			return protoreflect.Value{}, &valueError{at, "must be a whole number"}
		}
		if field.Kind() == protoreflect.Int64Kind {
			return protoreflect.ValueOfInt64(i), nil
		}
		if i < math.MinInt32 || i > math.MaxInt32 {
			return protoreflect.Value{}, &valueError{at, fmt.Sprintf("%d is too large", i)}
		}
		return protoreflect.ValueOfInt32(int32(i)), nil
	default:
		var s string
		err := v.As(&s)
		return protoreflect.ValueOfString(s), err
	}
}

// read returns the fields of a message as attributes of the given types.
func read(m protoreflect.Message, t tftypes.Object, fields []protoreflect.FieldDescriptor) object {
	all := object{}
	for _, field := range fields {
		name := string(field.Name())
		all[name] = readField(m, field, t.AttributeTypes[name])
	}
	return all
}

// readField is null for what is not set, and for zero where a message cannot say the difference.
func readField(m protoreflect.Message, field protoreflect.FieldDescriptor, t tftypes.Type) tftypes.Value {
	if !m.Has(field) {
		return tftypes.NewValue(t, nil)
	}
	v := m.Get(field)
	switch {
	case field.IsMap():
		values := object{}
		of := t.(tftypes.Map).ElementType //nolint:forcetypeassert // the schema is made of the field
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			values[k.String()] = readScalar(v, of)
			return true
		})
		return tftypes.NewValue(t, values)
	case field.IsList():
		var values []tftypes.Value
		of := t.(tftypes.List).ElementType //nolint:forcetypeassert // as above
		for i := range v.List().Len() {
			if field.Kind() == protoreflect.MessageKind {
				values = append(values, readMessage(v.List().Get(i).Message(), of))
			} else {
				values = append(values, readScalar(v.List().Get(i), of))
			}
		}
		return tftypes.NewValue(t, values)
	case field.Kind() == protoreflect.MessageKind:
		return readMessage(v.Message(), t)
	}
	return readScalar(v, t)
}

func readMessage(m protoreflect.Message, t tftypes.Type) tftypes.Value {
	switch message := m.Interface().(type) {
	case *durationpb.Duration:
		return tftypes.NewValue(t, message.AsDuration().String())
	case *timestamppb.Timestamp:
		return tftypes.NewValue(t, message.AsTime().UTC().Format(time.RFC3339))
	}
	switch m.Descriptor().FullName() {
	case messageMap, messageList:
		field := m.Descriptor().Fields().ByName("values")
		if !m.Has(field) { // present, and empty
			if t.Is(tftypes.Map{}) {
				return tftypes.NewValue(t, object{})
			}
			return tftypes.NewValue(t, []tftypes.Value{})
		}
		return readField(m, field, t)
	}
	return tftypes.NewValue(t, read(m, t.(tftypes.Object), fieldsOf(m.Descriptor()))) //nolint:forcetypeassert // as above
}

func readScalar(v protoreflect.Value, t tftypes.Type) tftypes.Value {
	switch value := v.Interface().(type) {
	case int32:
		return tftypes.NewValue(t, int64(value))
	default:
		return tftypes.NewValue(t, value)
	}
}

// same reports whether two messages say the same of a field. An empty message says nothing.
func same(a, b protoreflect.Message, field protoreflect.FieldDescriptor) bool {
	says := func(m protoreflect.Message) bool {
		return m.Has(field) && (field.Kind() != protoreflect.MessageKind || field.IsList() || field.IsMap() || proto.Size(m.Get(field).Message().Interface()) > 0)
	}
	return says(a) == says(b) && (!says(a) || a.Get(field).Equal(b.Get(field)))
}
