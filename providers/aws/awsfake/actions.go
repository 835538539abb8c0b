package awsfake

import (
	"context"
	"net/http"
	"net/url"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/smithy-go/middleware"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// action is one verb of a service.
type action struct {
	service *protocol
	do      func(*Cloud, url.Values) (any, error)
}

// verb makes an action of what the SDK calls it and of what it does here. The cloud
// is locked while act runs.
func verb[I, O, P any](
	service *protocol, call func(context.Context, *I, ...func(*P)) (*O, error), act func(*Cloud, *I) (any, error),
) action {
	learnt := sync.OnceValues(func() (schema, error) { return learn(serializer(call)) })
	return action{service, func(c *Cloud, values url.Values) (any, error) {
		s, err := learnt()
		if err != nil {
			return nil, err
		}
		input := new(I)
		if err := s.decode(values, input); err != nil {
			return nil, err
		}
		if values.Get("DryRun") == "true" {
			return nil, &apiError{http.StatusPreconditionFailed, "DryRunOperation",
				"Request would have succeeded, but DryRun flag is set."}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settle()
		return act(c, input)
	}}
}

// actions are the verbs by name.
var actions = sync.OnceValue(func() map[string]action {
	keep := []func(*middleware.Stack) error{keepQuery}
	vm := ec2.New(ec2.Options{Region: "none", APIOptions: keep})
	lb := elasticloadbalancingv2.New(elasticloadbalancingv2.Options{Region: "none", APIOptions: keep})
	return map[string]action{
		"RunInstances":       verb(computing, vm.RunInstances, (*Cloud).runInstances),
		"DescribeInstances":  verb(computing, vm.DescribeInstances, (*Cloud).describeInstances),
		"TerminateInstances": verb(computing, vm.TerminateInstances, (*Cloud).terminateInstances),
		"StartInstances":     verb(computing, vm.StartInstances, (*Cloud).startInstances),
		"StopInstances":      verb(computing, vm.StopInstances, (*Cloud).stopInstances),
		"RebootInstances":    verb(computing, vm.RebootInstances, (*Cloud).rebootInstances),
		"CreateTags":         verb(computing, vm.CreateTags, (*Cloud).createTags),

		"DescribeImages":                verb(computing, vm.DescribeImages, (*Cloud).describeImages),
		"DescribeInstanceTypeOfferings": verb(computing, vm.DescribeInstanceTypeOfferings, (*Cloud).describeInstanceTypeOfferings),
		"DescribeInstanceTypes":         verb(computing, vm.DescribeInstanceTypes, (*Cloud).describeInstanceTypes),
		"DescribeSpotPriceHistory":      verb(computing, vm.DescribeSpotPriceHistory, (*Cloud).describeSpotPriceHistory),
		"DescribeSubnets":               verb(computing, vm.DescribeSubnets, (*Cloud).describeSubnets),

		"DescribeNetworkInterfaces": verb(computing, vm.DescribeNetworkInterfaces, (*Cloud).describeNetworkInterfaces),
		"AttachNetworkInterface":    verb(computing, vm.AttachNetworkInterface, (*Cloud).attachNetworkInterface),
		"DetachNetworkInterface":    verb(computing, vm.DetachNetworkInterface, (*Cloud).detachNetworkInterface),

		"DescribeTargetGroups": verb(balancing, lb.DescribeTargetGroups, (*Cloud).describeTargetGroups),
		"DescribeTargetHealth": verb(balancing, lb.DescribeTargetHealth, (*Cloud).describeTargetHealth),
		"RegisterTargets":      verb(balancing, lb.RegisterTargets, (*Cloud).registerTargets),
		"DeregisterTargets":    verb(balancing, lb.DeregisterTargets, (*Cloud).deregisterTargets),
	}
})

// Limits are the token buckets that AWS documents for the actions of an account in
// one region ("Request throttling for the Amazon EC2 API"). A launch takes one
// token of its resource bucket, however many machines it asks for: those who launch
// one at a time cannot tell the difference. What the load balancers allow is not
// published, so that their bucket is a guess.
func Limits() wire.Limits {
	bucket := func(rate float64, burst int) driver.Bucket { return driver.Bucket{Rate: rate, Burst: burst} }
	return wire.Limits{
		Buckets: map[string]driver.Bucket{
			"run":        bucket(2, 5),
			"instances":  bucket(2, 1000),
			"terminate":  bucket(5, 100),
			"start":      bucket(2, 5),
			"mutating":   bucket(5, 50),
			"describing": bucket(20, 100),
			"balancing":  bucket(10, 40),
		},
		Of: map[string][]string{
			"RunInstances":       {"run", "instances"},
			"TerminateInstances": {"terminate"},
			"StartInstances":     {"start"},
			"StopInstances":      {"mutating"},
			"RebootInstances":    {"mutating"},

			"AttachNetworkInterface": {"mutating"},
			"DetachNetworkInterface": {"mutating"},
			"CreateTags":             {"mutating"},
			"RegisterTargets":        {"balancing"},
			"DeregisterTargets":      {"balancing"},
			"DescribeTargetHealth":   {"balancing"},
			"DescribeTargetGroups":   {"balancing"},
		},
		Default: []string{"describing"},
	}
}
