package aws

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/server/driver"
)

// traits says what arguments tell of a machine. A market that is still a template is
// none of spot.
func traits(_ string, args map[string]any) driver.Traits {
	in := new(ec2.RunInstancesInput)
	const name = "InstanceMarketOptions"
	if args[name] == nil || setArg(fields{templates: true}, in, name, args[name]) != nil {
		return driver.Traits{}
	}
	return driver.Traits{Interruptible: in.InstanceMarketOptions.MarketType == types.MarketTypeSpot}
}
