package gateway

import (
	"net/url"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// strictQuery refuses parameters that a call does not have: to leave out the one that was
// meant, because of a letter, may delete what should have been replaced.
type strictQuery struct{ runtime.DefaultQueryParser }

// Parse implements [runtime.QueryParameterParser].
func (p strictQuery) Parse(m proto.Message, values url.Values, filter *utilities.DoubleArray) error {
	for key := range values {
		if !hasField(m.ProtoReflect().Descriptor(), key) {
			return Errorf(codes.InvalidArgument, "UNKNOWN_PARAMETER", "parameter %q: the call has no parameter of that name", key)
		}
	}
	return p.DefaultQueryParser.Parse(m, values, filter)
}

// hasField reports whether a message has the field that a dotted path names.
func hasField(m protoreflect.MessageDescriptor, path string) bool {
	name, below, deeper := strings.Cut(path, ".")
	field := m.Fields().ByJSONName(name)
	if field == nil {
		field = m.Fields().ByName(protoreflect.Name(name))
	}
	switch {
	case field == nil:
		return false
	case !deeper:
		return true
	}
	return field.Message() != nil && hasField(field.Message(), below)
}
