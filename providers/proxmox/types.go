package proxmox

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// size is how big a machine is to be; zero fields are the template's own.
type size struct {
	cores  int
	memory int64 // MiB
	disk   int64 // GiB, of the first disk; it grows and never shrinks
}

// Bounds of a size: what the API takes, and no more than a typing error is worth.
const (
	maxCores  = 1024
	minMemory = 16
	maxMemory = 16 << 20 // MiB
	maxDisk   = 128 << 10
)

const typeForm = `write it like "cpu:4,memory:8192,disk:50": cores, MiB, GiB`

// parseType reads an instance type: cpu, memory and disk in any order, each of which
// may be missing.
func parseType(text string) (size, error) {
	var s size
	if text == "" {
		return s, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), ":")
		n, err := strconv.ParseInt(value, 10, 64)
		if !ok || err != nil || seen[name] {
			return size{}, fmt.Errorf("instance type %q: %q is not one number of its kind; %s", text, part, typeForm)
		}
		seen[name] = true
		switch name {
		case "cpu":
			s.cores = int(n)
		case "memory":
			s.memory = n
		case "disk":
			s.disk = n
		default:
			return size{}, fmt.Errorf("instance type %q: nothing is called %q; %s", text, name, typeForm)
		}
		if n == 0 {
			return size{}, fmt.Errorf("instance type %q: %s is 0; leave it out for the template's own", text, name)
		}
	}
	if err := s.check(); err != nil {
		return size{}, fmt.Errorf("instance type %q: %w", text, err)
	}
	return s, nil
}

func (s size) check() error {
	switch {
	case s.cores < 0 || s.cores > maxCores:
		return fmt.Errorf("%d cores; 1 to %d are possible", s.cores, maxCores)
	case s.memory != 0 && (s.memory < minMemory || s.memory > maxMemory):
		return fmt.Errorf("%d MiB of memory; %d to %d are possible", s.memory, minMemory, maxMemory)
	case s.disk < 0 || s.disk > maxDisk:
		return fmt.Errorf("a disk of %d GiB; 1 to %d are possible", s.disk, maxDisk)
	}
	return nil
}

// over is s where it says something, and less where it does not.
func (s size) over(less size) size {
	if s.cores == 0 {
		s.cores = less.cores
	}
	if s.memory == 0 {
		s.memory = less.memory
	}
	if s.disk == 0 {
		s.disk = less.disk
	}
	return s
}

// bridge is where a network device is plugged in.
type bridge struct {
	name string
	vlan int // 0: untagged
}

var bridgeName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,14}$`) // an interface's name, IFNAMSIZ

// parseSubnet reads the id of a subnet: a bridge or virtual network, and behind a
// dot a VLAN.
func parseSubnet(id string) (bridge, error) {
	b := bridge{name: id}
	if at := strings.LastIndex(id, "."); at >= 0 {
		vlan, err := parseVLAN(id[at+1:])
		if err != nil {
			return bridge{}, fmt.Errorf("subnet %q: %w", id, err)
		}
		b = bridge{name: id[:at], vlan: vlan}
	}
	if !bridgeName.MatchString(b.name) {
		return bridge{}, fmt.Errorf(`subnet %q is not a bridge; write its name, such as "vmbr0", or with a VLAN "vmbr0.100"`, id)
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

// id is the subnet id of a bridge.
func (b bridge) id() string {
	if b.vlan != 0 {
		return b.name + "." + strconv.Itoa(b.vlan)
	}
	return b.name
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

// diskSize is the size in a disk's option, in bytes; 0 if it does not say.
func diskSize(option string) int64 {
	for part := range strings.SplitSeq(option, ",") {
		text, ok := strings.CutPrefix(part, "size=")
		if !ok || text == "" {
			continue
		}
		shift := map[byte]int{'K': 10, 'M': 20, 'G': 30, 'T': 40}[text[len(text)-1]]
		n, err := strconv.ParseFloat(strings.TrimRight(text, "KMGT"), 64)
		if err != nil {
			return 0
		}
		return int64(n * float64(int64(1)<<shift))
	}
	return 0
}
