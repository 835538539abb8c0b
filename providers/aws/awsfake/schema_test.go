package awsfake

import (
	"fmt"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/smithy-go/middleware"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var (
	keep     = []func(*middleware.Stack) error{keepQuery}
	unsent   = ec2.New(ec2.Options{Region: "none", APIOptions: keep})
	unsentLB = elasticloadbalancingv2.New(elasticloadbalancingv2.Options{Region: "none", APIOptions: keep})
)

// TestEveryParameterOfTheModelIsRead fills an input in with everything that there
// is, as the SDK's own model has it, and reads what the SDK sends of it.
func TestEveryParameterOfTheModelIsRead(t *testing.T) {
	tested := map[string]func(*testing.T){
		"RunInstances":                  readsBack(serializer(unsent.RunInstances)),
		"DescribeInstances":             readsBack(serializer(unsent.DescribeInstances)),
		"TerminateInstances":            readsBack(serializer(unsent.TerminateInstances)),
		"StartInstances":                readsBack(serializer(unsent.StartInstances)),
		"StopInstances":                 readsBack(serializer(unsent.StopInstances)),
		"RebootInstances":               readsBack(serializer(unsent.RebootInstances)),
		"GetConsoleOutput":              readsBack(serializer(unsent.GetConsoleOutput)),
		"CreateTags":                    readsBack(serializer(unsent.CreateTags)),
		"DescribeImages":                readsBack(serializer(unsent.DescribeImages)),
		"DescribeInstanceTypeOfferings": readsBack(serializer(unsent.DescribeInstanceTypeOfferings)),
		"DescribeInstanceTypes":         readsBack(serializer(unsent.DescribeInstanceTypes)),
		"DescribeSpotPriceHistory":      readsBack(serializer(unsent.DescribeSpotPriceHistory)),
		"DescribeSubnets":               readsBack(serializer(unsent.DescribeSubnets)),
		"DescribeNetworkInterfaces":     readsBack(serializer(unsent.DescribeNetworkInterfaces)),
		"AttachNetworkInterface":        readsBack(serializer(unsent.AttachNetworkInterface)),
		"DetachNetworkInterface":        readsBack(serializer(unsent.DetachNetworkInterface)),
		"DescribeTargetGroups":          readsBack(serializer(unsentLB.DescribeTargetGroups)),
		"DescribeTargetHealth":          readsBack(serializer(unsentLB.DescribeTargetHealth)),
		"RegisterTargets":               readsBack(serializer(unsentLB.RegisterTargets)),
		"DeregisterTargets":             readsBack(serializer(unsentLB.DeregisterTargets)),
	}
	for name := range actions() {
		if tested[name] == nil {
			t.Errorf("%s is not tested", name)
			continue
		}
		t.Run(name, tested[name])
	}
}

func readsBack[I any](serialize func(*I) (url.Values, error)) func(*testing.T) {
	return func(t *testing.T) { readBack(t, serialize) }
}

func readBack[I any](t *testing.T, serialize func(*I) (url.Values, error)) {
	s, err := learn(serialize)
	if err != nil {
		t.Fatal(err)
	}
	want, n := new(I), 0
	fill(reflect.ValueOf(want).Elem(), &n)
	values, err := serialize(want)
	if err != nil {
		t.Fatal(err)
	}
	got := new(I)
	if err := s.decode(values, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("sent and read (-want +got):\n%s", diff)
	}
	if n < len(s) {
		t.Errorf("%d values were sent for %d parameters", n, len(s))
	}
}

// fill gives every leaf of v a value of its own, and every list two members.
func fill(v reflect.Value, n *int) {
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(int64(*n), 0).UTC()))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprint("value ", *n))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(*n))
	case v.CanFloat():
		v.SetFloat(float64(*n))
	}
}

func TestDecode(t *testing.T) {
	s, err := learn(serializer(unsent.RunInstances))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		query string
		want  ec2.RunInstancesInput
		err   string
	}{
		{name: "nothing", query: "Action=RunInstances&Version=2016-11-15"},
		{
			name:  "lists within lists, in any order",
			query: "TagSpecification.1.Tag.2.Key=b&TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=",
			want: ec2.RunInstancesInput{TagSpecifications: []types.TagSpecification{{
				Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("")}, {Key: aws.String("b")}},
			}}},
		},
		{name: "more than nine members", query: many("SecurityGroupId", 11), want: ec2.RunInstancesInput{SecurityGroupIds: manyOf(11)}},
		{name: "a parameter of another action", query: "Filter.1.Name=x", err: "UnknownParameter: The parameter Filter.1.Name is not recognized"},
		{name: "a field of the SDK that has another name here", query: "SecurityGroupIds.1=x", err: "UnknownParameter: The parameter SecurityGroupIds.1 is not recognized"},
		{name: "a list without its first member", query: "SecurityGroupId.2=x", err: "InvalidParameterValue: The index in SecurityGroupId.2 is out of order"},
		{name: "an index of zero", query: "SecurityGroupId.0=x", err: "InvalidParameterValue: The index in SecurityGroupId.0 is out of order"},
		{name: "no number", query: "MinCount=one", err: "InvalidParameterValue: Invalid value 'one' for MinCount"},
		{name: "a number that is too large", query: "MinCount=3000000000", err: "InvalidParameterValue: Invalid value '3000000000' for MinCount"},
		{name: "twice", query: "ImageId=a&ImageId=b", err: "InvalidParameterValue: The parameter ImageId is given 2 times"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			values, err := url.ParseQuery(test.query)
			if err != nil {
				t.Fatal(err)
			}
			var got ec2.RunInstancesInput
			err = s.decode(values, &got)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

func many(name string, n int) string {
	query := url.Values{}
	for i, value := range manyOf(n) {
		query.Set(fmt.Sprintf("%s.%d", name, i+1), value)
	}
	return query.Encode()
}

func manyOf(n int) []string {
	var values []string
	for i := range n {
		values = append(values, string(rune('a'+i)))
	}
	return values
}
