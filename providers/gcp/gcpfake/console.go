package gcpfake

import (
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// maxSerial is how much of what a serial port has written is kept.
// https://docs.cloud.google.com/compute/docs/troubleshooting/viewing-serial-port-output
const maxSerial = 1 << 20

// getSerialPortOutput tells what the first serial port of a machine has written, from a byte on; the others
// write nothing. What is kept no more is left out.
func (c *Cloud) getSerialPortOutput(_ call, in *computepb.GetSerialPortOutputInstanceRequest) (*computepb.SerialPortOutput, error) {
	i, err := c.exists(in.GetProject(), in.GetZone(), in.GetInstance())
	if err != nil {
		return nil, err
	}
	if port := in.GetPort(); in.Port != nil && (port < 1 || port > 4) {
		return nil, badRequest("Invalid value for field 'port': '%d'. Must be between 1 and 4.", port)
	}
	text := ""
	if in.Port == nil || in.GetPort() == 1 {
		text = i.console
	}
	from := min(max(int(in.GetStart()), len(text)-maxSerial, 0), len(text))
	return &computepb.SerialPortOutput{
		Kind: new("compute#serialPortOutput"), SelfLink: new(c.link(i.below() + "/serialPort")),
		Contents: new(text[from:]), Start: proto.Int64(int64(from)), Next: proto.Int64(int64(len(text))),
	}, nil
}

// Write has a machine write to its first serial port. It reports whether there is one.
func (c *Cloud) Write(name, text string) bool {
	return c.meddle(name, func(i *instance) bool {
		i.console += text
		return true
	})
}
