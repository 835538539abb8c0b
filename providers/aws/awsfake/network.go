package awsfake

import (
	"cmp"
	"slices"
)

// netInterface is a network interface, and where it is attached.
type netInterface struct {
	Interface
	machine    string // "": it is available
	attachment string
	index      int // of the device
}

// attached returns the interfaces that were attached to a machine, by their index.
func (c *Cloud) attached(machine string) []*netInterface {
	var found []*netInterface
	for _, i := range c.interfaces {
		if i.machine == machine {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b *netInterface) int { return cmp.Compare(a.index, b.index) })
	return found
}

// release detaches what a machine leaves behind.
func (c *Cloud) release(machine string) {
	for _, i := range c.attached(machine) {
		i.machine, i.attachment, i.index = "", "", 0
	}
}
