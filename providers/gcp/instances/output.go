package instances

import (
	"context"
	"fmt"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// OutputSources are the serial console alone.
func (in *Instances) OutputSources() []driver.OutputSource {
	return []driver.OutputSource{driver.Console}
}

// consolePort is the serial port that systems use as their console.
const consolePort = 1

// Output returns the end of what the first serial port has written, of which the cloud keeps a megabyte.
func (in *Instances) Output(ctx context.Context, ref driver.Ref, source driver.OutputSource) (driver.Output, error) {
	const op = "output"
	if err := api.Begin(ctx, op); err != nil {
		return driver.Output{}, err
	}
	if source != driver.Console {
		return driver.Output{}, driver.Fail(driver.Unsupported, op, fmt.Errorf("the cloud keeps the serial console of a machine and no %q", source))
	}
	name, err := api.NameOf(op, ref)
	if err != nil {
		return driver.Output{}, err
	}
	if _, err := in.api.Fetch(ctx, op, name); err != nil {
		return driver.Output{}, err
	}
	out, err := in.api.Instances.GetSerialPortOutput(ctx, &computepb.GetSerialPortOutputInstanceRequest{
		Project: in.api.Project, Zone: in.api.Zone, Instance: name, Port: proto.Int32(consolePort),
	})
	if err != nil {
		return driver.Output{}, api.Fail(op, api.Reads, err)
	}
	data := []byte(out.GetContents())
	extra := max(0, len(data)-driver.MaxOutput)
	return driver.Output{Data: data[extra:], Cut: extra > 0 || out.GetStart() > 0}, nil
}
