package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/reflect/protoreflect"

	data "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// Names of messages that stand for a value of OpenTofu rather than for an object.
const (
	messageDuration  = "google.protobuf.Duration"
	messageTimestamp = "google.protobuf.Timestamp"
	messageMap       = "nstance.v1.StringMap"
	messageList      = "nstance.v1.StringList"
)

// describe is what the API's reference says of a field.
func describe(field protoreflect.FieldDescriptor) string {
	return descriptions[string(field.Parent().Name())+"."+string(field.Name())]
}

// fieldsOf returns the fields of a message in their order, without those that are left out.
func fieldsOf(message protoreflect.MessageDescriptor, without ...protoreflect.Name) []protoreflect.FieldDescriptor {
	var fields []protoreflect.FieldDescriptor
	all := message.Fields()
next:
	for i := range all.Len() {
		for _, name := range without {
			if all.Get(i).Name() == name {
				continue next
			}
		}
		fields = append(fields, all.Get(i))
	}
	return fields
}

// simple is the type of a field that is no object of its own; nil: it is one.
func simple(field protoreflect.FieldDescriptor) attr.Type {
	if field.IsMap() {
		return types.MapType{ElemType: scalar(field.MapValue())}
	}
	if field.Kind() == protoreflect.MessageKind {
		switch field.Message().FullName() {
		case messageDuration, messageTimestamp:
			return types.StringType
		case messageMap:
			return types.MapType{ElemType: types.StringType}
		case messageList:
			return types.ListType{ElemType: types.StringType}
		}
		return nil
	}
	if field.IsList() {
		return types.ListType{ElemType: scalar(field)}
	}
	return scalar(field)
}

func scalar(field protoreflect.FieldDescriptor) attr.Type {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return types.BoolType
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return types.Int64Type
	case protoreflect.DoubleKind:
		return types.Float64Type
	default:
		return types.StringType
	}
}

// resourceAttribute is a field that a configuration may set.
func resourceAttribute(field protoreflect.FieldDescriptor) resource.Attribute {
	text := describe(field)
	switch t := simple(field).(type) {
	case types.MapType:
		return resource.MapAttribute{ElementType: t.ElemType, Optional: true, MarkdownDescription: text}
	case types.ListType:
		return resource.ListAttribute{ElementType: t.ElemType, Optional: true, MarkdownDescription: text}
	case nil:
		nested := map[string]resource.Attribute{}
		for _, f := range fieldsOf(field.Message()) {
			nested[string(f.Name())] = resourceAttribute(f)
		}
		if field.IsList() {
			return resource.ListNestedAttribute{NestedObject: resource.NestedAttributeObject{Attributes: nested}, Optional: true, MarkdownDescription: text}
		}
		return resource.SingleNestedAttribute{Attributes: nested, Optional: true, MarkdownDescription: text}
	default:
		switch t {
		case types.BoolType:
			return resource.BoolAttribute{Optional: true, MarkdownDescription: text}
		case types.Int64Type:
			return resource.Int64Attribute{Optional: true, MarkdownDescription: text}
		}
		return resource.StringAttribute{Optional: true, MarkdownDescription: text}
	}
}

// dataAttribute is a field that is read.
func dataAttribute(field protoreflect.FieldDescriptor) data.Attribute {
	text := describe(field)
	switch t := simple(field).(type) {
	case types.MapType:
		return data.MapAttribute{ElementType: t.ElemType, Computed: true, MarkdownDescription: text}
	case types.ListType:
		return data.ListAttribute{ElementType: t.ElemType, Computed: true, MarkdownDescription: text}
	case nil:
		nested := dataAttributes(fieldsOf(field.Message()))
		if field.IsList() {
			return data.ListNestedAttribute{NestedObject: data.NestedAttributeObject{Attributes: nested}, Computed: true, MarkdownDescription: text}
		}
		return data.SingleNestedAttribute{Attributes: nested, Computed: true, MarkdownDescription: text}
	default:
		switch t {
		case types.BoolType:
			return data.BoolAttribute{Computed: true, MarkdownDescription: text}
		case types.Int64Type:
			return data.Int64Attribute{Computed: true, MarkdownDescription: text}
		case types.Float64Type:
			return data.Float64Attribute{Computed: true, MarkdownDescription: text}
		}
		return data.StringAttribute{Computed: true, MarkdownDescription: text}
	}
}

func dataAttributes(fields []protoreflect.FieldDescriptor) map[string]data.Attribute {
	all := map[string]data.Attribute{}
	for _, f := range fields {
		all[string(f.Name())] = dataAttribute(f)
	}
	return all
}
