package creation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// connect returns the first network device as the settings want it, and whether they want
// it otherwise than it is.
func connect(s rules.Settings, n rules.NIC) (rules.NIC, bool) {
	own := s.Config[rules.FirstNIC]
	if own != "" {
		n = rules.ParseNIC(own)
	}
	if s.Net.Name != "" {
		n = n.On(s.Net)
	}
	if s.Firewall != nil {
		n = n.Filtered(*s.Firewall)
	}
	return n, s.Net.Name != "" || s.Firewall != nil || own != ""
}

// SettingsOf reads what a request wants. Where arguments and the instance type
// speak of the same thing the argument counts, unless it is outranked; the subnet
// counts before arguments.
func SettingsOf(req driver.CreateRequest) (rules.Settings, error) {
	if err := checkRequest(req); err != nil {
		return rules.Settings{}, err
	}
	s, err := rules.ParseArgs(req.Args)
	typed, typeErr := rules.ParseType(req.InstanceType)
	first, last := s.Size.Split(req.Outranked)
	s.Size = first.Over(typed).Over(last)
	var subnetErr error
	if req.SubnetID != "" {
		s.Net, subnetErr = rules.ParseSubnet(req.SubnetID)
	}
	return s, errors.Join(err, typeErr, subnetErr)
}

func checkRequest(req driver.CreateRequest) error {
	if _, err := identity.ParseID(string(req.InstanceID)); err != nil {
		return err
	}
	if req.Owner.Cluster == "" || req.Owner.Shard == "" {
		return fmt.Errorf("%s: the owner has no cluster or no shard", req.InstanceID)
	}
	return rules.Capacity().Check(req)
}

// further are the options that a machine still has to be given: of drives those that an
// earlier try has not made, for each time makes another disk. has are the machine's
// drives, taken the template's.
func further(s rules.Settings, has map[string]string, taken []string) (map[string]string, error) {
	options := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Config)) {
		switch {
		case name == rules.FirstNIC: // see connect
		case rules.IsDrive(name) && slices.Contains(taken, name):
			return nil, api.Errorf(driver.Invalid, "args: Config: %s: the template has a drive there; choose another option, such as scsi5", name)
		case rules.IsDrive(name) && has[name] != "":
		default:
			options[name] = s.Config[name]
		}
	}
	return options, nil
}
