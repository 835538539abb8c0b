package instances

import (
	"context"
	"encoding/base64"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

// OutputSources are the serial console alone.
func (all *Instances) OutputSources() []driver.OutputSource {
	return []driver.OutputSource{driver.Console}
}

// Output returns what EC2 has of the serial console: the last 64 KiB. Machines on Nitro tell
// what they write now; of others EC2 has what they had written some minutes after their last start.
func (all *Instances) Output(ctx context.Context, ref driver.Ref, source driver.OutputSource) (driver.Output, error) {
	const op = "output"
	if err := api.Begin(ctx, op); err != nil {
		return driver.Output{}, err
	}
	if source != driver.Console {
		return driver.Output{}, driver.Fail(driver.Unsupported, op, fmt.Errorf("EC2 keeps the serial console of a machine and no %q", source))
	}
	m, err := all.Find(ctx, op, ref)
	if err != nil {
		return driver.Output{}, err
	}
	if m.Status == driver.Deleted {
		return driver.Output{}, driver.Fail(driver.NotFound, op, fmt.Errorf("%s is terminated", m.ProviderID))
	}
	out, err := all.api.EC2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &m.ProviderID, Latest: sdk.Bool(true)})
	if api.HasCode(err, "UnsupportedOperation") { // its type is not one of Nitro
		out, err = all.api.EC2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &m.ProviderID})
	}
	if err != nil {
		return driver.Output{}, api.Fail(op, api.Reads, err)
	}
	data, err := base64.StdEncoding.DecodeString(sdk.ToString(out.Output))
	if err != nil {
		return driver.Output{}, driver.Fail(driver.Transient, op, fmt.Errorf("the answer is not in base64: %w", err))
	}
	return driver.Output{Data: data[max(0, len(data)-driver.MaxOutput):], Cut: len(data) >= driver.MaxOutput}, nil
}
