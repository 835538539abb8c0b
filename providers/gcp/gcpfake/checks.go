package gcpfake

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// What an instance may look like.
// https://docs.cloud.google.com/compute/docs/naming-resources,
// https://docs.cloud.google.com/compute/docs/labeling-resources and
// https://docs.cloud.google.com/compute/docs/metadata/overview
var (
	nameForm       = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labelKeyForm   = regexp.MustCompile(`^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]{0,62}$`)
	labelValueForm = regexp.MustCompile(`^[\p{Ll}\p{Lo}\p{N}_-]{0,63}$`)
	metadataForm   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

const (
	maxLabels        = 64
	maxMetadataValue = 256 << 10
	maxMetadata      = 512 << 10
)

// checked makes a machine of a request's body, or says what is wrong with it. What
// the service fills in by itself is filled in.
func (c *Cloud) checked(zone string, asked *computepb.Instance) (*instance, error) {
	i := &instance{pb: proto.CloneOf(asked), zone: zone}
	for _, check := range []func(*instance) error{
		checkName, c.checkType, c.checkDisks, c.checkInterfaces, checkLabels, checkMetadata, checkScheduling, checkOutput, c.checkReferences,
	} {
		if err := check(i); err != nil {
			return nil, err
		}
	}
	c.fillIn(i)
	return i, nil
}

func checkName(i *instance) error {
	switch name := i.pb.GetName(); {
	case name == "":
		return required("resource.name")
	case !nameForm.MatchString(name):
		return invalidField("resource.name", name, "Must be a match of regex '%s'", "(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)")
	}
	return nil
}

func (c *Cloud) checkType(i *instance) (err error) {
	if i.pb.GetMachineType() == "" {
		return required("resource.machineType")
	}
	i.kind, err = c.typeOf(i.zone, i.pb.GetMachineType(), "resource.machineType")
	return err
}

// checkDisks asks for one boot disk, made of an image of the machine's architecture.
func (c *Cloud) checkDisks(i *instance) error {
	if len(i.pb.GetDisks()) == 0 {
		return invalidField("resource.disks", "", "No disks are specified.")
	}
	for n, disk := range i.pb.GetDisks() {
		field := fmt.Sprintf("resource.disks[%d]", n)
		if disk.GetBoot() != (n == 0) {
			return invalidField(field+".boot", fmt.Sprint(disk.GetBoot()), "Boot disk must be the first disk attached to the instance.")
		}
		from := disk.GetInitializeParams().GetSourceImage()
		if n > 0 && from == "" && disk.GetType() == "SCRATCH" {
			continue // a local SSD: it is empty, and its size is that of its kind
		}
		if n > 0 && from == "" && disk.GetInitializeParams().GetDiskSizeGb() > 0 {
			continue // an empty one
		}
		if from == "" {
			return invalidField(field, "", "This fake makes disks of images only: initializeParams.sourceImage is missing.")
		}
		image, err := c.imageOf(from, field+".initializeParams.sourceImage")
		if err != nil {
			return err
		}
		if n == 0 && image.Arch != i.kind.Arch {
			return invalidField("resource.machineType", i.pb.GetMachineType(),
				"The architecture of the machine type, %s, does not match that of the boot disk, %s.", i.kind.Arch, image.Arch)
		}
		disk.Kind, disk.Index = new("compute#attachedDisk"), proto.Int32(int32(n)) //nolint:gosec // there are few disks
		disk.Type, disk.Mode = new("PERSISTENT"), new("READ_WRITE")
		disk.Source = new(c.link("zones/" + i.zone + "/disks/" + diskName(i, disk)))
		disk.InitializeParams = nil // the service does not show them again
	}
	return nil
}

func diskName(i *instance, disk *computepb.AttachedDisk) string {
	if name := disk.GetInitializeParams().GetDiskName(); name != "" {
		return name
	}
	if disk.GetBoot() {
		return i.pb.GetName()
	}
	return i.pb.GetName() + "-" + disk.GetDeviceName()
}

// checkInterfaces asks for one interface, which is what machines here have.
func (c *Cloud) checkInterfaces(i *instance) (err error) {
	nics := i.pb.GetNetworkInterfaces()
	if len(nics) != 1 {
		return invalidField("resource.networkInterfaces", fmt.Sprint(len(nics)), "This fake gives a machine exactly one network interface.")
	}
	const field = "resource.networkInterfaces[0]"
	nic := nics[0]
	if i.subnet, err = c.subnetOf(nic, field); err != nil {
		return err
	}
	if wanted := nic.GetNetworkIP(); wanted != "" {
		addr, err := netip.ParseAddr(wanted)
		if err != nil || !i.subnet.usable(addr) {
			return invalidField(field+".networkIP", wanted, "IP address is not in the range of the subnetwork.")
		}
	}
	if err := checkAliases(i.subnet, nic.GetAliasIpRanges(), field); err != nil {
		return err
	}
	nic.Kind, nic.Name = new("compute#networkInterface"), new("nic0")
	nic.Network = new(c.link("global/networks/" + i.subnet.Network))
	nic.Subnetwork = new(c.link(i.subnet.path(c)))
	if nic.StackType == nil {
		nic.StackType = new("IPV4_ONLY")
	}
	return nil
}

// checkAliases asks that alias ranges lie within the range that they name, or within
// the primary one.
func checkAliases(s *subnet, aliases []*computepb.AliasIpRange, field string) error {
	for n, alias := range aliases {
		field := fmt.Sprintf("%s.aliasIpRanges[%d]", field, n)
		within := s.prefix
		if name := alias.GetSubnetworkRangeName(); name != "" {
			var ok bool
			if within, ok = s.secondary[name]; !ok {
				return invalidField(field+".subnetworkRangeName", name, "Subnetwork has no such secondary range.")
			}
		}
		of := aliasPrefix(alias)
		if !of.IsValid() || of.Bits() < within.Bits() || !within.Contains(of.Addr()) {
			return invalidField(field+".ipCidrRange", alias.GetIpCidrRange(), "Alias IP range must be a subset of the range %s of the subnetwork.", within)
		}
	}
	return nil
}

// aliasPrefix reads an alias range: a range, or a single address. The zero prefix is
// none.
func aliasPrefix(alias *computepb.AliasIpRange) netip.Prefix {
	text := alias.GetIpCidrRange()
	if addr, err := netip.ParseAddr(text); err == nil {
		return single(addr)
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p != p.Masked() {
		return netip.Prefix{}
	}
	return p
}

func checkLabels(i *instance) error { return validLabels(i.pb.GetLabels()) }

func validLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalidField("resource.labels", "", "The resource can have at most %d labels.", maxLabels)
	}
	for key, value := range labels {
		if !labelKeyForm.MatchString(key) {
			return invalidField("resource.labels", "", "Label key '%s' violates format constraints. The key must start with a lowercase character, "+
				"can only contain lowercase letters, numeric characters, underscores and dashes. The key can be at most 63 characters long.", key)
		}
		if !labelValueForm.MatchString(value) {
			return invalidField("resource.labels", "", "Label value '%s' violates format constraints. The value can only contain lowercase letters, "+
				"numeric characters, underscores and dashes. The value can be at most 63 characters long.", value)
		}
	}
	return nil
}

func checkMetadata(i *instance) error {
	var keys []string
	total := 0
	for n, item := range i.pb.GetMetadata().GetItems() {
		field := fmt.Sprintf("resource.metadata.items[%d]", n)
		key, value := item.GetKey(), item.GetValue()
		total += len(key) + len(value)
		switch {
		case !metadataForm.MatchString(key):
			return invalidField(field+".key", key, "Must be a match of regex '[a-zA-Z0-9-_]{1,128}'")
		case slices.Contains(keys, key):
			return invalidField("resource.metadata", key, "Duplicate metadata key.")
		case len(value) > maxMetadataValue:
			return invalidField(field+".value", "…", "Metadata value is too large: %d > %d bytes.", len(value), maxMetadataValue)
		}
		keys = append(keys, key)
	}
	if total > maxMetadata {
		return invalidField("resource.metadata", "…", "Metadata is too large: %d > %d bytes.", total, maxMetadata)
	}
	return nil
}

// checkScheduling knows what must go with a machine that may be taken away, and with
// one that cannot be moved while it runs.
func checkScheduling(i *instance) error {
	if i.pb.Scheduling == nil {
		i.pb.Scheduling = &computepb.Scheduling{}
	}
	s := i.pb.Scheduling
	model := s.GetProvisioningModel()
	if model != "" && model != "SPOT" && model != "STANDARD" {
		return invalidField("resource.scheduling.provisioningModel", model, "The value is not one of SPOT, STANDARD.")
	}
	spot := model == "SPOT" || s.GetPreemptible()
	maintenance := s.GetOnHostMaintenance()
	needsStop := spot || i.kind.GPUs > 0 || len(i.pb.GetGuestAccelerators()) > 0
	switch {
	case maintenance != "" && maintenance != "MIGRATE" && maintenance != "TERMINATE":
		return invalidField("resource.scheduling.onHostMaintenance", maintenance, "The value is not one of MIGRATE, TERMINATE.")
	case spot && s.GetAutomaticRestart():
		return badRequest("Scheduling must have preemptible be false when AutomaticRestart is true.")
	case needsStop && maintenance == "MIGRATE":
		return badRequest("Spot machines and instances with guest accelerators do not support live migration.")
	case s.GetInstanceTerminationAction() != "" && !spot:
		return badRequest("Instance termination action is not supported for machines that are not spot.")
	}
	if maintenance == "" {
		s.OnHostMaintenance = new("MIGRATE")
		if needsStop {
			s.OnHostMaintenance = new("TERMINATE")
		}
	}
	s.Preemptible = &spot
	s.ProvisioningModel = new("STANDARD")
	if spot {
		s.ProvisioningModel = new("SPOT")
	}
	if s.AutomaticRestart == nil {
		s.AutomaticRestart = new(!spot)
	}
	return nil
}

// checkOutput refuses a request that says what only the service says.
func checkOutput(i *instance) error {
	if i.pb.Status != nil || i.pb.Id != nil || i.pb.CreationTimestamp != nil {
		return badRequest("Invalid value for field 'resource': ''. status, id and creationTimestamp are output only.")
	}
	return nil
}

// checkReferences refuses what the project does not have: resource policies, and
// service accounts of others.
func (c *Cloud) checkReferences(i *instance) error {
	for _, ref := range i.pb.GetResourcePolicies() {
		_, path := c.below(ref)
		return notFound(c.path(path))
	}
	accounts := i.pb.GetServiceAccounts()
	if len(accounts) > 1 {
		return invalidField("resource.serviceAccounts", fmt.Sprint(len(accounts)), "At most one service account may be specified.")
	}
	for _, a := range accounts {
		if email := a.GetEmail(); email != "default" && !strings.HasSuffix(email, "@"+c.opts.Project+".iam.gserviceaccount.com") &&
			!strings.HasSuffix(email, "-compute@developer.gserviceaccount.com") {
			return &apiError{400, "invalid", fmt.Sprintf("The resource '%s' of type 'serviceAccount' was not found.", email), ""}
		}
	}
	return nil
}

// fillIn says what the service says of a new machine.
func (c *Cloud) fillIn(i *instance) {
	id := c.id()
	i.pb.Id, i.pb.Kind = &id, new("compute#instance")
	i.pb.CreationTimestamp = new(stamp(c.now))
	i.pb.Zone = new(c.link("zones/" + i.zone))
	i.pb.SelfLink = new(c.link(i.below()))
	i.pb.MachineType = new(c.link("zones/" + i.zone + "/machineTypes/" + i.kind.Name))
	i.pb.CpuPlatform = new("Unknown CPU Platform")
	i.pb.LabelFingerprint = new(fingerprint("labels", fmt.Sprint(i.pb.GetLabels())))
	i.pb.Fingerprint = new(fingerprint("instance", fmt.Sprint(id)))
	i.pb.GetNetworkInterfaces()[0].Fingerprint = new(fingerprint("nic", fmt.Sprint(c.id())))
	if m := i.pb.GetMetadata(); m != nil {
		m.Kind, m.Fingerprint = new("compute#metadata"), new(fingerprint("metadata", m.String()))
	}
	if t := i.pb.GetTags(); t != nil {
		t.Fingerprint = new(fingerprint(t.GetItems()...))
	}
	for n, access := range i.pb.GetNetworkInterfaces()[0].GetAccessConfigs() {
		access.Kind, access.NatIP = new("compute#accessConfig"), new(fmt.Sprintf("203.0.113.%d", (id+uint64(n))%250+1)) //nolint:gosec // n is small
	}
}
