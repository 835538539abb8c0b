package catalog

import (
	"reflect"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"nstance.dev/providers/aws/api"
	"nstance.dev/server/driver"
)

func TestFirstImageInTheOrder(t *testing.T) {
	image := func(id, name, created string) types.Image {
		return types.Image{ImageId: sdk.String(id), Name: sdk.String(name), CreationDate: sdk.String(created)}
	}
	images := []types.Image{
		image("ami-2", "b", "2026-03-02T00:00:00.000Z"), image("ami-4", "c", "2026-03-01T00:00:00.000Z"),
		image("ami-1", "a", "2026-03-03T00:00:00.000Z"), image("ami-3", "a", "2026-03-03T00:00:00.000Z"),
	}
	for _, c := range []struct {
		query driver.ImageQuery
		want  string
	}{
		{driver.ImageQuery{}, "ami-4"},
		{driver.ImageQuery{Descending: true}, "ami-3"},
		{driver.ImageQuery{ByName: true}, "ami-1"},
		{driver.ImageQuery{ByName: true, Descending: true}, "ami-4"},
	} {
		if got := sdk.ToString(firstImage(images, c.query).ImageId); got != c.want {
			t.Errorf("%+v: %s, want %s", c.query, got, c.want)
		}
	}
}

func TestImagesMustBeAvailable(t *testing.T) {
	name := driver.ImageFilter{Name: "name", Values: []string{"debian-*"}}
	state := driver.ImageFilter{Name: "state", Values: []string{"deprecated"}}
	for _, c := range []struct {
		filters []driver.ImageFilter
		want    []types.Filter
	}{
		{[]driver.ImageFilter{name}, []types.Filter{api.Filter("name", "debian-*"), api.Filter("state", "available")}},
		{[]driver.ImageFilter{state}, []types.Filter{api.Filter("state", "deprecated")}},
	} {
		if got := imageFilters(driver.ImageQuery{Filters: c.filters}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v", c.filters, got)
		}
	}
}
