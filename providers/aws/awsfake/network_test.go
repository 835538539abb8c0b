package awsfake

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const eni = "eni-0a11000000000001" // in the zone of subnetA

func TestNetworkInterfaceMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Detach: 10 * time.Second})
		vm, ctx := c.client(), t.Context()
		one, other := c.Plant(nil), c.Plant(nil)
		far := *run(t, vm, launchOf("far", func(in *ec2.RunInstancesInput) { in.SubnetId = aws.String(subnetB) })).InstanceId
		attach := func(id, machine string, index int32) (*string, error) {
			out, err := vm.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{
				NetworkInterfaceId: &id, InstanceId: &machine, DeviceIndex: &index,
			})
			if err != nil {
				return nil, err
			}
			return out.AttachmentId, nil
		}
		detach := func(attachment *string) error {
			_, err := vm.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{AttachmentId: attachment})
			return err
		}
		show := func() types.NetworkInterface {
			t.Helper()
			out, err := vm.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{eni}})
			if err != nil || len(out.NetworkInterfaces) != 1 {
				t.Fatalf("describe: %+v, %v", out, err)
			}
			return out.NetworkInterfaces[0]
		}
		if got := show(); got.Status != types.NetworkInterfaceStatusAvailable || got.Attachment != nil ||
			*got.PrivateIpAddress != "10.0.15.200" || *got.PrivateIpAddresses[0].PrivateIpAddress != "10.0.15.200" {
			t.Errorf("at first it is %+v", got)
		}
		attachment, err := attach(eni, one, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(); got.Status != types.NetworkInterfaceStatusInUse || *got.Attachment.InstanceId != one ||
			*got.Attachment.DeviceIndex != 1 || *got.Attachment.AttachmentId != *attachment || got.Attachment.Status != types.AttachmentStatusAttached {
			t.Errorf("attached it is %+v", got)
		}
		if nics := described(t, vm, only(one))[one].NetworkInterfaces; len(nics) != 2 || *nics[1].Attachment.DeviceIndex != 1 {
			t.Errorf("the machine has the interfaces %+v", nics)
		}
		_, err = attach(eni, other, 1)
		wantCode(t, "attach what is in use", err, "InvalidNetworkInterface.InUse")
		if err := detach(attachment); err != nil {
			t.Fatal(err)
		}
		if got := show(); got.Status != types.NetworkInterfaceStatusDetaching || got.Attachment.Status != types.AttachmentStatusDetaching {
			t.Errorf("on its way it is %+v", got)
		}
		time.Sleep(10 * time.Second)
		wantCode(t, "detach what has left", detach(attachment), "InvalidAttachmentID.NotFound")
		for what, refused := range map[string]struct {
			id, machine string
			index       int32
			code        string
		}{
			"attach to another zone":           {eni, far, 1, "InvalidParameterCombination"},
			"attach in the place of the first": {eni, other, 0, "InvalidParameterValue"},
			"attach to an unknown machine":     {eni, "i-00000000000000000", 1, "InvalidInstanceID.NotFound"},
			"attach an unknown interface":      {"eni-00000000000000000", other, 1, "InvalidNetworkInterfaceID.NotFound"},
		} {
			_, err := attach(refused.id, refused.machine, refused.index)
			wantCode(t, what, err, refused.code)
		}
		if _, err := attach(eni, other, 1); err != nil {
			t.Errorf("attach after it has left: %v", err)
		}
		if err := terminate(ctx, vm, other); err != nil {
			t.Fatal(err)
		}
		if got := show(); got.Status != types.NetworkInterfaceStatusAvailable {
			t.Errorf("when its machine has ended it is %+v", got)
		}
		_, err = attach(eni, other, 1)
		wantCode(t, "attach to a machine that has ended", err, "IncorrectInstanceState")
	})
}

// The reference warns of force: what it says may happen, happens here.
func TestForcedDetachmentLeavesTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Detach: 10 * time.Second, Stop: time.Second, Boot: time.Second})
		vm, ctx := c.client(), t.Context()
		one := c.Plant(nil)
		attach := func(index int32) (string, error) {
			out, err := vm.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{
				NetworkInterfaceId: aws.String(eni), InstanceId: &one, DeviceIndex: &index,
			})
			if err != nil {
				return "", err
			}
			return *out.AttachmentId, nil
		}
		detach := func(attachment string, force bool) {
			t.Helper()
			_, err := vm.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{AttachmentId: &attachment, Force: &force})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		status := func() types.NetworkInterfaceStatus {
			t.Helper()
			out, err := vm.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{eni}})
			if err != nil {
				t.Fatal(err)
			}
			return out.NetworkInterfaces[0].Status
		}
		shown := func() int {
			t.Helper()
			macs, err := learns(ctx, c.imds(one), "network/interfaces/macs/")
			if err != nil {
				t.Fatal(err)
			}
			return len(strings.Fields(macs))
		}
		attached := func(index int32) string {
			t.Helper()
			attachment, err := attach(index)
			if err != nil {
				t.Fatal(err)
			}
			return attachment
		}

		detach(attached(1), false)
		if got := shown(); got != 1 || status() != types.NetworkInterfaceStatusAvailable {
			t.Errorf("after a plain detachment the metadata shows %d interfaces, and it is %s", got, status())
		}
		detach(attached(1), true)
		if got := shown(); got != 2 {
			t.Errorf("after force the metadata shows %d interfaces, want the old one still", got)
		}
		_, err := attach(1)
		wantCode(t, "attach at an index that was forced free", err, "InvalidParameterValue")
		second := attached(2)
		if !c.Hang(one) {
			t.Fatal("it does not run")
		}
		detach(second, false)
		if got := status(); got != types.NetworkInterfaceStatusDetaching {
			t.Errorf("a machine that hangs has let go: %s", got)
		}
		detach(second, true)
		if got := status(); got != types.NetworkInterfaceStatusAvailable {
			t.Errorf("after force it is %s", got)
		}
		for _, power := range []func() error{
			func() error {
				_, err := vm.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{one}})
				return err
			},
			func() error {
				_, err := vm.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{one}})
				return err
			},
		} {
			if err := power(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		if got := shown(); got != 1 {
			t.Errorf("after a stop and a start the metadata shows %d interfaces", got)
		}
		attached(1)
	})
}
