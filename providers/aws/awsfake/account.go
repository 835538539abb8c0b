package awsfake

import (
	"net/netip"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Account is what stands in an account before the first machine.
type Account struct {
	ID              string   // of twelve digits
	VPC             string   // the only one
	SecurityGroups  []string // their ids
	Profiles        []string // the names of instance profiles
	KeyPairs        []string // their names
	Subnets         []Subnet
	Images          []Image
	Types           []Type
	LaunchTemplates []LaunchTemplate
	Interfaces      []Interface // network interfaces that nobody made with a machine
	TargetGroups    []TargetGroup
}

// Subnet is a subnet of the VPC. Five of its addresses are kept by AWS.
type Subnet struct {
	ID   string
	Zone string
	IPv4 netip.Prefix
	IPv6 netip.Prefix // the zero value: none
}

// Image is an Amazon Machine Image.
type Image struct {
	ID, Name, Owner, OwnerAlias string
	Architecture                types.ArchitectureValues
	Created                     time.Time
	Tags                        map[string]string
}

// Type is an instance type.
type Type struct {
	Name         string
	Architecture types.ArchitectureType
	VCPUs        int
	MemoryMiB    int
	GPUs         int
	GPU          string  // the model of its GPUs
	SpotUSD      float64 // an hour, 0 where the type is not sold so
}

// Interface is an elastic network interface.
type Interface struct {
	ID     string
	Subnet string
	IPv4   netip.Addr
}

// TargetGroup is a target group of a load balancer.
type TargetGroup struct {
	ARN  string
	Port int // of targets that are registered without one
}

// DefaultAccount is an account with two zones of the region, each with a subnet; a
// few instance types of both architectures with images for them; an interface and
// two target groups.
func DefaultAccount(region string) Account {
	const id = "123456789012"
	group := "arn:aws:elasticloadbalancing:" + region + ":" + id + ":targetgroup/"
	return Account{
		ID:             id,
		VPC:            "vpc-0a11000000000001",
		SecurityGroups: []string{"sg-0a11000000000001", "sg-0a11000000000002"},
		Profiles:       []string{"nstance-agent"},
		KeyPairs:       []string{"operator"},
		Subnets: []Subnet{
			{"subnet-0a1100000000000a", region + "a", netip.MustParsePrefix("10.0.0.0/20"), netip.MustParsePrefix("2001:db8:0:a::/64")},
			{"subnet-0a1100000000000b", region + "b", netip.MustParsePrefix("10.0.16.0/20"), netip.MustParsePrefix("2001:db8:0:b::/64")},
		},
		Images: defaultImages(),
		Types:  defaultTypes(),
		LaunchTemplates: []LaunchTemplate{
			{ID: "lt-0a11000000000001", Name: "plain", Image: "ami-0a1100000000000003", SecurityGroups: []string{"sg-0a11000000000002"}},
			{ID: "lt-0a11000000000002", Name: "with-interface", Image: "ami-0a1100000000000003", Interfaces: [][]string{{"sg-0a11000000000002"}}},
		},
		Interfaces: []Interface{{"eni-0a11000000000001", "subnet-0a1100000000000a", netip.MustParseAddr("10.0.15.200")}},
		TargetGroups: []TargetGroup{
			{group + "api/0123456789abcdef", 6443},
			{group + "ingress/fedcba9876543210", 443},
		},
	}
}

func defaultImages() []Image {
	day := func(n int) time.Time { return time.Date(2026, 3, n, 12, 0, 0, 0, time.UTC) }
	arm, x86 := types.ArchitectureValuesArm64, types.ArchitectureValuesX8664
	const owner = "136693071363"
	return []Image{
		{ID: "ami-0a1100000000000001", Name: "debian-13-arm64-20260301", Owner: owner, Architecture: arm, Created: day(1)},
		{ID: "ami-0a1100000000000002", Name: "debian-13-amd64-20260301", Owner: owner, Architecture: x86, Created: day(1)},
		{ID: "ami-0a1100000000000003", Name: "debian-13-arm64-20260315", Owner: owner, Architecture: arm, Created: day(15)},
		{ID: "ami-0a1100000000000004", Name: "debian-13-amd64-20260315", Owner: owner, Architecture: x86, Created: day(15)},
		{ID: "ami-0a1100000000000005", Name: "al2023-ami-arm64", Owner: "137112412989", OwnerAlias: "amazon", Architecture: arm, Created: day(20)},
	}
}

func defaultTypes() []Type {
	arm, x86 := types.ArchitectureTypeArm64, types.ArchitectureTypeX8664
	return []Type{
		{Name: "c7i.large", Architecture: x86, VCPUs: 2, MemoryMiB: 4096, SpotUSD: 0.0357},
		{Name: "g5.xlarge", Architecture: x86, VCPUs: 4, MemoryMiB: 16384, GPUs: 1, GPU: "A10G", SpotUSD: 0.4024},
		{Name: "g5g.xlarge", Architecture: arm, VCPUs: 4, MemoryMiB: 8192, GPUs: 1, GPU: "T4g", SpotUSD: 0.168},
		{Name: "m7g.large", Architecture: arm, VCPUs: 2, MemoryMiB: 8192, SpotUSD: 0.0326},
		{Name: "m7i.large", Architecture: x86, VCPUs: 2, MemoryMiB: 8192, SpotUSD: 0.0403},
		{Name: "t3.small", Architecture: x86, VCPUs: 2, MemoryMiB: 2048, SpotUSD: 0.0063},
		{Name: "t4g.nano", Architecture: arm, VCPUs: 2, MemoryMiB: 512, SpotUSD: 0.0017},
		{Name: "t4g.small", Architecture: arm, VCPUs: 2, MemoryMiB: 2048, SpotUSD: 0.0067},
	}
}
