package catalog

import (
	"cmp"
	"context"
	"errors"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

// ResolveImage returns the first image, in the order that the query asks for, of
// those that match and can be used.
func (c *Catalog) ResolveImage(ctx context.Context, query driver.ImageQuery) (id string, err error) {
	const op = "resolve-image"
	if err := api.Begin(ctx, op); err != nil {
		return "", err
	}
	in := &ec2.DescribeImagesInput{Owners: query.Owners, Filters: imageFilters(query), MaxResults: sdk.Int32(api.PageSize)}
	var images []types.Image
	for pages := ec2.NewDescribeImagesPaginator(c.api.EC2, in); pages.HasMorePages(); {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return "", api.Fail(op, api.Reads, err)
		}
		images = append(images, out.Images...)
	}
	if len(images) == 0 {
		return "", driver.Fail(driver.MissingRef, op, errors.New("no available image matches the filters and owners"))
	}
	return sdk.ToString(firstImage(images, query).ImageId), nil
}

// imageFilters are those of a query, and the state that an image must have to be
// launched, unless the query names one.
func imageFilters(query driver.ImageQuery) []types.Filter {
	var filters []types.Filter
	hasState := false
	for _, f := range query.Filters {
		filters = append(filters, api.Filter(f.Name, f.Values...))
		hasState = hasState || f.Name == "state"
	}
	if !hasState {
		filters = append(filters, api.Filter("state", string(types.ImageStateAvailable)))
	}
	return filters
}

// firstImage returns the first of the images in the query's order. Where that does
// not tell two apart their ids do, so that equal answers give one image.
func firstImage(images []types.Image, query driver.ImageQuery) types.Image {
	order := func(a, b types.Image) int {
		by := cmp.Compare(sdk.ToString(a.CreationDate), sdk.ToString(b.CreationDate)) // ISO 8601 in UTC
		if query.ByName {
			by = cmp.Compare(sdk.ToString(a.Name), sdk.ToString(b.Name))
		}
		by = cmp.Or(by, cmp.Compare(sdk.ToString(a.ImageId), sdk.ToString(b.ImageId)))
		if query.Descending {
			return -by
		}
		return by
	}
	return slices.MinFunc(images, order)
}
