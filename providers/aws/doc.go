// Package aws is Amazon EC2 as a [nstance.dev/server/driver.Driver].
package aws

import (
	_ "github.com/aws/aws-sdk-go-v2/config"
	_ "github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	_ "github.com/aws/aws-sdk-go-v2/service/ec2"
	_ "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	_ "nstance.dev/protos/identity"
	_ "nstance.dev/server/serve"
)
