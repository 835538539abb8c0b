package proxmoxfake

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	driveName = regexp.MustCompile(`^(ide[0-3]|sata[0-5]|scsi([0-9]|[12][0-9]|30)|virtio([0-9]|1[0-5])|efidisk0|tpmstate0)$`)
	sizeForm  = regexp.MustCompile(`^(\+?)(\d+(\.\d+)?)([KMGT]?)$`)
	// cloudinitName is qemu-server's drive_is_cloudinit.
	cloudinitName = regexp.MustCompile(`[:/](vm-\d+-)?cloudinit(\.(raw|qcow2|vmdk))?$`)
	newDisk       = regexp.MustCompile(`^([^:/\s]+):(\d+(\.\d+)?)$`) // storage:GiB
)

// drive is the value of an option such as scsi0.
type drive struct {
	volume  string
	options []string // name=value
}

func parseDrive(value string) drive {
	parts := strings.Split(value, ",")
	return drive{strings.TrimPrefix(parts[0], "file="), parts[1:]}
}

func (d drive) cdrom() bool {
	return slices.Contains(d.options, "media=cdrom") || d.volume == "cdrom" || d.cloudinit()
}

// cloudinit reports whether it is a drive that Proxmox VE itself makes for cloud-init:
// storage:cloudinit in a call, storage:vm-100-cloudinit once it is made.
func (d drive) cloudinit() bool { return cloudinitName.MatchString(d.volume) }

// cloudinitDrive is the option of a configuration's cloud-init drive; empty: none.
func cloudinitDrive(config map[string]string) string {
	for _, option := range driveNames(config) {
		if parseDrive(config[option]).cloudinit() {
			return option
		}
	}
	return ""
}

// allocateCloudinit makes a machine's cloud-init drive on a storage and returns its option.
func (c *Cloud) allocateCloudinit(storage, node string, vmid int, now time.Time) (string, error) {
	s, err := c.store(storage, node)
	if err != nil {
		return "", err
	}
	v := volume{
		place: place(s, node), id: fmt.Sprintf("%s:vm-%d-cloudinit", storage, vmid),
		owner: vmid, format: "raw", size: 4 * MiB, made: now,
	}
	if c.room(s, node) < v.size {
		return "", noSpace(s, v)
	}
	c.allocate(v)
	return v.id + ",media=cdrom,size=4M", nil
}

// detach removes what nobody needs any more once a drive is taken out: a cloud-init drive.
// A disk stays.
func (c *Cloud) detach(m *machine, value string) {
	if d := parseDrive(value); d.cloudinit() {
		if v := c.find(d.volume, m.node); v != nil {
			c.release(v)
		}
	}
}

// sized returns the option's value with another size.
func (d drive) sized(size int64) string {
	parts := []string{d.volume}
	for _, o := range d.options {
		if !strings.HasPrefix(o, "size=") {
			parts = append(parts, o)
		}
	}
	return strings.Join(append(parts, "size="+sizeText(size)), ",")
}

// driveNames returns the options that are drives, in order of name.
func driveNames(config map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(config)), func(o string) bool { return !driveName.MatchString(o) })
}

// diskCount numbers the next disk of a machine.
func (c *Cloud) diskCount(vmid int) int {
	n := 0
	for _, v := range c.volumes {
		if v.owner == vmid {
			n++
		}
	}
	return n
}

// attach returns the value of a drive option once its volume stands, which it makes
// where the value asks for a new disk.
func (c *Cloud) attach(m *machine, value string, now time.Time) (string, error) {
	d := parseDrive(value)
	if d.volume == "none" || d.volume == "cdrom" {
		return value, nil
	}
	if storage, ok := strings.CutSuffix(d.volume, ":cloudinit"); ok {
		return c.allocateCloudinit(storage, m.node, m.id, now)
	}
	if parts := newDisk.FindStringSubmatch(d.volume); parts != nil {
		s, err := c.store(parts[1], m.node)
		if err != nil {
			return "", err
		}
		size, _ := strconv.ParseFloat(parts[2], 64)
		v := volume{
			place: place(s, m.node), id: fmt.Sprintf("%s:vm-%d-disk-%d", s.Name, m.id, c.diskCount(m.id)),
			owner: m.id, format: "raw", size: int64(size * GiB), made: now,
		}
		if c.room(s, m.node) < v.size {
			return "", noSpace(s, v)
		}
		c.allocate(v)
		d.volume = v.id
		return d.sized(v.size), nil
	}
	name, _, named := strings.Cut(d.volume, ":")
	if !named {
		return "", die("unable to parse drive options")
	}
	if _, err := c.store(name, m.node); err != nil {
		return "", err
	}
	v := c.find(d.volume, m.node)
	if v == nil {
		return "", die("volume '%s' does not exist", d.volume)
	}
	return d.sized(v.size), nil
}

// noSpace is what the storage says that cannot take a volume.
func noSpace(s Storage, v volume) error {
	_, name, _ := strings.Cut(v.id, ":")
	switch s.Type {
	case "lvm", "lvmthin":
		return die("lvcreate '%s/%s' error:   Volume group \"%s\" has insufficient free space (0 extents): %d required.",
			s.Name, name, s.Name, v.size/(4*MiB))
	case "zfspool":
		return die("zfs error: cannot create '%s/%s': out of space", s.Name, name)
	}
	return die("unable to create image: No space left on device")
}

// grow returns the size that a disk of a size gets, by what a resize asks for.
func grow(size int64, asked string) (int64, error) {
	parts := sizeForm.FindStringSubmatch(asked)
	if parts == nil {
		return 0, badParam("size", "value does not match the regex pattern")
	}
	n, _ := strconv.ParseFloat(parts[2], 64)
	unit := map[string]float64{"": 1, "K": 1 << 10, "M": MiB, "G": GiB, "T": 1 << 40}[parts[4]]
	to := int64(math.Ceil(n * unit))
	if parts[1] == "+" {
		to += size
	}
	if to < size {
		return 0, die("shrinking disks is not supported")
	}
	return to, nil
}
