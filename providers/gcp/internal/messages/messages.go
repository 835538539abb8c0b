// Package messages describes the messages of the API that an instance is made of, from the
// SDK's own.
package messages

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	compute "cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// File gives the description as JSON: a file of the wire format's own descriptors, of the
// instance and of all that it can hold.
func File() ([]byte, error) {
	reached := map[protoreflect.FullName]*descriptorpb.DescriptorProto{}
	instance := (&compute.Instance{}).ProtoReflect().Descriptor()
	reach(reached, instance)
	file := &descriptorpb.FileDescriptorProto{
		Name: new("instance.proto"), Package: new(string(instance.ParentFile().Package())), Syntax: new("proto3"),
	}
	for _, m := range reached {
		file.MessageType = append(file.MessageType, m)
	}
	slices.SortFunc(file.MessageType, func(a, b *descriptorpb.DescriptorProto) int { return strings.Compare(a.GetName(), b.GetName()) })
	text, err := protojson.Marshal(file)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	if err := json.Compact(&packed, text); err != nil { // the encoder's spaces are random
		return nil, err
	}
	packed.WriteByte('\n')
	return bytes.ReplaceAll(packed.Bytes(), []byte("},{"), []byte("},\n{")), nil // a line for each field
}

// reach adds a message, and those that its fields hold.
func reach(reached map[protoreflect.FullName]*descriptorpb.DescriptorProto, m protoreflect.MessageDescriptor) {
	if reached[m.FullName()] != nil {
		return
	}
	described := protodesc.ToDescriptorProto(m)
	strip(described)
	if !m.IsMapEntry() { // else it is inside another message
		reached[m.FullName()] = described
	}
	for i := range m.Fields().Len() {
		if of := m.Fields().Get(i).Message(); of != nil {
			reach(reached, of)
		}
	}
}

// strip takes away what says nothing about values.
func strip(m *descriptorpb.DescriptorProto) {
	for _, f := range m.Field {
		f.Options = nil
	}
	for _, e := range m.EnumType {
		e.Options = nil
		for _, v := range e.Value {
			v.Options = nil
		}
	}
	for _, nested := range m.NestedType {
		strip(nested)
	}
	if m.Options != nil {
		m.Options = &descriptorpb.MessageOptions{MapEntry: m.Options.MapEntry}
		if proto.Size(m.Options) == 0 {
			m.Options = nil
		}
	}
}
