package rpc_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// switched is a cloud whose machines can be switched off and on.
type switched struct {
	*drivertest.Cloud
	driver.Powerer
	driver.Outputter
}

// fromNow is a time that is some way ahead.
func fromNow(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(d)) }

// aboutPower are the five calls about holds and power, each about the instance and an operation of these names.
func aboutPower(api nstancev1.OperatorServiceClient, id, operation string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"SetHold": func(ctx context.Context) error {
			_, err := api.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: id, Reason: "power"})
			return err
		},
		"ClearHold": func(ctx context.Context) error {
			_, err := api.ClearHold(ctx, &nstancev1.ClearHoldRequest{InstanceId: id})
			return err
		},
		"StartOperation": func(ctx context.Context) error {
			_, err := api.StartOperation(ctx, &nstancev1.StartOperationRequest{Id: operation, InstanceId: id, Name: "powerOff"})
			return err
		},
		"GetOperation": func(ctx context.Context) error {
			_, err := api.GetOperation(ctx, &nstancev1.GetOperationRequest{Id: operation})
			return err
		},
		"CancelOperation": func(ctx context.Context) error {
			_, err := api.CancelOperation(ctx, &nstancev1.CancelOperationRequest{Id: operation})
			return err
		},
	}
}

func (w *world) powerOf(id identity.ID) driver.Status {
	w.t.Helper()
	vm, there := w.cloud.Machine(id)
	if !there {
		w.t.Fatal("the machine is gone")
	}
	return vm.Status
}

// M84, M85, S12: a power cycle and its hold over the wire. Nobody else can do anything to it: another tenant does not find it, the
// agent of the instance and who has no certificate are not heard.
func TestM84_M85_S12_HoldsAndPowerOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true, power: true})
		own, foreign := w.operatorOf("default"), w.enrolMarked("acme")
		h := w.hosts(own, "web", "machine/v1")
		ctx, id := w.ctx, h.id.String()

		_, err := own.StartOperation(ctx, &nstancev1.StartOperationRequest{Id: "op-1", InstanceId: id, Name: "powerCycle"})
		wantCode(t, err, codes.FailedPrecondition, "NO_HOLD")
		hold, err := own.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: id, Reason: "power", Until: fromNow(time.Hour)})
		if err != nil || hold.GetReason() != "power" || time.Until(hold.GetUntil().AsTime()).Round(time.Minute) != time.Hour {
			t.Fatalf("hold %v, %v", hold, err)
		}
		_, err = own.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: id, Reason: "reboot"})
		wantCode(t, err, codes.FailedPrecondition, "ON_HOLD")

		agent := nstancev1.NewOperatorServiceClient(w.dial(w.operator, credentials.NewTLS(w.clientTLS(w.agentCert(h.id)))))
		nobody := nstancev1.NewOperatorServiceClient(w.dial(w.operator, credentials.NewTLS(w.clientTLS())))
		stranger := nstancev1.NewOperatorServiceClient(w.dial(w.operator, credentials.NewTLS(w.clientTLS(w.operatorCert(own)))))
		begun := func(what string) {
			t.Helper()
			for name, call := range aboutPower(foreign.api, id, "op-1") {
				if err := call(ctx); status.Code(err) != codes.NotFound {
					t.Errorf("%s: %s of another tenant: %v", what, name, err)
				}
			}
			for who, api := range map[string]nstancev1.OperatorServiceClient{"the agent": agent, "nobody": nobody, "a certificate that no record knows": stranger} {
				for name, call := range aboutPower(api, id, "op-1") {
					if code := status.Code(call(ctx)); code != codes.PermissionDenied && code != codes.Unauthenticated && code != codes.Unavailable {
						t.Errorf("%s: %s by %s: %s", what, name, who, code)
					}
				}
			}
			in, err := own.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: id})
			if err != nil || in.GetHold().GetReason() != "power" {
				t.Errorf("%s: the hold is %v, %v", what, in.GetHold(), err)
			}
		}
		begun("on hold")

		cycle := &nstancev1.StartOperationRequest{Id: "op-1", InstanceId: id, Name: "powerCycle", Parameters: map[string]string{"mode": "hard", "force": "true"}}
		for range 3 { // the same id is the same operation
			if op, err := own.StartOperation(ctx, cycle); err != nil || op.GetState() != nstancev1.OperationState_OPERATION_STATE_IN_PROGRESS {
				t.Fatalf("started: %v, %v", op, err)
			}
		}
		begun("begun")
		_, err = own.StartOperation(ctx, &nstancev1.StartOperationRequest{Id: "op-2", InstanceId: id, Name: "powerOff"})
		wantCode(t, err, codes.FailedPrecondition, "OPERATION_RUNNING")
		_, err = own.StartOperation(ctx, &nstancev1.StartOperationRequest{Id: "op-1", InstanceId: id, Name: "powerOff"})
		wantCode(t, err, codes.AlreadyExists, "OPERATION_EXISTS")
		if _, err := w.store.Get(ctx, layout.OperationRecord{Tenant: "default", ID: "op-1"}.Key(shardName)); err != nil {
			t.Errorf("the operation is not stored: %v", err)
		}
		h.lives(2 * time.Minute)
		op, err := own.GetOperation(ctx, &nstancev1.GetOperationRequest{Id: "op-1"})
		var marks []string
		for _, m := range op.GetMarks() {
			marks = append(marks, fmt.Sprint(m.GetMark(), " ", m.GetTimes()))
		}
		if err != nil || op.GetState() != nstancev1.OperationState_OPERATION_STATE_COMPLETE || strings.Join(marks, ", ") != "intent 1, off-sent 1, off-seen 1, on-sent 1, on-seen 1" {
			t.Errorf("ended: %v, marks %v, %v", op, marks, err)
		}
		if w.powerOf(h.id) != driver.Running {
			t.Errorf("the machine is %s", w.powerOf(h.id))
		}
		if op, err := own.CancelOperation(ctx, &nstancev1.CancelOperationRequest{Id: "op-1"}); err != nil || op.GetState() != nstancev1.OperationState_OPERATION_STATE_COMPLETE {
			t.Errorf("cancelled when it is over: %v, %v", op, err)
		}
		if _, err := own.ClearHold(ctx, &nstancev1.ClearHoldRequest{InstanceId: id, Reason: "reboot"}); err != nil {
			t.Error(err)
		}
		begun("over") // the hold is for something else than was cleared
		if _, err := own.ClearHold(ctx, &nstancev1.ClearHoldRequest{InstanceId: id, Reason: "power"}); err != nil {
			t.Error(err)
		}
		if in, err := own.GetInstanceStatus(ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: id}); err != nil || in.GetHold() != nil {
			t.Errorf("after the hold: %v, %v", in.GetHold(), err)
		}
		if foreign.ear.has("off-sent") || foreign.ear.has("on hold") {
			t.Error("another tenant has heard of the machine")
		}
	})
}

// M84: with a hold a machine that was switched off stays; once that has ended it is replaced, as one without is at once.
func TestM84_M85_OffUnderAHoldOverTheWire(t *testing.T) {
	for name, held := range map[string]bool{"on hold": true, "without a hold": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, worldOptions{pipes: true, power: true})
				own := w.operatorOf("default")
				h := w.hosts(own, "web", "machine/v1")
				h.lives(time.Minute)
				if held {
					if _, err := own.SetHold(w.ctx, &nstancev1.SetHoldRequest{InstanceId: h.id.String(), Reason: "power", Until: fromNow(time.Hour)}); err != nil {
						t.Fatal(err)
					}
				}
				w.cloud.SetStatus(h.id, driver.Stopped)
				_ = h.stream.CloseSend()
				time.Sleep(30 * time.Minute)
				in, err := own.GetInstanceStatus(w.ctx, &nstancev1.GetInstanceStatusRequest{InstanceId: h.id.String()})
				if held && (err != nil || in.GetStatus() != "powered-off" || len(w.boots) > 0) || !held && len(w.boots) == 0 {
					t.Errorf("half an hour later it is %v, %v, and %d others were made", in.GetStatus(), err, len(w.boots))
				}
				time.Sleep(time.Hour)
				if len(w.boots) == 0 {
					t.Error("it is off, the hold has ended, and it is not replaced")
				}
			})
		})
	}
}

// S18, S22: what is malformed is refused, whoever says it, and nothing is stored of it.
func TestS18_S22_HostileHoldsAndOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true, power: true})
		own := w.operatorOf("default")
		h := w.hosts(own, "web", "machine/v1")
		ctx, id := w.ctx, h.id.String()
		long := strings.Repeat("x", 1<<16)
		broken := []*timestamppb.Timestamp{{Seconds: math.MaxInt64}, {Seconds: math.MinInt64}, {Nanos: -1}, {Seconds: -62135596801}, timestamppb.New(time.Now().Add(-time.Hour))}
		many := map[string]string{}
		for i := range 33 {
			many[fmt.Sprint("k", strings.Repeat("a", i))] = "v"
		}
		hold := func(reason string, until *timestamppb.Timestamp) error {
			_, err := own.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: id, Reason: reason, Until: until})
			return err
		}
		start := func(change func(*nstancev1.StartOperationRequest)) error {
			r := &nstancev1.StartOperationRequest{Id: "op", InstanceId: id, Name: "powerOff"}
			change(r)
			_, err := own.StartOperation(ctx, r)
			return err
		}
		refused := map[string]error{}
		for _, reason := range []string{"", "forever", "Reboot", "reboot ", "reboot\x00", long} {
			refused["hold for "+reason[:min(len(reason), 9)]] = hold(reason, nil)
		}
		for i, until := range broken {
			refused[fmt.Sprint("hold until ", i)] = hold("power", until)
			refused[fmt.Sprint("deadline ", i)] = start(func(r *nstancev1.StartOperationRequest) { r.Deadline = until })
		}
		for _, of := range []string{"", "..", "op/../x", "OP", "a b", "op\n", strings.Repeat("a", 65), long} {
			refused["operation "+of[:min(len(of), 9)]] = start(func(r *nstancev1.StartOperationRequest) { r.Id = of })
		}
		for _, name := range []string{"", "poweroff", "powerReboot", "rm -rf", long} {
			refused["name "+name[:min(len(name), 9)]] = start(func(r *nstancev1.StartOperationRequest) { r.Name = name })
		}
		for what, params := range map[string]map[string]string{
			"mode": {"mode": "soft"}, "an unknown one": {"when": "now"}, "a path": {"../x": "y"}, "many": many, "long": {"mode": long}, "force": {"force": "yes"}, "a long key": {long: "x"},
		} {
			refused["parameters: "+what] = start(func(r *nstancev1.StartOperationRequest) { r.Parameters = params })
		}
		refused["a deadline in a year"] = start(func(r *nstancev1.StartOperationRequest) { r.Deadline = fromNow(8760 * time.Hour) })
		_, err := own.ClearHold(ctx, &nstancev1.ClearHoldRequest{InstanceId: id, Reason: "all"})
		refused["clear for all"] = err
		for what, err := range refused {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, of := range []string{"", "gone", "../" + id, id + "\x00", long} {
			for name, call := range aboutPower(own, of, "op-x"+of) {
				if code := status.Code(call(ctx)); code != codes.NotFound && code != codes.InvalidArgument {
					t.Errorf("%s of instance %.9q: %s", name, of, code)
				}
			}
		}
		// What is asked for too long is bounded.
		got, err := own.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: id, Reason: "reboot", Until: fromNow(87600 * time.Hour)})
		if err != nil || time.Until(got.GetUntil().AsTime()) > 15*time.Minute {
			t.Errorf("a hold of ten years: %v, %v", got, err)
		}
		for range 20 {
			time.Sleep(time.Minute)
			h.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{Report: &nstancev1.HealthReport{InstanceId: id, Count: time.Now().Unix()}}})
			if again, err := own.SetHold(ctx, &nstancev1.SetHoldRequest{InstanceId: id, Reason: "reboot"}); err == nil {
				got = again
			}
			if left := time.Until(got.GetSince().AsTime().Add(15 * time.Minute)); got.GetUntil().AsTime().After(time.Now().Add(left)) {
				t.Fatalf("a hold that is set again and again ends at %v, and began at %v", got.GetUntil().AsTime(), got.GetSince().AsTime())
			}
		}
		for info, err := range objectstore.ListAll(ctx, w.store, layout.OperationPrefix(shardName)) {
			t.Errorf("stored: %s, %v", info.Key, err)
		}
	})
}
