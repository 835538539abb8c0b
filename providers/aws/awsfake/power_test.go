package awsfake

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestPower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Boot: 20 * time.Second, Stop: 30 * time.Second})
		vm, ctx := c.client(), t.Context()
		id := *run(t, vm, launchOf("one")).InstanceId
		ids := []string{id}
		state := func() types.InstanceStateName { return described(t, vm, only(id))[id].State.Name }
		time.Sleep(20 * time.Second)
		out, err := vm.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids})
		if err != nil || out.StoppingInstances[0].PreviousState.Name != running || out.StoppingInstances[0].CurrentState.Name != stopping {
			t.Fatalf("stop: %+v, %v", out, err)
		}
		_, err = vm.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids})
		wantCode(t, "start of a machine that stops", err, "IncorrectInstanceState")
		_, err = vm.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: ids})
		wantCode(t, "reboot of a machine that stops", err, "IncorrectInstanceState")
		time.Sleep(30 * time.Second)
		if got := state(); got != stopped {
			t.Errorf("after a stop it is %s", got)
		}
		for range 2 {
			if _, err := vm.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids}); err != nil {
				t.Errorf("start: %v", err)
			}
		}
		if got := state(); got != pending {
			t.Errorf("after a start it is %s", got)
		}
		time.Sleep(20 * time.Second)
		if _, err := vm.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: ids}); err != nil || state() != running {
			t.Errorf("reboot: %v, it is %s", err, state())
		}
		c.Kill(id)
		time.Sleep(30 * time.Second)
		if got := described(t, vm, only(id))[id]; got.State.Name != stopped || *got.StateReason.Code != "Client.InstanceInitiatedShutdown" {
			t.Errorf("after its own power off it is %s: %+v", got.State.Name, got.StateReason)
		}
		c.SetRoom(Place{subnetA, string(small)}, 0)
		_, err = vm.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids})
		wantCode(t, "start without room", err, "InsufficientInstanceCapacity")
		c.Remove(id)
		_, err = vm.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids})
		wantCode(t, "start of a machine that vanished", err, "InvalidInstanceID.NotFound")
	})
}

func TestAMachineThatTurnsItselfOffMayEnd(t *testing.T) {
	c := New(Options{})
	vm := c.client()
	id := *run(t, vm, launchOf("one", func(in *ec2.RunInstancesInput) {
		in.InstanceInitiatedShutdownBehavior = types.ShutdownBehaviorTerminate
	})).InstanceId
	c.Kill(id)
	if got := described(t, vm, only(id))[id].State.Name; got != terminated {
		t.Errorf("it is %s", got)
	}
}

func TestTags(t *testing.T) {
	c := New(Options{})
	vm := c.client()
	id := *run(t, vm, launchOf("one")).InstanceId
	tag := func(key, value string) error {
		_, err := vm.CreateTags(t.Context(), &ec2.CreateTagsInput{
			Resources: []string{id}, Tags: []types.Tag{{Key: &key, Value: &value}},
		})
		return err
	}
	if err := errors.Join(tag("of", "two"), tag("more", "")); err != nil {
		t.Fatal(err)
	}
	if got := c.Machines()[0].Tags; len(got) != 2 || got["of"] != "two" {
		t.Errorf("the tags are %v", got)
	}
	wantCode(t, "a tag of AWS", tag("aws:x", "y"), "InvalidParameterValue")
	_, err := vm.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{"i-00000000000000000"}, Tags: []types.Tag{{Key: aws.String("a")}}})
	wantCode(t, "a tag of a machine that is not there", err, "InvalidInstanceID.NotFound")
}

// TestGuests sees what runs in machines begin and end with them.
func TestGuests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up, started atomic.Int32
		broken := errors.New("no kernel")
		c := New(Options{Boot: 10 * time.Second, Run: func(m Machine) (func(), error) {
			if m.Tags["of"] == "broken" {
				return nil, broken
			}
			up.Add(1)
			started.Add(1)
			return func() { time.Sleep(time.Second); up.Add(-1) }, nil
		}})
		defer c.Close()
		vm, ctx := c.client(), t.Context()
		passes := func(d time.Duration, wantUp, wantStarted int32) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if up.Load() != wantUp || started.Load() != wantStarted {
				t.Errorf("%d guests run and %d were started, want %d and %d", up.Load(), started.Load(), wantUp, wantStarted)
			}
		}
		launch := func(token string) []string { return []string{*run(t, vm, launchOf(token)).InstanceId} }
		one, two, bad := launch("one"), launch("two"), launch("broken")
		passes(9*time.Second, 0, 0)
		passes(time.Second, 2, 2)
		if got := described(t, vm, only(bad[0]))[bad[0]].State.Name; got != stopped {
			t.Errorf("a machine whose guest does not start is %s", got)
		}
		if _, err := vm.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: one}); err != nil {
			t.Fatal(err)
		}
		passes(time.Second, 1, 2)
		passes(10*time.Second, 2, 3)
		if _, err := vm.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: two}); err != nil {
			t.Fatal(err)
		}
		passes(time.Second, 1, 3)
		early := launch("early")
		if err := terminate(ctx, vm, one[0], early[0]); err != nil {
			t.Fatal(err)
		}
		passes(time.Minute, 0, 3)
		if _, err := vm.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: two}); err != nil {
			t.Fatal(err)
		}
		passes(time.Minute, 1, 4)
		if !c.Hang(two[0]) || c.Hang(one[0]) {
			t.Error("machines that are on hang, and no other ones")
		}
		passes(time.Minute, 0, 4)
		if got := described(t, vm, only(two[0]))[two[0]].State.Name; got != running {
			t.Errorf("a machine that hangs is %s", got)
		}
		if _, err := vm.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: two}); err != nil {
			t.Fatal(err)
		}
		passes(time.Minute, 1, 5)
		c.Close()
		passes(0, 0, 5)
	})
}
