package proxmoxfake

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

var configMeta = schema{
	"skiplock":         {kind: "boolean"},
	"delete":           {format: configID, like: "configuration ID"},
	"revert":           {format: configID, like: "configuration ID"},
	"force":            {kind: "boolean"},
	"digest":           {length: 40},
	"background_delay": {kind: "integer", min: 1, max: 30},
}

// cloudinitOrNetwork stands for two privileges, either of which will do.
const cloudinitOrNetwork = "VM.Config.Cloudinit|VM.Config.Network"

// options are those of a machine's configuration that the API lets a caller set. What
// changes take beside the privilege named here says mayDevice.
var options = schema{
	"acpi":         {kind: "boolean", grant: "VM.Config.HWType"},
	"agent":        {grant: "VM.Config.Options"},
	"affinity":     {},
	"allow-ksm":    {kind: "boolean", grant: "VM.Config.Memory"},
	"args":         {},
	"audio0":       {grant: "VM.Config.HWType"},
	"autostart":    {kind: "boolean", grant: "VM.Config.Options"},
	"balloon":      {kind: "integer", grant: "VM.Config.Memory"},
	"bios":         {enum: []string{"seabios", "ovmf"}, grant: "VM.Config.Options"},
	"boot":         {grant: "VM.Config.Disk"},
	"bootdisk":     {grant: "VM.Config.Disk"},
	"cicustom":     {grant: cloudinitOrNetwork},
	"cipassword":   {grant: cloudinitOrNetwork},
	"citype":       {enum: []string{"configdrive2", "nocloud", "opennebula"}, grant: cloudinitOrNetwork},
	"ciupgrade":    {kind: "boolean", grant: cloudinitOrNetwork},
	"ciuser":       {grant: cloudinitOrNetwork},
	"cores":        {kind: "integer", min: 1, grant: "VM.Config.CPU"},
	"cpu":          {grant: "VM.Config.CPU"},
	"cpulimit":     {kind: "number", grant: "VM.Config.CPU"},
	"cpuunits":     {kind: "integer", min: 1, grant: "VM.Config.CPU"},
	"description":  {length: 8192, grant: "VM.Config.Options"},
	"hookscript":   {},
	"hostpci[n]":   {grant: "VM.Config.HWType"},
	"hotplug":      {grant: "VM.Config.HWType"},
	"ipconfig[n]":  {grant: cloudinitOrNetwork},
	"kvm":          {kind: "boolean", grant: "VM.Config.HWType"},
	"machine":      {grant: "VM.Config.HWType"},
	"memory":       {format: regexp.MustCompile(`^(current=)?\d+$`), like: "memory property string", grant: "VM.Config.Memory"},
	"name":         {format: dnsName, like: "DNS name", grant: "VM.Config.Options"},
	"nameserver":   {grant: cloudinitOrNetwork},
	"net[n]":       {grant: "VM.Config.Network"},
	"numa":         {kind: "boolean", grant: "VM.Config.CPU"},
	"numa[n]":      {grant: "VM.Config.CPU"},
	"onboot":       {kind: "boolean", grant: "VM.Config.Options"},
	"ostype":       {enum: []string{"other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11", "l24", "l26", "solaris"}, grant: "VM.Config.Options"},
	"protection":   {kind: "boolean", grant: "VM.Config.Options"},
	"rng0":         {grant: "VM.Config.HWType"},
	"scsihw":       {enum: []string{"lsi", "lsi53c810", "virtio-scsi-pci", "virtio-scsi-single", "megasas", "pvscsi"}, grant: "VM.Config.HWType"},
	"searchdomain": {grant: cloudinitOrNetwork},
	"serial[n]":    {grant: "VM.Config.HWType"},
	"smbios1":      {grant: "VM.Config.HWType"},
	"sockets":      {kind: "integer", min: 1, grant: "VM.Config.CPU"},
	"sshkeys":      {grant: cloudinitOrNetwork},
	"startup":      {grant: "VM.Config.Options"},
	"tablet":       {kind: "boolean", grant: "VM.Config.HWType"},
	"tags":         {format: tagList, like: "tag list", grant: "VM.Config.Options"},
	"usb[n]":       {grant: "VM.Config.HWType"},
	"vcpus":        {kind: "integer", min: 1, grant: "VM.Config.CPU"},
	"vga":          {grant: "VM.Config.HWType"},
	"vmgenid":      {},
	"watchdog":     {grant: "VM.Config.HWType"},
	"efidisk[n]":   {grant: "VM.Config.Disk"},
	"ide[n]":       {grant: "VM.Config.Disk"},
	"sata[n]":      {grant: "VM.Config.Disk"},
	"scsi[n]":      {grant: "VM.Config.Disk"},
	"tpmstate[n]":  {grant: "VM.Config.Disk"},
	"virtio[n]":    {grant: "VM.Config.Disk"},
}

var configSchema = func() schema {
	all := maps.Clone(options)
	maps.Copy(all, configMeta)
	return all
}()

func (c *Cloud) getConfig(r *request) (any, error) {
	m, err := c.machine(r)
	if err != nil {
		return nil, err
	}
	config := map[string]any{"digest": m.digest()}
	for option, value := range m.config {
		config[option] = value
		if p, _ := options.find(option); p.kind == "integer" || p.kind == "boolean" || option == "template" {
			if n, err := strconv.Atoi(value); err == nil {
				config[option] = n
			}
		}
	}
	return config, nil
}

// setConfig changes options: at once, or by a task.
func setConfig(async bool) func(*Cloud, *request) (any, error) {
	return func(c *Cloud, r *request) (any, error) {
		m, err := c.machine(r)
		if err != nil {
			return nil, err
		}
		if err := c.checkConfig(m, r); err != nil {
			return nil, err
		}
		if !async {
			return nil, c.applyConfig(m, r, r.now)
		}
		return c.fork(r, "qmconfig", strconv.Itoa(m.id), m.name(), func(t *task, now time.Time) {
			c.holding(t, now, m.id, c.opts.takes("qmconfig"), func(now time.Time) {
				if err := c.applyAgain(m, r, now); err != nil {
					t.fail(now, err)
					return
				}
				t.end(now, "OK")
			})
		}), nil
	}
}

// checkConfig is done before anything changes.
func (c *Cloud) checkConfig(m *machine, r *request) error {
	if r.params["skiplock"] != "" {
		return badParam("skiplock", "Only root may use this option.")
	}
	if digest := r.params["digest"]; digest != "" && digest != m.digest() {
		return die("detected modified configuration - file changed by other user? Try again.")
	}
	for _, names := range [][]string{deleted(r.params), slices.Sorted(maps.Keys(r.params))} {
		if err := c.mayChange(r, names); err != nil {
			return err
		}
	}
	if err := r.mayBridges(r.params); err != nil {
		return err
	}
	for _, option := range deleted(r.params) {
		if _, set := r.params[option]; set {
			return badParam("delete", "you can't use '-%s' and -delete %s' at the same time", option, option)
		}
	}
	return m.locked()
}

func deleted(params map[string]string) []string {
	if params["delete"] == "" {
		return nil
	}
	return strings.Split(params["delete"], ",")
}

// applyAgain is the worker of a change: things may be different by now.
func (c *Cloud) applyAgain(m *machine, r *request, now time.Time) error {
	if c.machines[m.id] != m {
		return noConfig(r.node, m.id)
	}
	if err := c.checkConfig(m, r); err != nil {
		return err
	}
	return c.applyConfig(m, r, now)
}

func (c *Cloud) applyConfig(m *machine, r *request, now time.Time) error {
	config := maps.Clone(m.config)
	for _, option := range deleted(r.params) {
		if err := c.mayDevice(r, option, config[option]); err != nil {
			return err
		}
		c.detach(m, config[option])
		delete(config, option)
	}
	for _, option := range slices.Sorted(maps.Keys(r.params)) {
		if _, meta := configMeta[option]; meta || option == "boot" {
			continue
		}
		for _, value := range []string{config[option], r.params[option]} { // the old one, and the new one
			if err := c.mayDevice(r, option, value); err != nil {
				return err
			}
		}
		if other := cloudinitDrive(config); parseDrive(r.params[option]).cloudinit() && other != "" && other != option {
			return die("%s - cloud-init drive is already attached at '%s'", option, other)
		}
		if driveName.MatchString(option) {
			c.detach(m, config[option])
		}
		value, err := c.option(m, r, option, now)
		if err != nil {
			return err
		}
		config[option] = value
	}
	if boot := r.params["boot"]; boot != "" {
		if err := checkBoot(boot, config); err != nil {
			return err
		}
		config["boot"] = boot
	}
	m.config = config
	return nil
}

// option returns what an option's value becomes.
func (c *Cloud) option(m *machine, r *request, option string, now time.Time) (string, error) {
	value := r.params[option]
	p, _ := options.find(option)
	switch {
	case driveName.MatchString(option):
		return c.attach(m, value, now)
	case option == "description":
		return strings.TrimRightFunc(value, unicode.IsSpace), nil // so it comes back from the file
	case option == "tags":
		return uniqueTags(value), nil
	case strings.HasPrefix(option, "net"):
		if !strings.Contains(strings.Split(value, ",")[0], "=") {
			value = newAddress(value, m.id)
		}
		return value, nil
	case p.kind == "boolean":
		on, _ := truth(value)
		return strconv.Itoa(bit(on)), nil
	}
	return value, nil
}

// uniqueTags is a list of tags as the cluster keeps it: lower case, sorted, each once.
func uniqueTags(list string) string {
	tags := strings.FieldsFunc(strings.ToLower(list), func(r rune) bool { return strings.ContainsRune(";, ", r) })
	slices.Sort(tags)
	return strings.Join(slices.Compact(tags), ";")
}

// checkBoot checks that the devices of a boot order exist.
func checkBoot(boot string, config map[string]string) error {
	order, ok := strings.CutPrefix(boot, "order=")
	if !ok {
		return nil
	}
	for device := range strings.SplitSeq(order, ";") {
		if _, exists := config[device]; !exists {
			return die("invalid bootorder: device '%s' does not exist'", device)
		}
	}
	return nil
}
