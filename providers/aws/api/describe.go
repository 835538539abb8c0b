package api

import (
	"context"
	"net/netip"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// PageSize is how many instances one answer may have: the most that EC2 allows.
const PageSize = 1000

// Describe returns the instances of all pages.
func (c *Client) Describe(ctx context.Context, in *ec2.DescribeInstancesInput) ([]types.Instance, error) {
	var all []types.Instance
	for pages := ec2.NewDescribeInstancesPaginator(c.EC2, in); pages.HasMorePages(); {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, instancesOf(out.Reservations)...)
	}
	return all, nil
}

// instancesOf are the instances of an answer, which come by reservation.
func instancesOf(reservations []types.Reservation) []types.Instance {
	var all []types.Instance
	for _, r := range reservations {
		all = append(all, r.Instances...)
	}
	return slices.Clip(all)
}

// Filter selects what has one of the values.
func Filter(name string, values ...string) types.Filter {
	return types.Filter{Name: sdk.String(name), Values: values}
}

// Address is the zero value for what is none.
func Address(text *string) netip.Addr {
	ip, err := netip.ParseAddr(sdk.ToString(text))
	if err != nil {
		return netip.Addr{}
	}
	return ip
}
