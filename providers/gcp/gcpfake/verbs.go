package gcpfake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// call is what a verb is told beside its request.
type call struct {
	gone <-chan struct{} // closed when the caller has gone away
	body []byte          // as it came: what a message cannot tell is that an empty list was sent
	full bool            // the zone is to be out of machines, whatever there is
}

// verb is one method of the API: how it is reached and how its request is read, both
// out of the client library's descriptors, and what it does.
type verb struct {
	service protoreflect.Name // Instances
	method  protoreflect.Name // Insert
	op      string            // instances.insert
	pattern string            // POST /compute/v1/projects/{project}/…
	input   protoreflect.MessageType
	path    []protoreflect.Name // fields that the path sets
	body    protoreflect.Name   // the field that is the body; empty: none
	run     func(*Cloud, call, proto.Message) (proto.Message, error)
}

// on describes a method of a service. do runs with the cloud locked and settled.
func on[In proto.Message, Out proto.Message](service, method protoreflect.Name, do func(*Cloud, call, In) (Out, error)) verb {
	md := computepb.File_google_cloud_compute_v1_compute_proto.Services().ByName(service).Methods().ByName(method)
	rule := proto.GetExtension(md.Options(), annotations.E_Http).(*annotations.HttpRule)
	verbOf, path := route(rule)
	var in In
	v := verb{
		service: service,
		method:  method,
		op:      lowerFirst(string(service)) + "." + lowerFirst(string(method)),
		pattern: verbOf + " " + path,
		input:   in.ProtoReflect().Type(),
		body:    protoreflect.Name(rule.GetBody()),
		run: func(c *Cloud, about call, in proto.Message) (proto.Message, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.settle()
			return do(c, about, in.(In))
		},
	}
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "{") {
			v.path = append(v.path, protoreflect.Name(strings.Trim(part, "{}")))
		}
	}
	return v
}

func route(rule *annotations.HttpRule) (method, path string) {
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, p.Get
	case *annotations.HttpRule_Post:
		return http.MethodPost, p.Post
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, p.Delete
	case *annotations.HttpRule_Patch:
		return http.MethodPatch, p.Patch
	default:
		panic(fmt.Sprintf("a method with the route %v", rule))
	}
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// decode reads a request: fields out of the path, parameters and the body.
func (v verb) decode(r *http.Request) (proto.Message, []byte, error) {
	in := v.input.New()
	fields := in.Descriptor().Fields()
	for _, name := range v.path {
		in.Set(fields.ByName(name), protoreflect.ValueOfString(r.PathValue(string(name))))
	}
	for key, values := range r.URL.Query() {
		if err := v.parameter(in, key, values); err != nil {
			return nil, nil, err
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil, badRequest("the body could not be read: %v", err)
	}
	if v.body == "" && len(body) > 0 {
		return nil, nil, badRequest("Invalid JSON payload received. %s takes no body", v.op)
	}
	if v.body != "" {
		field := fields.ByName(v.body)
		msg := in.Mutable(field).Message().Interface()
		if err := protojson.Unmarshal(v.meant(in.Descriptor(), body), msg); err != nil {
			return nil, nil, badRequest("Invalid JSON payload received. %s", strings.TrimPrefix(err.Error(), "proto: "))
		}
	}
	return in.Interface(), body, v.complete(in, body)
}

// meant is the part of a body that is meant for it. The client library sends the whole
// request as the body of a listing by POST, with what belongs into the path and the
// parameters. The service lets that pass, and reads nothing of it.
func (v verb) meant(request protoreflect.MessageDescriptor, body []byte) []byte {
	var fields map[string]json.RawMessage
	if !strings.HasPrefix(string(v.method), "List") || json.Unmarshal(body, &fields) != nil {
		return body
	}
	for name := range fields {
		if request.Fields().ByJSONName(name) != nil {
			delete(fields, name)
		}
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return rest
}

// systemParameters are understood by every method and change nothing here.
// https://docs.cloud.google.com/apis/docs/system-parameters
var systemParameters = []string{"alt", "$alt", "fields", "prettyPrint", "quotaUser", "userIp", "key"}

// parameter sets the field of a query parameter.
func (v verb) parameter(in protoreflect.Message, key string, values []string) error {
	if slices.Contains(systemParameters, key) {
		return nil
	}
	field := in.Descriptor().Fields().ByJSONName(key)
	if field == nil || field.Name() == v.body || slices.Contains(v.path, field.Name()) || len(values) != 1 {
		return badRequest("Invalid JSON payload received. Unknown name %q: Cannot bind query parameter.", key)
	}
	value, err := scalar(field, values[0])
	if err != nil {
		return invalidField(key, values[0], "%v", err)
	}
	in.Set(field, value)
	return nil
}

func scalar(field protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BoolKind:
		is, err := strconv.ParseBool(text)
		return protoreflect.ValueOfBool(is), err
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(text, 10, 32)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(text, 10, 64)
		return protoreflect.ValueOfInt64(n), err
	case protoreflect.Uint32Kind:
		n, err := strconv.ParseUint(text, 10, 32)
		return protoreflect.ValueOfUint32(uint32(n)), err
	default:
		return protoreflect.Value{}, fmt.Errorf("parameters of kind %s are not known here", field.Kind())
	}
}

// complete checks that what the descriptors call required is there.
func (v verb) complete(in protoreflect.Message, body []byte) error {
	fields := in.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		behavior, _ := proto.GetExtension(field.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
		if !slices.Contains(behavior, annotations.FieldBehavior_REQUIRED) {
			continue
		}
		if missing := field.Name() == v.body && len(body) == 0 || !in.Has(field); missing {
			return required(field.JSONName())
		}
	}
	return nil
}

// handler serves one verb behind the checks that all have in common.
func (c *Cloud) handler(v verb) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, body, err := v.decode(r)
		if err == nil {
			err = c.admit(r)
		}
		if err == nil {
			err = c.permitted(v.op, in)
		}
		if err != nil {
			c.answer(nil, err)(w)
			return
		}
		about := call{gone: r.Context().Done(), body: body}
		c.serve(w, r, v, about, in)
	})
}

// key is what a call is about: the last part of its path that names something.
func (v verb) key(r *http.Request) string {
	if len(v.path) == 0 {
		return ""
	}
	return r.PathValue(string(v.path[len(v.path)-1]))
}
