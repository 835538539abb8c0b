package proxmox

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// template is what a machine is cloned from.
type template struct {
	at
	need        need
	storages    []string // of its disks, in order
	drives      []string // options that are taken, in order
	description string
}

// hardware is what a configuration says of a machine that matters here.
type hardware struct {
	disk     string            // the option of the disk that it boots from; empty: none
	size     int64             // of that disk, in bytes; 0: not known
	storages []string          // of all disks, in order
	nic      rules.NIC         // the first network device, its hardware address left out
	drives   map[string]string // by option, CDs too
	seeds    []string          // options of CDs that Proxmox VE itself makes for cloud-init
}

// The options of drives, in the order in which a machine without a boot order tries them.
var driveForm = regexp.MustCompile(`^(scsi|virtio|sata|ide)[0-9]+$`)

func hardwareOf(c *pve.VirtualMachineConfig) hardware {
	h := hardware{drives: map[string]string{}}
	for option, value := range map[string]string{"efidisk0": c.EFIDisk0, "tpmstate0": c.TPMState0} {
		if value != "" {
			h.drives[option] = value
		}
	}
	drives := map[string]string{}
	for _, bus := range []map[string]string{c.SCSIs, c.VirtIOs, c.SATAs, c.IDEs} {
		for _, option := range sortedKeys(bus) {
			value := bus[option]
			h.drives[option] = value
			volume, _, _ := strings.Cut(value, ",")
			switch {
			case strings.HasSuffix(volume, ":cloudinit"), strings.Contains(volume, "-cloudinit"):
				h.seeds = append(h.seeds, option)
				continue
			case strings.Contains(value, "media=cdrom"), volume == "none":
				continue
			}
			drives[option] = value
			h.storages = append(h.storages, storageOf(volume))
			if h.disk == "" {
				h.disk = option
			}
		}
	}
	slices.Sort(h.storages)
	h.storages = slices.Compact(h.storages)
	for option := range strings.SplitSeq(strings.TrimPrefix(c.Boot, "order="), ";") {
		if _, is := drives[option]; is && driveForm.MatchString(option) {
			h.disk = option
			break
		}
	}
	h.size = diskSize(drives[h.disk])
	h.nic = rules.ParseNIC(c.Nets[rules.FirstNIC])
	h.nic.MAC = ""
	return h
}

func templateOf(m at, c *pve.VirtualMachineConfig) template {
	h := hardwareOf(c)
	t := template{at: m, storages: h.storages, drives: sortedKeys(h.drives), description: c.Description}
	t.need = need{memory: int64(c.Memory) << 20, cores: 1}
	if t.need.memory == 0 {
		t.need.memory = 512 << 20 // the default of the option
	}
	if c.Cores != nil {
		t.need.cores = float64(*c.Cores)
	}
	if c.Sockets != nil {
		t.need.cores *= float64(*c.Sockets)
	}
	return t
}

// needs is what a machine of these settings takes, if it is cloned from t.
func (t template) needs(want rules.Settings) need {
	n := t.need
	if want.Size.Memory != 0 {
		n.memory = want.Size.Memory << 20
	}
	if want.Size.Cores != 0 {
		n.cores = float64(want.Size.Cores)
	}
	return n
}

// templates returns the templates that the settings mean, by node. An error is of
// kind MissingRef or Invalid.
func (c cluster) templates(want rules.Settings) (map[string]at, error) {
	found, away := map[string]at{}, 0
	for _, s := range c.machines {
		if !s.template || want.TemplateVMID != 0 && s.vmid != want.TemplateVMID || want.TemplateVMID == 0 && s.name != want.TemplateName {
			continue
		}
		if !c.online[s.node] {
			away++
			continue
		}
		if other, twice := found[s.node]; twice {
			return nil, be(driver.Invalid,
				"TemplateName: node %s has templates %d and %d of the name %q; rename one, or give TemplateVMID",
				s.node, other.vmid, s.vmid, want.TemplateName)
		}
		found[s.node] = s.at
	}
	switch {
	case len(found) > 0:
		return found, nil
	case away > 0:
		return nil, be(driver.Transient, "every node that has the template is away")
	case want.TemplateVMID != 0:
		return nil, be(driver.MissingRef, "TemplateVMID: no template has the number %d", want.TemplateVMID)
	}
	return nil, be(driver.MissingRef, "TemplateName: no node has a template of the name %q", want.TemplateName)
}

// sources says for each node what a machine on it can be cloned from. A node
// without a template of its own takes that of another one, if everything lies on
// storages that both see.
func (c cluster) sources(own map[string]at, first template, want rules.Settings, isoStorage string) map[string]at {
	from := maps.Clone(own)
	everywhere := c.shares(want.Storage) && !slices.ContainsFunc(first.storages, func(s string) bool { return !c.shares(s) })
	for name := range c.online {
		if _, has := from[name]; !has && everywhere {
			from[name] = first.at
		}
	}
	maps.DeleteFunc(from, func(name string, t at) bool {
		for _, s := range append(furtherStorages(want), want.Storage, isoStorage) {
			if !c.holds(s, name) {
				return true
			}
		}
		return t.node != name && slices.ContainsFunc(first.storages, func(s string) bool { return !c.holds(s, name) })
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
