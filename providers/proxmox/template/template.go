// Package template says what a machine can be cloned from, and reads of a configuration what
// a clone is made of. It is pure.
package template

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/cluster"
	"nstance.dev/providers/proxmox/placement"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// Template is what a machine is cloned from.
type Template struct {
	api.VM
	need        placement.Need
	Storages    []string // of its disks, in order
	Drives      []string // options that are taken, in order
	Description string
}

// Hardware is what a configuration says of a machine that matters here.
type Hardware struct {
	Disk     string            // the option of the disk that it boots from; empty: none
	Size     int64             // of that disk, in bytes; 0: not known
	storages []string          // of all disks, in order
	NIC      rules.NIC         // the first network device, its hardware address left out
	Drives   map[string]string // by option, CDs too
	Seeds    []string          // options of CDs that Proxmox VE itself makes for cloud-init
}

// The options of drives, in the order in which a machine without a boot order tries them.
var driveForm = regexp.MustCompile(`^(scsi|virtio|sata|ide)[0-9]+$`)

// HardwareOf reads a machine's configuration.
func HardwareOf(c *pve.VirtualMachineConfig) Hardware {
	h := Hardware{Drives: map[string]string{}}
	for option, value := range map[string]string{"efidisk0": c.EFIDisk0, "tpmstate0": c.TPMState0} {
		if value != "" {
			h.Drives[option] = value
		}
	}
	drives := map[string]string{}
	for _, bus := range []map[string]string{c.SCSIs, c.VirtIOs, c.SATAs, c.IDEs} {
		for _, option := range slices.Sorted(maps.Keys(bus)) {
			value := bus[option]
			h.Drives[option] = value
			volume, _, _ := strings.Cut(value, ",")
			switch {
			case strings.HasSuffix(volume, ":cloudinit"), strings.Contains(volume, "-cloudinit"):
				h.Seeds = append(h.Seeds, option)
				continue
			case strings.Contains(value, "media=cdrom"), volume == "none":
				continue
			}
			drives[option] = value
			h.storages = append(h.storages, api.StorageOf(volume))
			if h.Disk == "" {
				h.Disk = option
			}
		}
	}
	slices.Sort(h.storages)
	h.storages = slices.Compact(h.storages)
	for option := range strings.SplitSeq(strings.TrimPrefix(c.Boot, "order="), ";") {
		if _, is := drives[option]; is && driveForm.MatchString(option) {
			h.Disk = option
			break
		}
	}
	h.Size = diskSize(drives[h.Disk])
	h.NIC = rules.ParseNIC(c.Nets[rules.FirstNIC])
	h.NIC.MAC = ""
	return h
}

// Of is the template at a place, by its configuration.
func Of(m api.VM, c *pve.VirtualMachineConfig) Template {
	h := HardwareOf(c)
	t := Template{VM: m, Storages: h.storages, Drives: slices.Sorted(maps.Keys(h.Drives)), Description: c.Description}
	t.need = placement.Need{Memory: int64(c.Memory) << 20, Cores: 1}
	if t.need.Memory == 0 {
		t.need.Memory = 512 << 20 // the default of the option
	}
	if c.Cores != nil {
		t.need.Cores = float64(*c.Cores)
	}
	if c.Sockets != nil {
		t.need.Cores *= float64(*c.Sockets)
	}
	return t
}

// Needs is what a machine of these settings takes, if it is cloned from t.
func (t Template) Needs(want rules.Settings) placement.Need {
	n := t.need
	if want.Size.Memory != 0 {
		n.Memory = want.Size.Memory << 20
	}
	if want.Size.Cores != 0 {
		n.Cores = float64(want.Size.Cores)
	}
	return n
}

// Find returns the templates that the settings mean, by node. An error is of
// kind MissingRef or Invalid.
func Find(c cluster.State, want rules.Settings) (map[string]api.VM, error) {
	found, away := map[string]api.VM{}, 0
	for _, s := range c.Machines {
		if !s.Template || want.TemplateVMID != 0 && s.Number != want.TemplateVMID || want.TemplateVMID == 0 && s.Name != want.TemplateName {
			continue
		}
		if !c.Online[s.Node] {
			away++
			continue
		}
		if other, twice := found[s.Node]; twice {
			return nil, api.Errorf(driver.Invalid,
				"TemplateName: node %s has templates %d and %d of the name %q; rename one, or give TemplateVMID",
				s.Node, other.Number, s.Number, want.TemplateName)
		}
		found[s.Node] = s.VM
	}
	switch {
	case len(found) > 0:
		return found, nil
	case away > 0:
		return nil, api.Errorf(driver.Transient, "every node that has the template is away")
	case want.TemplateVMID != 0:
		return nil, api.Errorf(driver.MissingRef, "TemplateVMID: no template has the number %d", want.TemplateVMID)
	}
	return nil, api.Errorf(driver.MissingRef, "TemplateName: no node has a template of the name %q", want.TemplateName)
}

// Sources says for each node what a machine on it can be cloned from. A node
// without a template of its own takes that of another one, if everything lies on
// storages that both see.
func Sources(c cluster.State, own map[string]api.VM, first Template, want rules.Settings, isoStorage string) map[string]api.VM {
	from := maps.Clone(own)
	everywhere := c.Shares(want.Storage) && !slices.ContainsFunc(first.Storages, func(s string) bool { return !c.Shares(s) })
	for name := range c.Online {
		if _, has := from[name]; !has && everywhere {
			from[name] = first.VM
		}
	}
	maps.DeleteFunc(from, func(name string, t api.VM) bool {
		for _, s := range append(furtherStorages(want), want.Storage, isoStorage) {
			if !c.Holds(s, name) {
				return true
			}
		}
		return t.Node != name && slices.ContainsFunc(first.Storages, func(s string) bool { return !c.Holds(s, name) })
	})
	return from
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

// furtherStorages are the storages of new disks.
func furtherStorages(s rules.Settings) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Config)) {
		if storage := rules.NewDiskOn(s.Config[name]); storage != "" && rules.IsDrive(name) {
			names = append(names, storage)
		}
	}
	return names
}
