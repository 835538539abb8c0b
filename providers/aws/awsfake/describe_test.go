package awsfake

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestPages(t *testing.T) {
	c := New(Options{PageSize: 3})
	vm := c.client()
	for i := range 8 {
		run(t, vm, launchOf(fmt.Sprint("token ", i)))
	}
	if all := described(t, vm, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)}); len(all) != 8 {
		t.Errorf("the pages have %d machines, want 8", len(all))
	}
	if calls := c.Gate().Count("DescribeInstances"); calls != 3 {
		t.Errorf("%d pages of 3 for 8 machines", calls)
	}
	if all := described(t, vm, &ec2.DescribeInstancesInput{}); len(all) != 8 || c.Gate().Count("DescribeInstances") != 4 {
		t.Error("a call that does not ask for pages got some")
	}
	for what, in := range map[string]struct {
		input *ec2.DescribeInstancesInput
		code  string
	}{
		"small pages":             {&ec2.DescribeInstancesInput{MaxResults: aws.Int32(4)}, "InvalidParameterValue"},
		"pages of ids":            {&ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), InstanceIds: []string{"i-00000000"}}, "InvalidParameterCombination"},
		"a token of somebody":     {&ec2.DescribeInstancesInput{NextToken: aws.String("page 2")}, "InvalidPaginationToken"},
		"an unknown id":           {only("i-00000000000000000"), "InvalidInstanceID.NotFound"},
		"a malformed id":          {only("vm-1"), "InvalidInstanceID.Malformed"},
		"an unknown filter":       {filter("colour", "red"), "InvalidParameterValue"},
		"a filter without values": {filter("tag:of"), "InvalidParameterValue"},
	} {
		_, err := vm.DescribeInstances(t.Context(), in.input)
		wantCode(t, what, err, in.code)
	}
}

func filter(name string, values ...string) *ec2.DescribeInstancesInput {
	return &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: &name, Values: values}}}
}

func TestFilters(t *testing.T) {
	c := New(Options{})
	vm := c.client()
	run(t, vm, launchOf("red"))
	blue := run(t, vm, launchOf("blue", func(in *ec2.RunInstancesInput) { in.SubnetId = aws.String(subnetB) }))
	if err := terminate(t.Context(), vm, *blue.InstanceId); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		filters []types.Filter
		want    int
	}{
		{nil, 2},
		{filter("tag:of", "red").Filters, 1},
		{filter("tag:of", "red", "blue").Filters, 2},
		{filter("tag:of", "r*").Filters, 1},
		{filter("tag:of", "?lue").Filters, 1},
		{filter("tag:of", `r\*`).Filters, 0},
		{filter("tag:o*", "red").Filters, 0},
		{filter("tag-key", "of").Filters, 2},
		{filter("tag-key", "red").Filters, 0},
		{filter("client-token", "blue").Filters, 1},
		{filter("subnet-id", subnetB).Filters, 1},
		{filter("instance-state-name", "pending", "running", "stopping", "stopped").Filters, 1},
		{append(filter("tag:of", "blue").Filters, filter("instance-state-name", "running").Filters...), 0},
	} {
		if got := described(t, vm, &ec2.DescribeInstancesInput{Filters: test.filters}); len(got) != test.want {
			t.Errorf("%d machines match %+v, want %d", len(got), test.filters, test.want)
		}
	}
}

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Lag: time.Minute, LagAll: true, Boot: 10 * time.Second})
		vm := c.client()
		id := *run(t, vm, launchOf("one")).InstanceId
		_, err := vm.DescribeInstances(t.Context(), only(id))
		wantCode(t, "describe at once", err, "InvalidInstanceID.NotFound")
		wantCode(t, "terminate at once", terminate(t.Context(), vm, id), "InvalidInstanceID.NotFound")
		if all := described(t, vm, &ec2.DescribeInstancesInput{}); len(all) > 0 {
			t.Errorf("a list at once has %v", all)
		}
		time.Sleep(time.Minute)
		if got := described(t, vm, only(id))[id]; got.State.Name != pending {
			t.Errorf("a minute later it shows as %s, and was pending a minute ago", got.State.Name)
		}
		time.Sleep(10 * time.Second)
		if err := terminate(t.Context(), vm, id); err != nil {
			t.Fatal(err)
		}
		if got := described(t, vm, only(id))[id]; got.State.Name != running {
			t.Errorf("a machine that has just been terminated shows as %s", got.State.Name)
		}
		time.Sleep(time.Minute)
		if got := described(t, vm, only(id))[id]; got.State.Name != terminated {
			t.Errorf("a minute later it shows as %s", got.State.Name)
		}
	})
}

func TestF21_HiddenMachinesAreFoundByTheirIDs(t *testing.T) {
	c := New(Options{})
	vm := c.client()
	id := *run(t, vm, launchOf("red")).InstanceId
	c.Hide(true)
	if all := described(t, vm, filter("tag:of", "red")); len(all) > 0 {
		t.Errorf("a search has %v", all)
	}
	if got := described(t, vm, only(id)); len(got) != 1 {
		t.Errorf("by its id: %v", got)
	}
	c.Hide(false)
	if all := described(t, vm, filter("tag:of", "red")); len(all) != 1 {
		t.Errorf("a search afterwards has %v", all)
	}
}

func TestLagAndEndChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		vm := c.client()
		id := *run(t, vm, launchOf("one")).InstanceId
		time.Sleep(time.Second)
		c.SetLag(time.Minute)
		c.SetEnd(time.Hour)
		if err := terminate(t.Context(), vm, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if all := described(t, vm, &ec2.DescribeInstancesInput{}); len(all) != 0 {
			t.Errorf("half a minute later it shows, and was not there a minute ago: %v", all)
		}
		time.Sleep(time.Minute)
		if got := described(t, vm, only(id))[id]; got.State.Name != ending {
			t.Errorf("within the hour it is %s", got.State.Name)
		}
	})
}
