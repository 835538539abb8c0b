package awsfake

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"nstance.dev/server/driver/drivertest/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Names of the default account.
const (
	subnetA = "subnet-0a1100000000000a"
	subnetB = "subnet-0a1100000000000b"
	imageOf = "ami-0a1100000000000003" // for arm64
	profile = "nstance-agent"
	small   = types.InstanceTypeT4gSmall
)

// client is the SDK with this cloud behind it, and without retries.
func (c *Cloud) client(settings ...func(*ec2.Options)) *ec2.Client {
	return ec2.New(ec2.Options{
		Region:      "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, ""),
		HTTPClient:  &http.Client{Transport: wire.RoundTripper(c)},
		Retryer:     aws.NopRetryer{},
	}, settings...)
}

// order is a launch of one machine with which nothing is wrong.
func launchOf(token string, changes ...func(*ec2.RunInstancesInput)) *ec2.RunInstancesInput {
	in := &ec2.RunInstancesInput{
		ClientToken:        aws.String(token),
		ImageId:            aws.String(imageOf),
		InstanceType:       small,
		SubnetId:           aws.String(subnetA),
		MinCount:           aws.Int32(1),
		MaxCount:           aws.Int32(1),
		UserData:           aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))),
		IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: aws.String(profile)},
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeInstance,
			Tags:         []types.Tag{{Key: aws.String("of"), Value: aws.String(token)}},
		}},
	}
	for _, change := range changes {
		change(in)
	}
	return in
}

// run launches one machine and returns what the answer says of it.
func run(t *testing.T, vm *ec2.Client, in *ec2.RunInstancesInput) types.Instance {
	t.Helper()
	out, err := vm.RunInstances(t.Context(), in)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if len(out.Instances) != 1 {
		t.Fatalf("run answered with %d instances", len(out.Instances))
	}
	return out.Instances[0]
}

// described returns every instance that shows, by its id.
func described(t *testing.T, vm *ec2.Client, in *ec2.DescribeInstancesInput) map[string]types.Instance {
	t.Helper()
	found := map[string]types.Instance{}
	pages := ec2.NewDescribeInstancesPaginator(vm, in)
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatalf("describe: %v", err)
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				if _, twice := found[*i.InstanceId]; twice {
					t.Errorf("%s shows twice", *i.InstanceId)
				}
				found[*i.InstanceId] = i
			}
		}
	}
	return found
}

// code is the code of an error that the API answered with, "" for none.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// wantCode checks that a call was refused with a code.
func wantCode(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got := code(err); got != want || err == nil {
		t.Errorf("%s: %v, want an error with code %s", what, err, want)
	}
}

func only(id string) *ec2.DescribeInstancesInput {
	return &ec2.DescribeInstancesInput{InstanceIds: []string{id}}
}

func terminate(ctx context.Context, vm *ec2.Client, ids ...string) error {
	_, err := vm.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	return err
}
