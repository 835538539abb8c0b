package rules

import (
	"slices"
	"strconv"
	"strings"
)

// NIC is the value of a network device's option: virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=5.
type NIC struct {
	Model   string   // virtio, e1000, …
	MAC     string   // empty: Proxmox VE chooses one
	Options []string // name=value, in order, bridge and tag among them
}

// ParseNIC reads an option's value; an empty one is a device of the model virtio.
func ParseNIC(value string) NIC {
	n := NIC{Model: "virtio"}
	parts := strings.Split(value, ",")
	long := slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, "model=") })
	for i, part := range parts {
		name, text, _ := strings.Cut(part, "=")
		switch {
		case part == "":
		case name == "model":
			n.Model = text
		case name == "macaddr":
			n.MAC = text
		case i == 0 && !long: // these two in the short form
			n.Model, n.MAC = name, text
		default:
			n.Options = append(n.Options, part)
		}
	}
	return n
}

// with returns the device with one of its options changed; an empty value takes it away.
func (n NIC) with(name, value string) NIC {
	options := slices.Clone(n.Options)
	at := slices.IndexFunc(options, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	switch {
	case value == "" && at >= 0:
		options = slices.Delete(options, at, at+1)
	case value == "":
	case at >= 0:
		options[at] = name + "=" + value
	default:
		options = append(options, name+"="+value)
	}
	return NIC{n.Model, n.MAC, options}
}

// On returns the device on another bridge, untagged if the bridge has no VLAN. What else
// there is stays: without firewall=1 the rules that the machine has from its template
// would not hold.
func (n NIC) On(b Bridge) NIC {
	tag := ""
	if b.VLAN != 0 {
		tag = strconv.Itoa(b.VLAN)
	}
	return n.with("bridge", b.Name).with("tag", tag)
}

// Filtered returns the device with the firewall in force for it, or not.
func (n NIC) Filtered(on bool) NIC {
	if on {
		return n.with("firewall", "1")
	}
	return n.with("firewall", "0")
}

// Bridge is what the device is connected to; zero: nothing.
func (n NIC) Bridge() (b Bridge) {
	for _, option := range n.Options {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "bridge":
			b.Name = value
		case "tag":
			b.VLAN, _ = strconv.Atoi(value)
		}
	}
	return b
}

// String is the option's value.
func (n NIC) String() string {
	first := n.Model
	if n.MAC != "" {
		first += "=" + n.MAC
	}
	return strings.Join(append([]string{first}, n.Options...), ",")
}
