package rules

import (
	_ "embed"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// instanceJSON describes the messages of the API that an instance is made of.
//
//go:embed instance.json
var instanceJSON []byte

// api has those messages. The file was checked when it was made.
var api = sync.OnceValue(func() protoreflect.MessageDescriptors {
	var described descriptorpb.FileDescriptorProto
	if err := protojson.Unmarshal(instanceJSON, &described); err != nil {
		panic("instance.json: " + err.Error())
	}
	file, err := protodesc.NewFile(&described, nil)
	if err != nil {
		panic("instance.json: " + err.Error())
	}
	return file.Messages()
})

// newMessage makes one of the API's messages.
func newMessage(name protoreflect.Name) protoreflect.Message {
	return dynamicpb.NewMessage(api().ByName(name))
}

// fieldOf is a field of a message by its name in JSON. There is such a field.
func fieldOf(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByJSONName(name)
}

// part is the message in a field of another one; it is there from now on.
func part(m protoreflect.Message, name string) protoreflect.Message {
	return m.Mutable(fieldOf(m, name)).Message()
}

// has says whether a field of a message was set.
func has(m protoreflect.Message, name string) bool { return m.Has(fieldOf(m, name)) }

// text is what a field of a message says; "" where it was not set.
func text(m protoreflect.Message, name string) string { return m.Get(fieldOf(m, name)).String() }

// truth is what a field of a message says; false where it was not set.
func truth(m protoreflect.Message, name string) bool { return m.Get(fieldOf(m, name)).Bool() }

// put sets a field of a message to a text, a truth value or a number.
func put(m protoreflect.Message, name string, value any) {
	m.Set(fieldOf(m, name), protoreflect.ValueOf(value))
}

// putList sets a field of a message to a list of messages.
func putList(m protoreflect.Message, name string, items ...protoreflect.Message) {
	field := fieldOf(m, name)
	list := m.NewField(field).List()
	for _, item := range items {
		list.Append(protoreflect.ValueOfMessage(item))
	}
	m.Set(field, protoreflect.ValueOfList(list))
}
