package awsfake

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestSubnets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Lag: time.Minute})
		vm := c.client()
		free := func() int32 {
			t.Helper()
			out, err := vm.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnetA}})
			if err != nil || len(out.Subnets) != 1 {
				t.Fatalf("describe: %+v, %v", out, err)
			}
			return *out.Subnets[0].AvailableIpAddressCount
		}
		first := free() // of 4096, five are kept and one has the interface
		id := *run(t, vm, launchOf("one")).InstanceId
		soon := free()
		time.Sleep(time.Minute)
		later := free()
		if err := terminate(t.Context(), vm, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := []int32{first, soon, later, free()}; !slices.Equal(got, []int32{4090, 4090, 4089, 4090}) {
			t.Errorf("the subnet has %v free addresses", got)
		}
		_, err := vm.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-0"}})
		wantCode(t, "an unknown subnet", err, "InvalidSubnetID.NotFound")
	})
}

func TestImages(t *testing.T) {
	vm := New(Options{}).client()
	for _, test := range []struct {
		name   string
		owners []string
		want   []string
	}{
		{"debian-13-arm64-*", []string{"136693071363"}, []string{"ami-0a1100000000000003", "ami-0a1100000000000001"}},
		{"debian-13-arm64-*", []string{"amazon"}, nil},
		{"al2023-ami-arm64", []string{"amazon", "self"}, []string{"ami-0a1100000000000005"}},
		{"al2023-*", nil, []string{"ami-0a1100000000000005"}},
	} {
		out, err := vm.DescribeImages(t.Context(), &ec2.DescribeImagesInput{
			Owners: test.owners, Filters: []types.Filter{{Name: aws.String("name"), Values: []string{test.name}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range out.Images {
			got = append(got, *i.ImageId)
			if *i.CreationDate == "" || *i.Name == "" || i.State != types.ImageStateAvailable {
				t.Errorf("image %+v", i)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s of %v: %v, want %v", test.name, test.owners, got, test.want)
		}
	}
}

func TestTypes(t *testing.T) {
	c := New(Options{PageSize: 3})
	vm := c.client()
	out, err := vm.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"g5g.xlarge"}})
	if err != nil || len(out.InstanceTypes) != 1 {
		t.Fatalf("describe: %+v, %v", out, err)
	}
	got := out.InstanceTypes[0]
	if got.ProcessorInfo.SupportedArchitectures[0] != types.ArchitectureTypeArm64 || *got.VCpuInfo.DefaultVCpus != 4 ||
		*got.MemoryInfo.SizeInMiB != 8192 || *got.GpuInfo.Gpus[0].Count != 1 || *got.GpuInfo.Gpus[0].Name != "T4g" {
		t.Errorf("the type is %+v", got)
	}
	pages, n := ec2.NewDescribeInstanceTypesPaginator(vm, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100)}), 0
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(out.InstanceTypes)
	}
	if n != len(c.account.Types) {
		t.Errorf("the pages have %d types, the account %d", n, len(c.account.Types))
	}
	_, err = vm.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"t9.huge"}})
	wantCode(t, "an unknown type", err, "InvalidInstanceType")
	_, err = vm.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(101)})
	wantCode(t, "too large a page", err, "InvalidParameterValue")
}

func TestOfferingsAndPrices(t *testing.T) {
	vm := New(Options{}).client()
	only := []types.Filter{{Name: aws.String("instance-type"), Values: []string{"m7g.large"}}}
	offers, err := vm.DescribeInstanceTypeOfferings(t.Context(), &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone, Filters: only,
	})
	if err != nil || len(offers.InstanceTypeOfferings) != 2 || *offers.InstanceTypeOfferings[1].Location != "us-east-1b" {
		t.Errorf("offerings: %+v, %v", offers, err)
	}
	prices, err := vm.DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{
		InstanceTypes: []types.InstanceType{"m7g.large"}, AvailabilityZone: aws.String("us-east-1b"), ProductDescriptions: []string{"Linux/UNIX"},
	})
	if err != nil || len(prices.SpotPriceHistory) != 1 || *prices.SpotPriceHistory[0].SpotPrice != "0.032926" ||
		prices.SpotPriceHistory[0].InstanceType != "m7g.large" || prices.SpotPriceHistory[0].Timestamp.IsZero() {
		t.Errorf("prices: %+v, %v", prices, err)
	}
}
