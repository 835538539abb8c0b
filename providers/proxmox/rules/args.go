package rules

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Settings are the arguments of a create, read.
type Settings struct {
	Storage      string // of the disks
	TemplateName string // of one of this name on the machine's node; or
	TemplateVMID int
	Net          Bridge
	Firewall     *bool // of the first network device; nil: as the template has it
	Size         Size
	OnBoot       bool
	Pool         string
	Nodes        []string // that it may be on; empty: all
	Spread       string   // of the group's machines; empty: SpreadPrefer

	Config  map[string]string // further options of the machine
	Network string            // cloud-init's network configuration; empty: its own, DHCP

	draft bool // texts may be templates still
}

// Ways to spread the machines of a group over nodes.
const (
	SpreadPrefer  = "prefer"  // to a node with the fewest of them that has room; the default
	SpreadRequire = "require" // never two on one node
	SpreadOff     = "off"     // wherever there is most room
)

// tenantArgs are the arguments that reach nothing but the machine itself. All others
// name networks, storages, pools, templates or parts of the host.
var tenantArgs = []string{"Cores", "DiskSize", "Memory", "Spread", "StartOnBoot"}

// argConfig is the argument that passes options on to the API.
const argConfig = "Config"

// argument is one of those that a configuration may give. set reads its value.
type argument struct {
	name string
	set  func(s *Settings, value string) error
	any  func(s *Settings, value any) error // in place of set, where it is not one text
}

var arguments = []argument{
	{name: "StoragePool", set: func(s *Settings, v string) error { return setName(&s.Storage, v, storageName, "a storage") }},
	{name: "TemplateName", set: func(s *Settings, v string) error {
		return setName(&s.TemplateName, v, machineName, "a template's name")
	}},
	{name: "TemplateVMID", set: func(s *Settings, v string) error { return setNumber(&s.TemplateVMID, v, 100, MaxNumber) }},
	{name: "Bridge", set: func(s *Settings, v string) error { return setName(&s.Net.Name, v, bridgeName, "a bridge") }},
	{name: "VLANTag", set: func(s *Settings, v string) error { return setNumber(&s.Net.VLAN, v, 1, 4094) }},
	{name: "Cores", set: func(s *Settings, v string) error { return setNumber(&s.Size.Cores, v, 1, maxCores) }},
	{name: "Memory", set: func(s *Settings, v string) error { return setNumber(&s.Size.Memory, v, minMemory, maxMemory) }},
	{name: "DiskSize", set: func(s *Settings, v string) (err error) { s.Size.Disk, err = parseDisk(v); return err }},
	{name: "Firewall", set: func(s *Settings, v string) error {
		s.Firewall = new(bool)
		return setTruth(s.Firewall, v)
	}},
	{name: "StartOnBoot", set: func(s *Settings, v string) error { return setTruth(&s.OnBoot, v) }},
	{name: "Pool", set: func(s *Settings, v string) error { return setName(&s.Pool, v, poolName, "a resource pool") }},
	{name: "Nodes", set: func(s *Settings, v string) (err error) { s.Nodes, err = parseNodes(v); return err }},
	{name: "Spread", set: func(s *Settings, v string) error {
		if v != SpreadPrefer && v != SpreadRequire && v != SpreadOff {
			return fmt.Errorf("%q must be one of %q, %q and %q", v, SpreadPrefer, SpreadRequire, SpreadOff)
		}
		s.Spread = v
		return nil
	}},
	{name: argConfig, any: func(s *Settings, v any) error {
		options, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf(`is %v, must be an object, such as {"cpu": "host"}`, v)
		}
		return s.setConfig(options)
	}},
	{name: "NetworkConfig", any: (*Settings).setNetworkConfig},
}

// parseNodes reads the names of nodes, with commas between them.
func parseNodes(text string) ([]string, error) {
	var nodes []string
	for name := range strings.SplitSeq(text, ",") {
		var node string
		if err := setName(&node, strings.TrimSpace(name), nodeName, "a node"); err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// The forms of names, by the API's own formats pve-storage-id, dns-name and pve-poolid.
var (
	storageName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]$`)
	machineName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	nodeName    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`)
	poolName    = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}$`)
)

func setName(field *string, value string, form *regexp.Regexp, what string) error {
	if !form.MatchString(value) {
		return fmt.Errorf("%q is not the name of %s", value, what)
	}
	*field = value
	return nil
}

func setNumber[N int | int64](field *N, value string, least, most N) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < int64(least) || n > int64(most) {
		return fmt.Errorf("%q is not a number from %d to %d", value, least, most)
	}
	*field = N(n)
	return nil
}

func setTruth(field *bool, value string) error {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New("is not true or false")
	}
	*field = on
	return nil
}

// argNames are the arguments that a configuration may give, in the order of the
// documentation.
func argNames() []string {
	names := make([]string, len(arguments))
	for i, a := range arguments {
		names[i] = a.name
	}
	return names
}

// checkArg says what is wrong with one argument of a configuration. One that is a
// template still can be anything.
func checkArg(name string, value any) error {
	if text, ok := value.(string); ok && strings.Contains(text, "{{") {
		a, err := argumentOf(name)
		if err == nil && a.name == argConfig {
			err = a.any(nil, value) // which is no text
		}
		return err
	}
	return (&Settings{draft: true}).set(name, value)
}

func argumentOf(name string) (argument, error) {
	i := slices.IndexFunc(arguments, func(a argument) bool { return a.name == name })
	if i < 0 {
		return argument{}, fmt.Errorf("unknown argument; there are %s", strings.Join(argNames(), ", "))
	}
	return arguments[i], nil
}

func (s *Settings) set(name string, value any) error {
	a, err := argumentOf(name)
	if err != nil {
		return err
	}
	if a.any != nil {
		return a.any(s, value)
	}
	if list, ok := value.([]any); ok && name == "Nodes" {
		texts := make([]string, len(list))
		for i, v := range list {
			texts[i] = fmt.Sprint(v)
		}
		value = strings.Join(texts, ",")
	}
	switch value.(type) {
	case nil, map[string]any, []any:
		return fmt.Errorf("is %v, must be one value", value)
	}
	return a.set(s, fmt.Sprint(value)) // a number may come as a string: templates make strings
}

// ParseArgs reads the arguments of a create. The error names all that are wrong.
func ParseArgs(args map[string]any) (Settings, error) {
	var s Settings
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if err := s.set(name, args[name]); err != nil {
			errs = append(errs, fmt.Errorf("args: %s: %w", name, err))
		}
	}
	if _, given := args["StoragePool"]; !given {
		errs = append(errs, errors.New("args: StoragePool: missing; name the storage for the machine's disks"))
	}
	_, byName := args["TemplateName"]
	_, byVMID := args["TemplateVMID"]
	if byName == byVMID {
		errs = append(errs, errors.New("args: give TemplateName, or TemplateVMID, and not both"))
	}
	return s, errors.Join(errs...)
}

// sizeArgs are the arguments that say what an instance type can say too.
var sizeArgs = []string{"Cores", "Memory", "DiskSize"}

// Split takes what the named arguments say out of the size that they gave.
func (s Size) Split(names []string) (rest, taken Size) {
	for _, name := range names {
		switch name {
		case "Cores":
			taken.Cores, s.Cores = s.Cores, 0
		case "Memory":
			taken.Memory, s.Memory = s.Memory, 0
		case "DiskSize":
			taken.Disk, s.Disk = s.Disk, 0
		}
	}
	return s, taken
}
