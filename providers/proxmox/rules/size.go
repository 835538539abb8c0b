package rules

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Size is how big a machine is to be; zero fields are the template's own.
type Size struct {
	Cores  int
	Memory int64 // MiB
	Disk   int64 // GiB, of the first disk; it grows and never shrinks
}

// Bounds of a size: what the API takes, and no more than a typing error is worth.
const (
	maxCores  = 1024
	minMemory = 16
	maxMemory = 16 << 20 // MiB
	maxDisk   = 128 << 10
)

const typeForm = `write it like "cpu:4,memory:8192,disk:50": cores, MiB, GiB`

// ParseType reads an instance type: cpu, memory and disk in any order, each of which
// may be missing.
func ParseType(text string) (Size, error) {
	var s Size
	if text == "" {
		return s, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), ":")
		n, err := strconv.ParseInt(value, 10, 64)
		if !ok || err != nil || seen[name] {
			return Size{}, fmt.Errorf("instance type %q: %q is not one number of its kind; %s", text, part, typeForm)
		}
		seen[name] = true
		switch name {
		case "cpu":
			s.Cores = int(n)
		case "memory":
			s.Memory = n
		case "disk":
			s.Disk = n
		default:
			return Size{}, fmt.Errorf("instance type %q: nothing is called %q; %s", text, name, typeForm)
		}
		if n == 0 {
			return Size{}, fmt.Errorf("instance type %q: %s is 0; leave it out for the template's own", text, name)
		}
	}
	if err := s.check(); err != nil {
		return Size{}, fmt.Errorf("instance type %q: %w", text, err)
	}
	return s, nil
}

func (s Size) check() error {
	switch {
	case s.Cores < 0 || s.Cores > maxCores:
		return fmt.Errorf("%d cores; 1 to %d are possible", s.Cores, maxCores)
	case s.Memory != 0 && (s.Memory < minMemory || s.Memory > maxMemory):
		return fmt.Errorf("%d MiB of memory; %d to %d are possible", s.Memory, minMemory, maxMemory)
	case s.Disk < 0 || s.Disk > maxDisk:
		return fmt.Errorf("a disk of %d GiB; 1 to %d are possible", s.Disk, maxDisk)
	}
	return nil
}

// Over is s where it says something, and less where it does not.
func (s Size) Over(less Size) Size {
	if s.Cores == 0 {
		s.Cores = less.Cores
	}
	if s.Memory == 0 {
		s.Memory = less.Memory
	}
	if s.Disk == 0 {
		s.Disk = less.Disk
	}
	return s
}

// Bridge is where a network device is plugged in.
type Bridge struct {
	Name string
	VLAN int // 0: untagged
}

var bridgeName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,14}$`) // an interface's name, IFNAMSIZ

// ParseSubnet reads the id of a subnet: a bridge or virtual network, and behind a
// dot a VLAN.
func ParseSubnet(id string) (Bridge, error) {
	b := Bridge{Name: id}
	if at := strings.LastIndex(id, "."); at >= 0 {
		vlan, err := parseVLAN(id[at+1:])
		if err != nil {
			return Bridge{}, fmt.Errorf("subnet %q: %w", id, err)
		}
		b = Bridge{Name: id[:at], VLAN: vlan}
	}
	if !bridgeName.MatchString(b.Name) {
		return Bridge{}, fmt.Errorf(`subnet %q is not a bridge; write its name, such as "vmbr0", or with a VLAN "vmbr0.100"`, id)
	}
	return b, nil
}

func parseVLAN(text string) (int, error) {
	vlan, err := strconv.Atoi(text)
	if err != nil || vlan < 1 || vlan > 4094 {
		return 0, fmt.Errorf("VLAN %q is not a number from 1 to 4094", text)
	}
	return vlan, nil
}

// ID is the subnet id of a bridge.
func (b Bridge) ID() string {
	if b.VLAN != 0 {
		return b.Name + "." + strconv.Itoa(b.VLAN)
	}
	return b.Name
}

var diskForm = regexp.MustCompile(`^([0-9]{1,7})([GT]?)$`)

// parseDisk reads the size of a disk, in GiB.
func parseDisk(text string) (int64, error) {
	m := diskForm.FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New(`is not a size; write it like "50G" or "1T"`)
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	if m[2] == "T" {
		n *= 1024
	}
	if n < 1 || n > maxDisk {
		return 0, fmt.Errorf("is %d GiB; 1 to %d are possible", n, maxDisk)
	}
	return n, nil
}
