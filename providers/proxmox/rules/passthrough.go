package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"nstance.dev/protos/identity"
)

// owned are options of a machine that the server sets itself, or that would keep it from
// its work, and what to do instead.
var owned = map[string]string{
	"name": "is the machine's identity", "tags": "say whose the machine is", "description": "holds the machine's notes", "template": "is not what a machine is",
	"cores": "is the argument Cores", "sockets": "is the argument Cores", "memory": "is the argument Memory", "onboot": "is the argument StartOnBoot",
	"boot": "is the template's disk", "bootdisk": "is the template's disk", SeedDrive: "is the machine's CD",
	"protection": "would keep the machine from being removed", "lock": "would keep the machine from being changed", "vmstate": "is not for a new machine",
	"args": "is for root alone", "hookscript": "is for root alone",
	"cicustom": ownSeed, "ciuser": ownSeed, "cipassword": ownSeed, "citype": ownSeed, "ciupgrade": ownSeed, "sshkeys": ownSeed, "nameserver": ownSeed, "searchdomain": ownSeed,
	"delete": notAnOption, "revert": notAnOption, "force": notAnOption, "digest": notAnOption, "skiplock": notAnOption, "background_delay": notAnOption,
	"node": notAnOption, "vmid": notAnOption, "import-working-storage": notAnOption,
}

const (
	ownSeed     = "is for machines with a cloud-init drive; these have a CD: use user data, or the argument NetworkConfig"
	notAnOption = "is not an option of a machine"
)

var (
	optionName  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)
	familyName  = regexp.MustCompile(`^(unused|ipconfig|net|serial|usb|hostpci)[0-9]{1,2}$`)
	furtherDisk = regexp.MustCompile(`^((scsi|virtio|sata|ide)[0-9]{1,2}|efidisk0|tpmstate0)$`)
	newDisk     = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9._-]*):[0-9]+(\.[0-9]+)?$`)
	isoFile     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*:iso/([^/]+)\.(iso|img)$`)
)

// setConfig reads the argument Config: options of the machine beside those that the server
// sets, in the API's own words.
func (s *Settings) setConfig(options map[string]any) error {
	s.Config = map[string]string{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value, err := optionText(options[name])
		if err == nil {
			err = s.checkMachineOption(name, value)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		s.Config[name] = value
	}
	return errors.Join(errs...)
}

// optionText is a value as the API takes it.
func optionText(value any) (string, error) {
	switch v := value.(type) {
	case bool:
		if v {
			return "1", nil
		}
		return "0", nil
	case nil, map[string]any, []any:
		return "", fmt.Errorf("is %v, must be one value", value)
	}
	return fmt.Sprint(value), nil
}

// checkMachineOption says why an option can't be set by the argument Config. What a machine
// may be given of the host and of other machines is refused here, whatever the token may.
func (s *Settings) checkMachineOption(name, value string) error {
	if why, is := owned[name]; is {
		return errors.New(why)
	}
	if !optionName.MatchString(name) {
		return errors.New("is no option of a machine; write it as qm set does, without the dashes")
	}
	family := ""
	if m := familyName.FindStringSubmatch(name); m != nil {
		family = m[1]
	}
	switch {
	case family == "unused":
		return errors.New("is not for a new machine")
	case family == "ipconfig":
		return errors.New(ownSeed)
	case s.draft && strings.Contains(value, "{{"):
		return nil
	case value == "" || strings.ContainsAny(value, "\n\r\x00"):
		return errors.New("must be one line of text")
	case furtherDisk.MatchString(name):
		return checkDrive(value)
	case family == "serial" && value != "socket":
		return errors.New(`must be "socket"; a device of the host is for root alone`)
	case (family == "usb" || family == "hostpci") && value != "spice" && !strings.HasPrefix(value, "mapping=") && !strings.Contains(value, ",mapping="):
		return errors.New(`must name a resource mapping, such as "mapping=gpu"; a device by its address is for root alone`)
	case family == "net" && name != FirstNIC && ParseNIC(value).Bridge().Name == "":
		return errors.New(`must name a bridge, such as "virtio,bridge=vmbr1,firewall=1"`)
	}
	return nil
}

// checkDrive says why a drive can't be added: it may be a new disk, or a CD that is no
// other machine's, and nothing that exists already.
func checkDrive(value string) error {
	volume, options, _ := strings.Cut(value, ",")
	if strings.Contains(","+options, ",import-from=") || strings.Contains(","+options, ",file=") {
		return errors.New("must be a new, empty disk; a disk that exists is the template's")
	}
	if newDisk.MatchString(volume) || volume == "none" {
		return nil
	}
	if m := isoFile.FindStringSubmatch(volume); m != nil && slices.Contains(strings.Split(options, ","), "media=cdrom") {
		if _, err := identity.ParseID(m[1]); err == nil {
			return errors.New("is the CD of a machine, which holds its user data")
		}
		return nil
	}
	return errors.New(`must be a new disk, such as "local-lvm:32" for 32 GiB, or a CD, such as "local:iso/drivers.iso,media=cdrom"`)
}

// IsDrive says whether an option of the argument Config is a drive that the machine gets
// beside its template's.
func IsDrive(name string) bool { return furtherDisk.MatchString(name) }

// NewDiskOn is the storage of the new disk that an option's value describes; "" if it is none.
func NewDiskOn(value string) string {
	volume, _, _ := strings.Cut(value, ",")
	if m := newDisk.FindStringSubmatch(volume); m != nil {
		return m[1]
	}
	return ""
}

// maxNetworkConfig is far more than the network of a machine takes.
const maxNetworkConfig = 64 << 10

// setNetworkConfig reads the argument NetworkConfig: cloud-init's network configuration, as
// text or as an object.
// Source: https://cloudinit.readthedocs.io/en/latest/reference/datasources/nocloud.html
func (s *Settings) setNetworkConfig(value any) error {
	text, is := value.(string)
	if object, ok := value.(map[string]any); ok {
		data, err := json.Marshal(object) // which is YAML
		if err != nil {
			return err
		}
		text, is = string(data), true
		_, wrapped := object["network"]
		if _, versioned := object["version"]; !versioned && !wrapped {
			return errors.New(`has no "version"; it is cloud-init's network configuration, version 1 or 2`)
		}
	}
	switch {
	case !is || strings.TrimSpace(text) == "":
		return errors.New("must be cloud-init's network configuration, as text or as an object")
	case len(text) > maxNetworkConfig:
		return fmt.Errorf("has %d bytes, at most %d are possible", len(text), maxNetworkConfig)
	}
	s.Network = text
	return nil
}
