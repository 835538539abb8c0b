package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Arguments without a rule of their own are fields of the API's messages: of the
// instance, else of its scheduling, else of its first network interface. What the cloud
// adds to those is an argument with the next version of the SDK.

// notInstance are fields of an instance that the server sets, that the cloud sets, or
// that other arguments stand for.
var notInstance = []string{
	"name", "zone", "machineType", "requestId", // the server's
	"cpuPlatform", "creationTimestamp", "fingerprint", "id", "kind", "labelFingerprint", "lastStartTimestamp", "lastStopTimestamp",
	"lastSuspendedTimestamp", "resourceStatus", "satisfiesPzi", "satisfiesPzs", "selfLink", "selfLinkWithId", "startRestricted",
	"status", "statusMessage", "upcomingMaintenance", "shieldedVmConfig", // the cloud's
	"deletionProtection",                                    // the server could not delete the machine
	"sourceMachineImage", "sourceMachineImageEncryptionKey", // SourceImage
	"networkInterfaces", "scheduling", "tags", // NetworkTags; fields of the others
}

// notInterface are such fields of a network interface.
var notInterface = []string{"fingerprint", "kind", "name", "subnetwork", "accessConfigs"}

// field is the field of a draft's messages that an argument names, and the message that
// has it; nil: there is none.
func (d *draft) field(name string) (protoreflect.Message, protoreflect.FieldDescriptor) {
	for _, in := range []struct {
		message protoreflect.Message
		not     []string
	}{{d.instance, notInstance}, {d.scheduling, nil}, {d.nic, notInterface}} {
		f := in.message.Descriptor().Fields().ByJSONName(smallInitial(name))
		if f != nil && name != smallInitial(name) && !slices.Contains(in.not, f.JSONName()) {
			return in.message, f
		}
	}
	return nil, nil
}

// setField gives a field of a message a value in the API's own form.
func setField(m protoreflect.Message, f protoreflect.FieldDescriptor, value any) error {
	if err := formed(f, value); err != nil {
		return err
	}
	if items, ok := value.([]any); ok && f.Message() != nil {
		for i, item := range items {
			if err := setMessage(m.NewField(f).List().NewElement().Message().Interface(), item); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	}
	fitted, err := fit(f, smallInitials(value))
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{f.JSONName(): fitted})
	if err != nil {
		return err
	}
	one := m.New().Interface()
	if err := protojson.Unmarshal(text, one); err != nil {
		return errors.New(protoProblem(err))
	}
	m.Clear(f)
	if one.ProtoReflect().Has(f) {
		m.Set(f, one.ProtoReflect().Get(f))
	}
	return nil
}

// formed says which form a field wants, where the value has another.
func formed(f protoreflect.FieldDescriptor, value any) error {
	_, list := value.([]any)
	_, object := value.(map[string]any)
	switch {
	case f.IsList() && !list && f.Message() != nil:
		return fmt.Errorf("is %v, must be a list of objects", value)
	case f.IsList() && !list:
		return fmt.Errorf("is %v, must be a list", value)
	case !f.IsList() && f.Message() != nil && !object:
		return fmt.Errorf("is %v, must be an object", value)
	case f.Kind() == protoreflect.StringKind && !f.IsList():
		if text, ok := value.(string); !ok || text == "" {
			return fmt.Errorf("is %v, must be a text", value)
		}
	}
	return nil
}

// fit makes true and false of their texts, which is what templates render. Numbers may
// be texts by themselves.
func fit(f protoreflect.FieldDescriptor, value any) (any, error) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			var err error
			if v[i], err = fit(f, v[i]); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
	case map[string]any:
		if f.Message() == nil || f.IsMap() {
			return v, nil
		}
		return fitMessage(f.Message(), v)
	default:
		if f.Kind() == protoreflect.BoolKind {
			on, err := strconv.ParseBool(fmt.Sprint(value))
			if err != nil {
				return nil, fmt.Errorf("is %v, must be true or false", value)
			}
			return on, nil
		}
	}
	return value, nil
}

// fitMessage is fit for the fields of a message.
func fitMessage(m protoreflect.MessageDescriptor, value any) (any, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return value, nil
	}
	for key, item := range object {
		of := m.Fields().ByJSONName(key)
		if of == nil {
			return nil, fmt.Errorf("unknown field %q", key)
		}
		fitted, err := fit(of, item)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		object[key] = fitted
	}
	return object, nil
}

// setDisks adds disks to the boot disk, which SourceImage and BootDisk describe.
func setDisks(d *draft, value any) error {
	disks, err := readMessages("AttachedDisk", value)
	if err != nil {
		return err
	}
	for i, disk := range disks {
		switch {
		case truth(disk, "boot"):
			return fmt.Errorf("[%d].boot: is true; SourceImage and BootDisk describe the boot disk", i)
		case text(disk, "source") != "":
			return fmt.Errorf("[%d].source: a disk that exists can be attached to one machine; use initializeParams", i)
		case !has(disk, "autoDelete"):
			put(disk, "autoDelete", true) // else it is left when the machine has gone
		}
	}
	putList(d.instance, "disks", append([]protoreflect.Message{d.disk}, disks...)...)
	return nil
}

// setInterfaces describes all network interfaces. The server puts its subnet into the
// first; the others name their own.
func setInterfaces(d *draft, value any) error {
	nics, err := readMessages("NetworkInterface", value)
	if err != nil {
		return err
	}
	if len(nics) == 0 {
		return errors.New("is empty; leave it out, or describe the first interface and others")
	}
	if text(nics[0], "subnetwork") != "" {
		return errors.New("[0].subnetwork: is set by the server itself")
	}
	for i, nic := range nics[1:] {
		if text(nic, "subnetwork") == "" && text(nic, "network") == "" && text(nic, "networkAttachment") == "" {
			return fmt.Errorf("[%d].subnetwork: missing; only the first interface is in the group's subnet", i+1)
		}
	}
	proto.Merge(nics[0].Interface(), d.nic.Interface())
	d.nic = nics[0]
	putList(d.instance, "networkInterfaces", nics...)
	return nil
}

// fieldNames are the arguments that are fields of messages, in order.
func fieldNames() []string {
	d := newDraft()
	var names []string
	for _, message := range []protoreflect.Message{d.instance, d.scheduling, d.nic} {
		fields := message.Descriptor().Fields()
		for i := range fields.Len() {
			name := fields.Get(i).JSONName()
			name = strings.ToUpper(name[:1]) + name[1:]
			if _, f := d.field(name); f != nil && arguments[name] == nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
