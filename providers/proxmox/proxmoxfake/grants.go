package proxmoxfake

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The privileges that changes of a configuration take, as qemu-server checks them:
// check_vm_modify_config_perm when the call arrives, for options whose value does not
// matter; check_drive_perms and its siblings when the worker changes a device, for the
// device that was there and for the new one.

// rootOnly are options that no token may set, whatever its privileges.
var rootOnly = []string{"args", "affinity", "hookscript", "vmgenid"}

// deviceName are options whose privileges depend on their value.
var deviceName = regexp.MustCompile(`^(unused|serial|usb|hostpci|virtiofs)[0-9]+$`)

// mayChange returns what refuses a change of options before there is a worker.
func (c *Cloud) mayChange(r *request, names []string) error {
	for _, option := range names {
		if _, meta := configMeta[option]; meta || driveName.MatchString(option) || deviceName.MatchString(option) {
			continue
		}
		if err := r.mayOption(option); err != nil {
			return err
		}
	}
	return nil
}

func (r *request) mayOption(option string) error {
	p, known := options.find(option)
	switch {
	case slices.Contains(rootOnly, option), !known:
		return die("only root can set '%s' config", option)
	case p.grant == cloudinitOrNetwork:
		if r.may("VM.Config.Cloudinit") || r.may("VM.Config.Network") {
			return nil
		}
		return forbidden(r.path(), "VM.Config.Cloudinit|VM.Config.Network")
	}
	if err := r.need(r.path(), p.grant); err != nil {
		return err
	}
	if option == "startup" {
		return r.need("/", "Sys.Modify")
	}
	return nil
}

// mayDevice returns what refuses to put a device in, or to take it out.
func (c *Cloud) mayDevice(r *request, option, value string) error {
	switch {
	case value == "":
		return nil
	case driveName.MatchString(option):
		return r.mayDrive(parseDrive(value))
	case strings.HasPrefix(option, "net"):
		return r.mayBridge(value)
	case strings.HasPrefix(option, "serial"):
		if value != "socket" {
			return die("only root can modify '%s' config for real devices", option)
		}
		return r.need(r.path(), "VM.Config.HWType")
	case strings.HasPrefix(option, "usb"), strings.HasPrefix(option, "hostpci"):
		return r.mayPassThrough(option, value)
	}
	return nil
}

func (r *request) mayDrive(d drive) error {
	privileges := []string{"VM.Config.Disk"}
	switch {
	case d.cloudinit():
		privileges = []string{"VM.Config.Cloudinit", "VM.Config.CDROM"}
	case d.cdrom():
		privileges = []string{"VM.Config.CDROM"}
	}
	for _, p := range privileges {
		if err := r.need(r.path(), p); err != nil {
			return err
		}
	}
	return nil
}

// mayPassThrough checks a device of the host: a mapped one can be had by privileges.
func (r *request) mayPassThrough(option, value string) error {
	kind := map[bool]string{true: "usb", false: "pci"}[strings.HasPrefix(option, "usb")]
	mapping, mapped := property(value, "mapping")
	if !mapped {
		return die("only root can set '%s' config for non-mapped devices", option)
	}
	if err := r.need("/mapping/"+kind+"/"+mapping, "Mapping.Use"); err != nil {
		return err
	}
	return r.need(r.path(), "VM.Config.HWType")
}

// mayBridge checks that the caller may use the bridge of a network device, and its VLAN.
func (r *request) mayBridge(device string) error {
	bridge, has := property(device, "bridge")
	if !has {
		return nil
	}
	path := "/sdn/zones/localnetwork/" + bridge
	if tag, tagged := property(device, "tag"); tagged {
		path += "/" + tag
	}
	return r.need(path, "SDN.Use")
}

// mayBridges checks those of all network devices of a configuration.
func (r *request) mayBridges(config map[string]string) error {
	for _, option := range slices.Sorted(maps.Keys(config)) {
		if m := numbered.FindStringSubmatch(option); m != nil && m[1] == "net" {
			if err := r.mayBridge(config[option]); err != nil {
				return err
			}
		}
	}
	return nil
}

// property is one of a value such as virtio,bridge=vmbr0.
func property(value, name string) (string, bool) {
	for part := range strings.SplitSeq(value, ",") {
		if text, ok := strings.CutPrefix(part, name+"="); ok {
			return text, true
		}
	}
	return "", false
}

// below reports whether a path is one of some, or below one.
func below(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return root == "/" || path == root || strings.HasPrefix(path, fmt.Sprint(root, "/"))
	})
}
