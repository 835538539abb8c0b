package rules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// forbiddenArgs are names that people may expect among the arguments, and that
// the server sets itself.
var forbiddenArgs = []string{"Name", "Zone", "MachineType", "InstanceType", "Subnetwork", "UserData", "StartupScript", "RequestId"}

// tenantArgs are the arguments that carry no rights and reach nothing but the machine
// itself. All others name identities, networks, addresses, keys, images, policies, or
// metadata and labels that somebody else's rules go by.
var tenantArgs = []string{
	"AutomaticRestart", "ConfidentialInstanceConfig", "GuestAccelerators", "MinCpuPlatform", "OnHostMaintenance", "Preemptible",
	"ProvisioningModel", "ShieldedInstanceConfig",
}

// arguments are what those arguments of a template do to an instance, by name, that
// have a rule of their own. Others are fields of the API; see [draft.field].
var arguments = map[string]func(*draft, any) error{
	"SourceImage":       func(d *draft, v any) error { return setText(d.made, "sourceImage", v) },
	"BootDisk":          setBootDisk,
	"ServiceAccount":    setServiceAccount,
	"ServiceAccounts":   setServiceAccounts,
	"Labels":            setLabels,
	"Metadata":          setMetadata,
	"NetworkTags":       setNetworkTags,
	"Preemptible":       func(d *draft, v any) error { return setBool(d.scheduling, "preemptible", v) },
	"ProvisioningModel": setProvisioningModel,
	"OnHostMaintenance": setOnHostMaintenance,
	"AutomaticRestart":  func(d *draft, v any) error { return setBool(d.scheduling, "automaticRestart", v) },
	"StackType":         setStackType,
	"AccessConfig":      setAccessConfig,
	"Disks":             setDisks,
	"NetworkInterfaces": setInterfaces,
}

// argumentNames are the names of what the args of a template may say, in order.
func argumentNames() []string {
	return slices.Sorted(slices.Values(append(fieldNames(), slices.Collect(maps.Keys(arguments))...)))
}

// Instance reads the rendered arguments of a create: it gives the instance that they
// describe, with one boot disk and one network interface at least, in the wire format of the
// API's message. The error names all that are wrong.
func Instance(args map[string]any) ([]byte, error) {
	d := newDraft()
	if err := d.apply(args); err != nil {
		return nil, err
	}
	return proto.Marshal(d.instance.Interface())
}

// draft is an instance on which arguments are at work: one boot disk, one
// network interface.
type draft struct {
	instance   protoreflect.Message
	scheduling protoreflect.Message
	disk, made protoreflect.Message // the boot disk, and what it is made from
	nic        protoreflect.Message
}

func newDraft() *draft {
	d := &draft{instance: newMessage("Instance"), disk: newMessage("AttachedDisk"), nic: newMessage("NetworkInterface")}
	put(d.disk, "boot", true)
	put(d.disk, "autoDelete", true)
	d.made = part(d.disk, "initializeParams")
	d.scheduling = part(d.instance, "scheduling")
	putList(d.instance, "disks", d.disk)
	putList(d.instance, "networkInterfaces", d.nic)
	return d
}

// apply has every argument take effect, and reports all that are wrong.
func (d *draft) apply(args map[string]any) error {
	var errs []error
	names := slices.Sorted(maps.Keys(args))
	slices.SortStableFunc(names, func(a, b string) int { // what describes an interface as a whole goes before its parts
		return cmp.Compare(strings.Count(b, "NetworkInterfaces"), strings.Count(a, "NetworkInterfaces"))
	})
	for _, name := range names {
		if err := d.set(name, args[name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(append(errs, checkArgs(args))...)
}

// set has one argument take effect.
func (d *draft) set(name string, value any) error {
	if set, known := arguments[name]; known {
		return set(d, value)
	}
	if m, f := d.field(name); f != nil {
		return setField(m, f, value)
	}
	return unknownArgument(name)
}

// checkArgs says what is wrong with arguments taken together.
func checkArgs(args map[string]any) error {
	var errs []error
	if args["SourceImage"] == nil {
		errs = append(errs, errors.New("SourceImage: missing; name an image or a family, such as projects/debian-cloud/global/images/family/debian-13"))
	}
	if args["ServiceAccount"] != nil && args["ServiceAccounts"] != nil {
		errs = append(errs, errors.New("ServiceAccounts: has no meaning beside ServiceAccount; write one of them"))
	}
	return errors.Join(errs...)
}

// checkArg says what is wrong with one argument of a template as it stands in a
// configuration. What is made of templates is checked when it is rendered.
func checkArg(name string, value any) error {
	d := newDraft()
	if _, f := d.field(name); f == nil && arguments[name] == nil {
		return unknownArgument(name)
	}
	if templated(value) {
		return nil
	}
	return d.set(name, value)
}

func unknownArgument(name string) error {
	for _, known := range argumentNames() {
		if strings.EqualFold(known, name) {
			return fmt.Errorf("unknown argument; did you mean %s?", known)
		}
	}
	return fmt.Errorf("unknown argument; Google's are %s", strings.Join(argumentNames(), ", "))
}

// templated reports whether any text in a value is a template.
func templated(value any) bool {
	switch v := value.(type) {
	case string:
		return strings.Contains(v, "{{")
	case []any:
		return slices.ContainsFunc(v, templated)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), templated)
	}
	return false
}

func readText(value any) (string, error) {
	text, ok := value.(string)
	if !ok || text == "" {
		return "", fmt.Errorf("is %v, must be a text", value)
	}
	return text, nil
}

func setText(m protoreflect.Message, name string, value any) error {
	text, err := readText(value)
	if err != nil {
		return err
	}
	put(m, name, text)
	return nil
}

// setBool takes true and false, and the same as text, which a template renders.
func setBool(m protoreflect.Message, name string, value any) error {
	on, err := strconv.ParseBool(fmt.Sprint(value))
	if err != nil {
		return fmt.Errorf("is %v, must be true or false", value)
	}
	put(m, name, on)
	return nil
}

func readTexts(value any) ([]string, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("is %v, must be a list of texts", value)
	}
	texts := make([]string, len(list))
	for i, item := range list {
		var err error
		if texts[i], err = readText(item); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return texts, nil
}

func readMap(value any, check func(key, text string) error) (map[string]string, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is %v, must be an object of texts", value)
	}
	made := make(map[string]string, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		text, ok := object[key].(string)
		if !ok {
			return nil, fmt.Errorf("%s: is %v, must be a text", key, object[key])
		}
		if err := check(key, text); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		made[key] = text
	}
	return made, nil
}

// setMessage reads an object of the API as the SDK knows it. Names may begin
// with a capital letter, as the arguments themselves do.
func setMessage(into proto.Message, value any) error {
	if _, ok := value.(map[string]any); !ok {
		return fmt.Errorf("is %v, must be an object", value)
	}
	fitted, err := fitMessage(into.ProtoReflect().Descriptor(), smallInitials(value))
	if err != nil {
		return err
	}
	text, err := json.Marshal(fitted)
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(text, into); err != nil {
		return errors.New(protoProblem(err))
	}
	return nil
}

// protoProblem is the SDK's complaint without what says nothing to a user.
func protoProblem(err error) string {
	_, after, found := strings.Cut(strings.ReplaceAll(err.Error(), "\u00a0", " "), "): ")
	if !found {
		return strings.TrimPrefix(err.Error(), "proto: ")
	}
	return after
}

// readMessages reads a list of objects of the API.
func readMessages(of protoreflect.Name, value any) ([]protoreflect.Message, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("is %v, must be a list of objects", value)
	}
	made := make([]protoreflect.Message, len(list))
	for i, item := range list {
		made[i] = newMessage(of)
		if err := setMessage(made[i].Interface(), item); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return made, nil
}

func smallInitials(value any) any {
	switch v := value.(type) {
	case []any:
		made := make([]any, len(v))
		for i, item := range v {
			made[i] = smallInitials(item)
		}
		return made
	case map[string]any:
		made := make(map[string]any, len(v))
		for key, item := range v {
			made[smallInitial(key)] = smallInitials(item)
		}
		return made
	}
	return value
}

func smallInitial(key string) string {
	for i, r := range key {
		if i == 0 {
			return string(unicode.ToLower(r)) + key[len(string(r)):]
		}
	}
	return key
}

// The forms of labels and metadata keys; see
// https://cloud.google.com/compute/docs/labeling-resources and
// https://cloud.google.com/compute/docs/metadata/setting-custom-metadata.
var (
	labelKey    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelText   = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
	metadataKey = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

func checkLabel(key, text string) error {
	switch {
	case !labelKey.MatchString(key):
		return errors.New("is not a label key; use lowercase letters, digits, _ and -, a letter first, at most 63")
	case !labelText.MatchString(text):
		return fmt.Errorf("%q is not a label value; use lowercase letters, digits, _ and -, at most 63", text)
	}
	return nil
}
