package rpc_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/masking"
)

// output asks for what the machine of an instance has written.
func (c client) output(t *testing.T, id identity.ID, source string) (*nstancev1.ReadInstanceOutputResponse, error) {
	t.Helper()
	return c.ReadInstanceOutput(t.Context(), &nstancev1.ReadInstanceOutputRequest{InstanceId: id.String(), Source: source})
}

// Neither the nonce with which a machine registers nor what else it was made from leaves the
// server, whatever the machine writes of it.
func TestS14_WhatAMachineHasWrittenIsMasked(t *testing.T) {
	w := newWorld(t, worldOptions{})
	op := w.operatorOf("acme")
	vm := w.machine(op)
	nonce := string(vm.UserData)
	if strings.Count(nonce, ".") != 2 {
		t.Fatalf("the user data is %q, which is no nonce", nonce)
	}
	w.cloud.Write(vm.InstanceID, "[0.0] Linux\n+ nonce="+nonce+"\n"+nonce+"\r\n[1.0] the end\x1b[2J\n"+nonce[:len(nonce)/2])
	got, err := op.output(t, vm.InstanceID, "")
	if err != nil {
		t.Fatal(err)
	}
	want := "[0.0] Linux\n+ nonce=" + masking.ShownNonce + "\n" + masking.ShownNonce + "\n[1.0] the end\n" + masking.ShownNonce
	if got.Text != want || got.Source != "console" || got.Truncated || got.Masked != 3 || len(got.Sources) != 1 {
		t.Errorf("it is told %v, want %q", got, want)
	}
	w.cloud.Write(vm.InstanceID, "\n"+strings.Repeat("a line\n", driver.MaxOutput/7)+"last\n")
	got, err = op.output(t, vm.InstanceID, "console")
	if err != nil || len(got.Text) > driver.MaxOutput || !got.Truncated || !strings.HasPrefix(got.Text, "a line\n") || !strings.HasSuffix(got.Text, "last\n") {
		t.Errorf("of much it is told %d bytes, truncated %t, %v", len(got.GetText()), got.GetTruncated(), err)
	}
}

func TestOutputIsRefused(t *testing.T) {
	w := newWorld(t, worldOptions{})
	op := w.operatorOf("acme")
	vm := w.machine(op)
	if _, err := op.output(t, vm.InstanceID, ""); err != nil {
		t.Fatal(err)
	}
	_, err := op.output(t, vm.InstanceID, "diary")
	wantCode(t, err, codes.InvalidArgument, "INVALID_FIELD")
	_, err = op.output(t, vm.InstanceID, "log")
	wantCode(t, err, codes.FailedPrecondition, "NO_OUTPUT")
	_, err = w.operatorOf("zeta").output(t, vm.InstanceID, "")
	wantCode(t, err, codes.NotFound, "NOT_FOUND")
	for kind, want := range map[driver.ErrorClass]struct {
		code   codes.Code
		reason string
	}{
		driver.NotFound:    {codes.FailedPrecondition, "NO_MACHINE"},
		driver.Auth:        {codes.FailedPrecondition, "OUTPUT_REFUSED"},
		driver.Unsupported: {codes.FailedPrecondition, "NO_OUTPUT"},
		driver.Throttled:   {codes.ResourceExhausted, "PROVIDER_THROTTLED"},
		driver.Transient:   {codes.Unavailable, "PROVIDER_UNAVAILABLE"},
	} {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpOutput, drivertest.Fail(kind)))
		_, err := op.output(t, vm.InstanceID, "")
		wantCode(t, err, want.code, want.reason)
	}
	w.cloud.SetFaults(nil)
	mute := newWorld(t, worldOptions{mute: true})
	op = mute.operatorOf("acme")
	_, err = op.output(t, mute.machine(op).InstanceID, "")
	wantCode(t, err, codes.FailedPrecondition, "NO_OUTPUT")
}

// What a machine was made from before its group changed is not known, so that it could not be masked.
func TestS14_OutputOfAMachineOfAnotherConfigurationIsNotTold(t *testing.T) {
	w := newWorld(t, worldOptions{})
	op := w.operatorOf("acme")
	vm := w.machine(op)
	hosts := "hosts"
	_, err := op.UpsertGroup(t.Context(), &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: &hosts}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = op.output(t, vm.InstanceID, "")
	wantCode(t, err, codes.FailedPrecondition, "USER_DATA_UNKNOWN")
}
