package proxmox

import (
	"slices"
	"strconv"
	"strings"
)

// nic is the value of a network device's option: virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=5.
type nic struct {
	model   string   // virtio, e1000, …
	mac     string   // empty: Proxmox VE chooses one
	options []string // name=value, in order, bridge and tag among them
}

// parseNIC reads an option's value; an empty one is a device of the model virtio.
func parseNIC(value string) nic {
	n := nic{model: "virtio"}
	parts := strings.Split(value, ",")
	long := slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, "model=") })
	for i, part := range parts {
		name, text, _ := strings.Cut(part, "=")
		switch {
		case part == "":
		case name == "model":
			n.model = text
		case name == "macaddr":
			n.mac = text
		case i == 0 && !long: // these two in the short form
			n.model, n.mac = name, text
		default:
			n.options = append(n.options, part)
		}
	}
	return n
}

// with returns the device with one of its options changed; an empty value takes it away.
func (n nic) with(name, value string) nic {
	options := slices.Clone(n.options)
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
	return nic{n.model, n.mac, options}
}

// on returns the device on another bridge, untagged if the bridge has no VLAN. What else
// there is stays: without firewall=1 the rules that the machine has from its template
// would not hold.
func (n nic) on(b bridge) nic {
	tag := ""
	if b.vlan != 0 {
		tag = strconv.Itoa(b.vlan)
	}
	return n.with("bridge", b.name).with("tag", tag)
}

// filtered returns the device with the firewall in force for it, or not.
func (n nic) filtered(on bool) nic {
	if on {
		return n.with("firewall", "1")
	}
	return n.with("firewall", "0")
}

// bridge is what the device is connected to; zero: nothing.
func (n nic) bridge() (b bridge) {
	for _, option := range n.options {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "bridge":
			b.name = value
		case "tag":
			b.vlan, _ = strconv.Atoi(value)
		}
	}
	return b
}

// String is the option's value.
func (n nic) String() string {
	first := n.model
	if n.mac != "" {
		first += "=" + n.mac
	}
	return strings.Join(append([]string{first}, n.options...), ",")
}
