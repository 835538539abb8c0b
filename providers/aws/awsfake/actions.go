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
	repeat  func(context.Context, clients, url.Values) (any, error) // see [Repeat]
}

// clients are those of the SDK.
type clients struct {
	vm *ec2.Client
	lb *elasticloadbalancingv2.Client
}

// learning are clients that schemas are learnt by: they send nothing.
var learning = sync.OnceValue(func() clients {
	keep := []func(*middleware.Stack) error{keepQuery}
	return clients{
		ec2.New(ec2.Options{Region: "none", APIOptions: keep}),
		elasticloadbalancingv2.New(elasticloadbalancingv2.Options{Region: "none", APIOptions: keep}),
	}
})

// sdkOf is a service with the SDK's client C for it.
type sdkOf[C any] struct {
	*protocol
	client func(clients) C
}

// verb makes an action of what the SDK calls it and of what it does here. The cloud
// is locked while act runs.
func verb[C, I, O, P any](
	service sdkOf[C], call func(C, context.Context, *I, ...func(*P)) (*O, error), act func(*Cloud, *I) (any, error),
) action {
	learnt := sync.OnceValues(func() (schema, error) {
		return learn(serializer(func(ctx context.Context, input *I, opts ...func(*P)) (*O, error) {
			return call(service.client(learning()), ctx, input, opts...)
		}))
	})
	read := func(values url.Values) (*I, error) {
		s, err := learnt()
		if err != nil {
			return nil, err
		}
		input := new(I)
		return input, s.decode(values, input)
	}
	return action{service.protocol, func(c *Cloud, values url.Values) (any, error) {
		input, err := read(values)
		if err != nil {
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
	}, func(ctx context.Context, c clients, values url.Values) (any, error) {
		input, err := read(values)
		if err != nil {
			return nil, err
		}
		return call(service.client(c), ctx, input)
	}}
}

// actions are the verbs by name.
var actions = sync.OnceValue(func() map[string]action {
	vm := sdkOf[*ec2.Client]{computing, func(c clients) *ec2.Client { return c.vm }}
	lb := sdkOf[*elasticloadbalancingv2.Client]{balancing, func(c clients) *elasticloadbalancingv2.Client { return c.lb }}
	return map[string]action{
		"RunInstances":       verb(vm, (*ec2.Client).RunInstances, (*Cloud).runInstances),
		"DescribeInstances":  verb(vm, (*ec2.Client).DescribeInstances, (*Cloud).describeInstances),
		"TerminateInstances": verb(vm, (*ec2.Client).TerminateInstances, (*Cloud).terminateInstances),
		"StartInstances":     verb(vm, (*ec2.Client).StartInstances, (*Cloud).startInstances),
		"StopInstances":      verb(vm, (*ec2.Client).StopInstances, (*Cloud).stopInstances),
		"RebootInstances":    verb(vm, (*ec2.Client).RebootInstances, (*Cloud).rebootInstances),
		"GetConsoleOutput":   verb(vm, (*ec2.Client).GetConsoleOutput, (*Cloud).getConsoleOutput),
		"CreateTags":         verb(vm, (*ec2.Client).CreateTags, (*Cloud).createTags),

		"DescribeImages":                verb(vm, (*ec2.Client).DescribeImages, (*Cloud).describeImages),
		"DescribeInstanceTypeOfferings": verb(vm, (*ec2.Client).DescribeInstanceTypeOfferings, (*Cloud).describeInstanceTypeOfferings),
		"DescribeInstanceTypes":         verb(vm, (*ec2.Client).DescribeInstanceTypes, (*Cloud).describeInstanceTypes),
		"DescribeSpotPriceHistory":      verb(vm, (*ec2.Client).DescribeSpotPriceHistory, (*Cloud).describeSpotPriceHistory),
		"DescribeSubnets":               verb(vm, (*ec2.Client).DescribeSubnets, (*Cloud).describeSubnets),

		"DescribeNetworkInterfaces": verb(vm, (*ec2.Client).DescribeNetworkInterfaces, (*Cloud).describeNetworkInterfaces),
		"AttachNetworkInterface":    verb(vm, (*ec2.Client).AttachNetworkInterface, (*Cloud).attachNetworkInterface),
		"DetachNetworkInterface":    verb(vm, (*ec2.Client).DetachNetworkInterface, (*Cloud).detachNetworkInterface),

		"DescribeTargetGroups": verb(lb, (*elasticloadbalancingv2.Client).DescribeTargetGroups, (*Cloud).describeTargetGroups),
		"DescribeTargetHealth": verb(lb, (*elasticloadbalancingv2.Client).DescribeTargetHealth, (*Cloud).describeTargetHealth),
		"RegisterTargets":      verb(lb, (*elasticloadbalancingv2.Client).RegisterTargets, (*Cloud).registerTargets),
		"DeregisterTargets":    verb(lb, (*elasticloadbalancingv2.Client).DeregisterTargets, (*Cloud).deregisterTargets),
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
