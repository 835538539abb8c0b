package instances

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"unicode/utf8"

	compute "cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp/api"
	"nstance.dev/providers/gcp/rules"
	"nstance.dev/server/driver"
)

// draft is an instance on its way: what its arguments say, its boot disk among its disks,
// and its first network interface.
type draft struct {
	*compute.Instance
	nic *compute.NetworkInterface
}

// draftOf is the instance that rendered arguments describe.
func draftOf(args map[string]any) (*draft, error) {
	data, err := rules.Instance(args)
	if err != nil {
		return nil, err
	}
	made := new(compute.Instance)
	if err := proto.Unmarshal(data, made); err != nil {
		return nil, err
	}
	return &draft{Instance: made, nic: made.NetworkInterfaces[0]}, nil
}

// instanceOf is the instance that a request asks for. Equal requests give equal
// instances.
func instanceOf(p api.Place, req driver.CreateRequest) (*compute.Instance, error) {
	if _, err := identity.ParseID(string(req.InstanceID)); err != nil {
		return nil, err
	}
	net, err := p.Subnet(req.SubnetID)
	switch {
	case req.Owner.Cluster == "" || req.Owner.Shard == "":
		return nil, fmt.Errorf("%s: the owner has no cluster or no shard", req.InstanceID)
	case req.InstanceType == "":
		return nil, fmt.Errorf("%s: no instance type is given", req.InstanceID)
	case err != nil:
		return nil, err
	}
	if err := capacity.Check(req); err != nil {
		return nil, fmt.Errorf("%s: %w", req.InstanceID, err)
	}
	d, err := draftOf(req.Args)
	if err != nil {
		return nil, err
	}
	d.Name = new(string(req.InstanceID))
	d.MachineType = new(p.Zonal("machineTypes", req.InstanceType))
	d.nic.Subnetwork = new(net.Path())
	d.locate(p)
	d.pay(req)
	d.completeScheduling()
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	maps.Copy(d.Labels, labelsOf(req))
	for _, disk := range d.Disks {
		if disk.InitializeParams != nil && disk.GetType() != "SCRATCH" {
			disk.InitializeParams.Labels = maps.Clone(d.Labels)
		}
	}
	if err := d.setUserData(req.UserData); err != nil {
		return nil, err
	}
	return d.Instance, nil
}

// locate makes the zone's resources of bare names.
func (d *draft) locate(p api.Place) {
	for _, disk := range d.Disks {
		if t := disk.GetInitializeParams().GetDiskType(); t != "" {
			disk.InitializeParams.DiskType = new(p.Zonal("diskTypes", t))
		}
	}
	for _, a := range d.GuestAccelerators {
		if a.AcceleratorType != nil {
			a.AcceleratorType = new(p.Zonal("acceleratorTypes", *a.AcceleratorType))
		}
	}
}

var capacity = rules.Capacity()

// pay says how the machine is paid for, where the request does.
func (d *draft) pay(req driver.CreateRequest) {
	switch req.CapacityType {
	case driver.OnDemand:
		d.Scheduling.ProvisioningModel = new("STANDARD")
	case driver.Spot:
		d.Scheduling.ProvisioningModel = new("SPOT")
	case driver.Reserved:
		d.ReservationAffinity = &compute.ReservationAffinity{
			ConsumeReservationType: new("SPECIFIC_RESERVATION"), Key: new("compute.googleapis.com/reservation-name"), Values: []string{req.Reservation},
		}
	}
}

// mayBeTakenBack says whether the cloud may end the machine at short notice.
func (d *draft) mayBeTakenBack() bool {
	return d.Scheduling.GetProvisioningModel() == "SPOT" || d.Scheduling.GetPreemptible()
}

// completeScheduling gives a machine that the cloud may take back, and one that it cannot
// move, what such a machine needs, unless the arguments say otherwise.
func (d *draft) completeScheduling() {
	s := d.Scheduling
	if s.OnHostMaintenance == nil && (d.mayBeTakenBack() || d.cannotMove()) {
		s.OnHostMaintenance = new("TERMINATE")
	}
	if s.AutomaticRestart == nil && d.mayBeTakenBack() {
		s.AutomaticRestart = new(false)
	}
}

// cannotMove says whether the machine has accelerators, with which the cloud cannot move
// it to another host while it runs: attached ones, or those of its type; see
// https://cloud.google.com/compute/docs/gpus/gpu-host-maintenance.
func (d *draft) cannotMove() bool {
	family, _, _ := strings.Cut(api.BaseName(d.GetMachineType()), "-")
	return len(d.GuestAccelerators) > 0 || acceleratorFamily.MatchString(family)
}

// acceleratorFamily are the machine families that come with GPUs or TPUs.
var acceleratorFamily = regexp.MustCompile(`^(a[2-9]|g[2-9]|ct\w+|tpu\w*)$`)

// cloudInit is how user data begins that cloud-init reads rather than runs; see
// https://cloudinit.readthedocs.io/en/latest/explanation/format.html.
var cloudInit = []string{"#cloud-config", "#cloud-boothook", "#include", "#part-handler", "## template:", "Content-Type:", "MIME-Version:"}

// setUserData puts user data where the image looks for it: what cloud-init reads
// into user-data, and a script into startup-script, which Google's guest agent
// runs. It is never in both, for it would be run twice.
func (d *draft) setUserData(data []byte) error {
	switch {
	case len(data) == 0:
		return nil
	case len(data) > rules.MaxUserData:
		return fmt.Errorf("the user data has %d bytes; Google takes %d", len(data), rules.MaxUserData)
	case bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data):
		return errors.New("the user data has a NUL byte or is not UTF-8; metadata is text")
	}
	key, text := rules.KeyStartupScript, string(data)
	for _, beginning := range cloudInit {
		if strings.HasPrefix(text, beginning) {
			key = rules.KeyUserData
		}
	}
	d.addMetadata(key, text)
	return nil
}

func (d *draft) addMetadata(key, value string) {
	if d.Metadata == nil {
		d.Metadata = new(compute.Metadata)
	}
	d.Metadata.Items = append(d.Metadata.Items, &compute.Items{Key: &key, Value: &value})
}
