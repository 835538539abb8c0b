package awsfake

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

const api = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/api/0123456789abcdef"

func (c *Cloud) balancerClient() *elb.Client {
	return elb.New(elb.Options{
		Region:      "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, ""),
		HTTPClient:  &http.Client{Transport: wire.RoundTripper(c)},
		Retryer:     aws.NopRetryer{},
	})
}

type target struct {
	id    string
	port  int32
	state types.TargetHealthStateEnum
}

func TestTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Boot: time.Minute, Drain: 5 * time.Minute})
		lb, vm, ctx := c.balancerClient(), c.client(), t.Context()
		id := *run(t, vm, launchOf("one")).InstanceId
		register := func(group, machine string, port *int32) error {
			_, err := lb.RegisterTargets(ctx, &elb.RegisterTargetsInput{
				TargetGroupArn: &group, Targets: []types.TargetDescription{{Id: &machine, Port: port}},
			})
			return err
		}
		deregister := func(machine string) error {
			_, err := lb.DeregisterTargets(ctx, &elb.DeregisterTargetsInput{
				TargetGroupArn: aws.String(api), Targets: []types.TargetDescription{{Id: &machine}},
			})
			return err
		}
		shows := func(want ...target) {
			t.Helper()
			out, err := lb.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: aws.String(api)})
			if err != nil {
				t.Fatal(err)
			}
			var got []target
			for _, h := range out.TargetHealthDescriptions {
				got = append(got, target{*h.Target.Id, *h.Target.Port, h.TargetHealth.State})
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{})); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
		}
		wantCode(t, "register a machine that boots", register(api, id, nil), "InvalidTarget")
		time.Sleep(time.Minute)
		for range 2 {
			if err := register(api, id, nil); err != nil {
				t.Fatal(err)
			}
		}
		shows(target{id, 6443, types.TargetHealthStateEnumHealthy})
		if err := register(api, id, aws.Int32(8080)); err != nil {
			t.Fatal(err)
		}
		shows(target{id, 6443, types.TargetHealthStateEnumHealthy}, target{id, 8080, types.TargetHealthStateEnumHealthy})
		for range 2 {
			if err := deregister(id); err != nil {
				t.Fatal(err)
			}
		}
		shows(target{id, 6443, types.TargetHealthStateEnumDraining}, target{id, 8080, types.TargetHealthStateEnumDraining})
		time.Sleep(5 * time.Minute)
		shows()
		if err := register(api, id, nil); err != nil {
			t.Fatal(err)
		}
		if err := terminate(ctx, vm, id); err != nil {
			t.Fatal(err)
		}
		shows()
		if err := deregister("i-00000000000000000"); err != nil {
			t.Errorf("deregister a machine that never was: %v", err)
		}
		wantCode(t, "register a machine that never was", register(api, "i-00000000000000000", nil), "InvalidTarget")
		wantCode(t, "register with a group that is not there", register(api+"0", id, nil), "TargetGroupNotFound")
	})
}

func TestTargetsOfOneGroup(t *testing.T) {
	c := New(Options{})
	lb := c.balancerClient()
	id := c.Plant(nil)
	out, err := lb.DescribeTargetHealth(t.Context(), &elb.DescribeTargetHealthInput{
		TargetGroupArn: aws.String(api), Targets: []types.TargetDescription{{Id: &id}},
	})
	if err != nil || out.TargetHealthDescriptions[0].TargetHealth.Reason != types.TargetHealthReasonEnumNotRegistered {
		t.Errorf("a machine that is no target: %+v, %v", out, err)
	}
	groups, err := lb.DescribeTargetGroups(t.Context(), &elb.DescribeTargetGroupsInput{TargetGroupArns: []string{api}})
	if err != nil || len(groups.TargetGroups) != 1 || *groups.TargetGroups[0].Port != 6443 {
		t.Errorf("groups: %+v, %v", groups, err)
	}
}

func TestFaultsOfTheBalancer(t *testing.T) {
	for kind, want := range map[driver.ErrorClass]string{
		driver.Throttled: "Throttling", driver.Capacity: "TooManyTargets", driver.Auth: "AccessDenied", driver.MissingRef: "TargetGroupNotFound",
		driver.Transient: "ServiceUnavailable", driver.Ambiguous: "InternalFailure", driver.NotFound: "InvalidTarget", driver.Invalid: "ValidationError",
	} {
		c := New(Options{})
		c.Gate().SetFaults(wire.Always("DescribeTargetHealth", wire.Fault{Kind: kind}))
		_, err := c.balancerClient().DescribeTargetHealth(t.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: aws.String(api)})
		wantCode(t, "a fault of kind "+string(kind), err, want)
	}
}
