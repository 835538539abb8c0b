package awsfake

import (
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// listing is what the calls that describe a catalogue have in common: entries that
// are asked for by name and by filter, page by page.
type listing[T any] struct {
	entries []T
	name    func(T) string
	named   []string // none: all
	unknown func(name string) error
	by      filters[T]
	filters []types.Filter
	limit   *int32
	token   *string
}

func (l listing[T]) page(c *Cloud) ([]T, string, error) {
	for _, name := range l.named {
		if !slices.ContainsFunc(l.entries, func(e T) bool { return l.name(e) == name }) {
			return nil, "", l.unknown(name)
		}
	}
	keep, err := filtered(l.filters, l.by)
	if err != nil {
		return nil, "", err
	}
	var found []int
	for n, e := range l.entries {
		if keep(e) && (len(l.named) == 0 || slices.Contains(l.named, l.name(e))) {
			found = append(found, n)
		}
	}
	shown, next, err := page(c, found, l.limit, l.token, func(n int) int { return n })
	var entries []T
	for _, n := range shown {
		entries = append(entries, l.entries[n])
	}
	return entries, next, err
}

type subnetsReply struct {
	reply
	Subnets   set[subnetItem] `xml:"subnetSet"`
	NextToken string          `xml:"nextToken,omitempty"`
}

type subnetItem struct {
	ID    string `xml:"subnetId"`
	State string `xml:"state"`
	VpcID string `xml:"vpcId"`
	CIDR  string `xml:"cidrBlock"`
	Zone  string `xml:"availabilityZone"`
	Free  int    `xml:"availableIpAddressCount"`
}

func (c *Cloud) describeSubnets(in *ec2.DescribeSubnetsInput) (any, error) {
	shown, next, err := listing[Subnet]{
		entries: c.account.Subnets, named: in.SubnetIds, filters: in.Filters, limit: in.MaxResults, token: in.NextToken,
		name: func(s Subnet) string { return s.ID },
		unknown: func(id string) error {
			return refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
		},
		by: filters[Subnet]{
			"subnet-id":         func(s Subnet) []string { return one(s.ID) },
			"availability-zone": func(s Subnet) []string { return one(s.Zone) },
			"vpc-id":            func(Subnet) []string { return one(c.account.VPC) },
		},
	}.page(c)
	if err != nil {
		return nil, err
	}
	r := &subnetsReply{NextToken: next}
	for _, s := range shown {
		r.Subnets.Items = append(r.Subnets.Items, subnetItem{s.ID, "available", c.account.VPC, s.IPv4.String(), s.Zone, c.free(s, c.seen())})
	}
	return r, nil
}

type imagesReply struct {
	reply
	Images    set[imageItem] `xml:"imagesSet"`
	NextToken string         `xml:"nextToken,omitempty"`
}

type imageItem struct {
	ID           string       `xml:"imageId"`
	Name         string       `xml:"name"`
	State        string       `xml:"imageState"`
	OwnerID      string       `xml:"imageOwnerId"`
	OwnerAlias   string       `xml:"imageOwnerAlias,omitempty"`
	Architecture string       `xml:"architecture"`
	Created      string       `xml:"creationDate"`
	Tags         set[tagItem] `xml:"tagSet"`
}

// describeImages shows images in no particular order: the last of the account comes
// first.
func (c *Cloud) describeImages(in *ec2.DescribeImagesInput) (any, error) {
	var images []Image
	for _, image := range slices.Backward(c.account.Images) {
		owners := []string{image.Owner, image.OwnerAlias}
		if image.Owner == c.account.ID {
			owners = append(owners, "self")
		}
		if len(in.Owners) == 0 || slices.ContainsFunc(in.Owners, func(o string) bool { return o != "" && slices.Contains(owners, o) }) {
			images = append(images, image)
		}
	}
	shown, next, err := listing[Image]{
		entries: images, named: in.ImageIds, filters: in.Filters, limit: in.MaxResults, token: in.NextToken,
		name: func(i Image) string { return i.ID },
		unknown: func(id string) error {
			return refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
		},
		by: filters[Image]{
			"architecture":  func(i Image) []string { return one(string(i.Architecture)) },
			"creation-date": func(i Image) []string { return one(timestamp(i.Created)) },
			"image-id":      func(i Image) []string { return one(i.ID) },
			"name":          func(i Image) []string { return one(i.Name) },
			"owner-alias":   func(i Image) []string { return one(i.OwnerAlias) },
			"owner-id":      func(i Image) []string { return one(i.Owner) },
			"state":         func(Image) []string { return one("available") },
			"tag":           func(i Image) []string { return tagPairs(i.Tags) },
		},
	}.page(c)
	if err != nil {
		return nil, err
	}
	r := &imagesReply{NextToken: next}
	for _, i := range shown {
		r.Images.Items = append(r.Images.Items, imageItem{
			i.ID, i.Name, "available", i.Owner, i.OwnerAlias, string(i.Architecture), timestamp(i.Created), tagItems(i.Tags),
		})
	}
	return r, nil
}

type typesReply struct {
	reply
	Types     set[typeItem] `xml:"instanceTypeSet"`
	NextToken string        `xml:"nextToken,omitempty"`
}

type typeItem struct {
	Name          string        `xml:"instanceType"`
	Architectures set[textItem] `xml:"processorInfo>supportedArchitectures"`
	VCPUs         int           `xml:"vCpuInfo>defaultVCpus"`
	MemoryMiB     int           `xml:"memoryInfo>sizeInMiB"`
	GPUs          *set[gpuItem] `xml:"gpuInfo>gpus"`
}

// textItem is a member of a list of plain values.
type textItem struct {
	Value string `xml:",chardata"`
}

type gpuItem struct {
	Name         string `xml:"name"`
	Manufacturer string `xml:"manufacturer"`
	Count        int    `xml:"count"`
}

func (c *Cloud) describeInstanceTypes(in *ec2.DescribeInstanceTypesInput) (any, error) {
	if in.MaxResults != nil && (*in.MaxResults < 5 || *in.MaxResults > 100) {
		return nil, refuse("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value between 5 and 100.", *in.MaxResults)
	}
	shown, next, err := listing[Type]{
		entries: c.account.Types, named: texts(in.InstanceTypes), filters: in.Filters, limit: in.MaxResults, token: in.NextToken,
		name: typeName,
		unknown: func(name string) error {
			return refuse("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		},
		by: filters[Type]{
			"instance-type":                         func(t Type) []string { return one(t.Name) },
			"processor-info.supported-architecture": func(t Type) []string { return one(string(t.Architecture)) },
		},
	}.page(c)
	if err != nil {
		return nil, err
	}
	r := &typesReply{NextToken: next}
	for _, t := range shown {
		item := typeItem{Name: t.Name, VCPUs: t.VCPUs, MemoryMiB: t.MemoryMiB}
		item.Architectures.Items = []textItem{{string(t.Architecture)}}
		if t.GPUs > 0 {
			item.GPUs = &set[gpuItem]{[]gpuItem{{t.GPU, "NVIDIA", t.GPUs}}}
		}
		r.Types.Items = append(r.Types.Items, item)
	}
	return r, nil
}

func typeName(t Type) string { return t.Name }

func texts[S ~string](values []S) []string {
	var all []string
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

type offeringsReply struct {
	reply
	Offerings set[offeringItem] `xml:"instanceTypeOfferingSet"`
	NextToken string            `xml:"nextToken,omitempty"`
}

type offeringItem struct {
	Type         string             `xml:"instanceType"`
	LocationType types.LocationType `xml:"locationType"`
	Location     string             `xml:"location"`
}

// describeInstanceTypeOfferings says that every type is to be had in the region and
// in each of its zones.
func (c *Cloud) describeInstanceTypeOfferings(in *ec2.DescribeInstanceTypeOfferingsInput) (any, error) {
	kind, places := in.LocationType, []string{c.opts.Region}
	switch kind {
	case "":
		kind = types.LocationTypeRegion
	case types.LocationTypeRegion:
	case types.LocationTypeAvailabilityZone:
		places = c.zones()
	default:
		return nil, refuse("InvalidParameterValue", "Invalid value '%s' for locationType", kind)
	}
	var all []offeringItem
	for _, t := range c.account.Types {
		for _, place := range places {
			all = append(all, offeringItem{t.Name, kind, place})
		}
	}
	shown, next, err := listing[offeringItem]{
		entries: all, filters: in.Filters, limit: in.MaxResults, token: in.NextToken,
		by: filters[offeringItem]{
			"instance-type": func(o offeringItem) []string { return one(o.Type) },
			"location":      func(o offeringItem) []string { return one(o.Location) },
		},
	}.page(c)
	if err != nil {
		return nil, err
	}
	return &offeringsReply{Offerings: set[offeringItem]{shown}, NextToken: next}, nil
}

// zones are those that have a subnet.
func (c *Cloud) zones() []string {
	var all []string
	for _, s := range c.account.Subnets {
		if !slices.Contains(all, s.Zone) {
			all = append(all, s.Zone)
		}
	}
	return all
}

type pricesReply struct {
	reply
	Prices    set[priceItem] `xml:"spotPriceHistorySet"`
	NextToken string         `xml:"nextToken,omitempty"`
}

type priceItem struct {
	Type    string `xml:"instanceType"`
	Product string `xml:"productDescription"`
	Price   string `xml:"spotPrice"`
	Time    string `xml:"timestamp"`
	Zone    string `xml:"availabilityZone"`
}

const product = "Linux/UNIX"

// describeSpotPriceHistory shows a history without change: the price of each type in
// each zone as it is now. The later zones are dearer by a hundredth.
func (c *Cloud) describeSpotPriceHistory(in *ec2.DescribeSpotPriceHistoryInput) (any, error) {
	var all []priceItem
	for _, t := range c.account.Types {
		for n, zone := range c.zones() {
			if t.SpotUSD > 0 {
				price := fmt.Sprintf("%.6f", t.SpotUSD*(1+float64(n)/100))
				all = append(all, priceItem{t.Name, product, price, timestamp(time.Now()), zone})
			}
		}
	}
	wanted := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	all = slices.DeleteFunc(all, func(p priceItem) bool {
		zone := aws.ToString(in.AvailabilityZone)
		return !wanted(texts(in.InstanceTypes), p.Type) || !wanted(in.ProductDescriptions, p.Product) || zone != "" && zone != p.Zone
	})
	shown, next, err := listing[priceItem]{
		entries: all, filters: in.Filters, limit: in.MaxResults, token: in.NextToken,
		by: filters[priceItem]{
			"availability-zone":   func(p priceItem) []string { return one(p.Zone) },
			"instance-type":       func(p priceItem) []string { return one(p.Type) },
			"product-description": func(p priceItem) []string { return one(p.Product) },
		},
	}.page(c)
	if err != nil {
		return nil, err
	}
	return &pricesReply{Prices: set[priceItem]{shown}, NextToken: next}, nil
}
