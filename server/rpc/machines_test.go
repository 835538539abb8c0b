package rpc_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
)

// hosted is the host of an instance whose agent is the test.
type hosted struct {
	id     identity.ID
	stream grpc.BidiStreamingClient[nstancev1.AgentMessage, nstancev1.ServerMessage]

	mu    sync.Mutex
	heard []string // of node machines
}

// hosts makes a group of a template with node machines, and connects the agent of its only
// instance. Capabilities are what the agent offers.
func (w *world) hosts(c client, group string, capabilities ...string) *hosted {
	w.t.Helper()
	template, size := "hosts", int32(1)
	if _, err := c.UpsertGroup(w.ctx, &nstancev1.UpsertGroupRequest{Key: group, Config: &nstancev1.GroupConfig{Template: &template, Size: &size}}); err != nil {
		w.t.Fatal(err)
	}
	id, conn := w.registers(<-w.boots)
	stream, err := nstancev1.NewAgentServiceClient(conn).Connect(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	h := &hosted{id: id, stream: stream}
	h.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{
		InstanceId: id.String(), AgentVersion: "v9", Capabilities: capabilities,
	}}})
	h.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{Report: &nstancev1.HealthReport{InstanceId: id.String(), Count: 1}}})
	go func() {
		for {
			msg, err := stream.Recv()
			if err != nil {
				return
			}
			h.note(msg)
		}
	}()
	synctest.Wait()
	return h
}

// An error shows when the answer is read.
func (h *hosted) say(m *nstancev1.AgentMessage) { _ = h.stream.Send(m) }

func (h *hosted) note(msg *nstancev1.ServerMessage) {
	if msg.GetMachineWork() == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch work := msg.GetMachineWork().GetWork().(type) {
	case *nstancev1.MachineWork_Assignment:
		h.heard = append(h.heard, fmt.Sprint("assignment ", work.Assignment.GetEpoch()))
	case *nstancev1.MachineWork_CredentialUpdate:
		h.heard = append(h.heard, "credential "+work.CredentialUpdate.GetToken())
	case *nstancev1.MachineWork_NodeConfirmed:
		h.heard = append(h.heard, "confirmed "+work.NodeConfirmed.GetNodeUid())
	case *nstancev1.MachineWork_Operation:
		h.heard = append(h.heard, "operation "+work.Operation.GetId())
	case *nstancev1.MachineWork_CancelOperation:
		h.heard = append(h.heard, "cancel "+work.CancelOperation.GetId())
	}
}

func (h *hosted) expect(t *testing.T, what, want string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.heard, ", "); got != want {
		t.Errorf("%s: heard %q, want %q", what, got, want)
	}
	h.heard = nil
}

// lives has the agent report every ten seconds.
func (h *hosted) lives(d time.Duration) {
	for n := range int64(d / (10 * time.Second)) {
		time.Sleep(10 * time.Second)
		h.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{Report: &nstancev1.HealthReport{
			InstanceId: h.id.String(), Count: n + time.Now().Unix(),
		}}})
	}
	synctest.Wait()
}

const joinSecret = "marked-secret-04ef"

func (c client) put(ctx context.Context, id identity.ID, epoch int64) error {
	_, err := c.PutAssignment(ctx, &nstancev1.PutAssignmentRequest{
		InstanceId: id.String(),
		Assignment: &nstancev1.MachineAssignment{
			MachineName: id.String(), MachineUid: "uid-1", Epoch: epoch, Mode: nstancev1.MachineMode_MACHINE_MODE_PAVE, NodeName: "n1",
			Configuration: &nstancev1.MachineConfigurationVersion{Name: "workers", Version: 1, Uid: "c", Hash: "sha256:" + strings.Repeat("0", 64)},
			Template:      &nstancev1.MachineTemplate{Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3"}},
			ApiServer:     &nstancev1.MachineApiServer{Endpoint: "https://api:6443"},
		},
		Credential: &nstancev1.MachineCredential{Epoch: epoch, Sequence: 1, Token: joinSecret, ExpiresAt: timestamppb.New(time.Now().Add(time.Hour))},
	})
	return err
}

// The way of an assignment over the wire: to the host, its reports back, and its end with the
// instance. Another tenant sees nothing of it (S12), and nothing shows the secret (S14).
func TestM40_M43_S12_AssignmentsOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		own, foreign := w.operatorOf("default"), w.enrolMarked("acme")
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		h := w.hosts(own, "web", "machine/v1")
		stream, err := own.WatchMachines(ctx, &nstancev1.WatchMachinesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		heard, herr := foreign.api.WatchMachines(ctx, &nstancev1.WatchMachinesRequest{})
		go listen(foreign.ear, heard, herr)
		next := func(what, kind string) *nstancev1.MachineState {
			t.Helper()
			ev, err := stream.Recv()
			if err != nil || ev.GetType() != kind || kind == "machine" && ev.GetInstanceId() != h.id.String() {
				t.Fatalf("%s: event %v, %v", what, ev, err)
			}
			return ev.GetMachine()
		}
		if m := next("snapshot", "machine"); !m.GetConnected() || m.GetAgentVersion() != "v9" || m.GetAssignment() != nil {
			t.Errorf("snapshot: %v", m)
		}
		next("snapshot", "snapshot_end")

		if err := own.put(ctx, h.id, 1); err != nil {
			t.Fatal(err)
		}
		h.expect(t, "put", "assignment 1, credential "+joinSecret)
		if m := next("put", "machine"); m.GetAssignment().GetEpoch() != 1 || m.GetAssignment().GetCredentialMissing() {
			t.Errorf("put: %v", m)
		}
		h.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_MachineStatus{MachineStatus: &nstancev1.MachineStatus{
			Epoch: 1, Stage: nstancev1.MachineStage_MACHINE_STAGE_JOIN,
		}}})
		if m := next("status", "machine"); m.GetStatus().GetStage() != nstancev1.MachineStage_MACHINE_STAGE_JOIN || !m.GetReportedAt().IsValid() {
			t.Errorf("status: %v", m)
		}

		_, err = foreign.api.PutAssignment(ctx, &nstancev1.PutAssignmentRequest{InstanceId: h.id.String()})
		wantCode(t, err, codes.NotFound, "NOT_FOUND")
		_, err = foreign.api.DeleteAssignment(ctx, &nstancev1.DeleteAssignmentRequest{InstanceId: h.id.String()})
		wantCode(t, err, codes.NotFound, "NOT_FOUND")
		_, err = foreign.api.ConfirmNode(ctx, &nstancev1.ConfirmNodeRequest{InstanceId: h.id.String()})
		wantCode(t, err, codes.NotFound, "NOT_FOUND")
		wantCode(t, own.put(ctx, h.id, 0), codes.InvalidArgument, "INVALID_ASSIGNMENT")

		confirm := &nstancev1.ConfirmNodeRequest{InstanceId: h.id.String(), Epoch: 1, NodeUid: "node-1", BootId: "boot"}
		if _, err := own.ConfirmNode(ctx, confirm); err != nil {
			t.Fatal(err)
		}
		h.expect(t, "confirm", "confirmed node-1")
		if m := next("confirm", "machine"); m.GetAssignment().GetConfirmed().GetNodeUid() != "node-1" {
			t.Errorf("confirm: %v", m)
		}
		info, err := own.GetServerInfo(ctx, &emptypb.Empty{})
		if err != nil || !strings.Contains(strings.Join(info.GetFeatures(), " "), "machine-assignments") {
			t.Errorf("features %v, %v", info.GetFeatures(), err)
		}

		key, size := layout.MachineKey(shardName, "default", h.id), int32(0)
		if _, err := w.store.Get(ctx, key); err != nil {
			t.Errorf("the assignment is not stored: %v", err)
		}
		if _, err := own.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Size: &size}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := w.store.Get(ctx, key); err == nil {
			t.Error("the assignment outlives its instance")
		}
		if _, err := w.store.Get(ctx, layout.InstanceKey(shardName, "default", h.id)); err == nil {
			t.Error("the record is there still: the test shows nothing")
		}
		if foreign.ear.has("workers") || foreign.ear.has("node-1") || foreign.ear.has(joinSecret) {
			t.Error("another tenant heard of the machine")
		}
		if strings.Contains(w.log.String(), joinSecret) {
			t.Error("the log shows the secret")
		}
	})
}

// M84: while its operator holds an instance because its node machine is built, it is not rotated;
// once the hold is over it is.
func TestAnInstanceIsNotRotatedWhileItsNodeMachineIsBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		own := w.operatorOf("default")
		h := w.hosts(own, "web", "machine/v1")
		if err := own.put(w.ctx, h.id, 1); err != nil {
			t.Fatal(err)
		}
		hold := &nstancev1.SetHoldRequest{InstanceId: h.id.String(), Reason: "repave", Until: fromNow(45 * time.Minute)}
		if _, err := own.SetHold(w.ctx, hold); err != nil {
			t.Fatal(err)
		}
		larger := "large"
		if _, err := own.UpsertGroup(w.ctx, &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{InstanceType: &larger}}); err != nil {
			t.Fatal(err)
		}
		h.lives(5 * time.Minute)
		why, err := own.Explain(w.ctx, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: "web"}})
		if err != nil || !strings.Contains(fmt.Sprint(why.GetConditions(), why.GetNext()), "on hold") || len(w.boots) > 0 {
			t.Errorf("explanation %v, %v; %d others were made", why, err, len(w.boots))
		}
		confirm := &nstancev1.ConfirmNodeRequest{InstanceId: h.id.String(), Epoch: 1, NodeUid: "node-1", BootId: "boot"}
		if _, err := own.ConfirmNode(w.ctx, confirm); err != nil {
			t.Fatal(err)
		}
		if _, err := own.ClearHold(w.ctx, &nstancev1.ClearHoldRequest{InstanceId: h.id.String(), Reason: "repave"}); err != nil {
			t.Fatal(err)
		}
		h.lives(time.Minute)
		if len(w.boots) != 1 {
			t.Errorf("%d others were made after the hold, want one", len(w.boots))
		}
	})
}

// An agent of before, or whose host has no paver, is sent nothing of all this, and its operator
// is told that it is not there.
func TestAnAgentOfBeforeHearsNothingOfNodeMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		own := w.operatorOf("default")
		h := w.hosts(own, "web")
		if err := own.put(w.ctx, h.id, 1); err != nil {
			t.Fatal(err)
		}
		h.lives(time.Minute)
		h.expect(t, "without the capability", "")
		stream, err := own.WatchMachines(w.ctx, &nstancev1.WatchMachinesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		ev, err := stream.Recv()
		if err != nil || ev.GetMachine().GetConnected() || ev.GetMachine().GetAssignment().GetEpoch() != 1 {
			t.Errorf("event %v, %v", ev, err)
		}
	})
}

// M75, S12: an operation that a host carries out goes to its agent and its report comes back, to the tenant of the
// instance alone; what switches power never goes to a host.
func TestM75_S12_OperationsOfAHostOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true, power: true})
		own, foreign := w.operatorOf("default"), w.enrolMarked("acme")
		h := w.hosts(own, "web", "machine/v1")
		reports := func(operations ...*nstancev1.MachineOperationReport) {
			h.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_MachineStatus{MachineStatus: &nstancev1.MachineStatus{
				Executors: []*nstancev1.MachineExecutor{{Name: "paver", Operations: []string{"reboot"}}}, Operations: operations,
			}}})
			synctest.Wait()
		}
		start := &nstancev1.StartOperationRequest{Id: "op-1", InstanceId: h.id.String(), Name: "reboot", Deadline: timestamppb.New(time.Now().Add(time.Hour))}
		_, err := own.StartOperation(w.ctx, start)
		wantCode(t, err, codes.FailedPrecondition, "NOT_REPORTED")
		reports()
		if op, err := own.StartOperation(w.ctx, start); err != nil || op.GetState() != nstancev1.OperationState_OPERATION_STATE_PENDING {
			t.Errorf("started: %v, %v", op, err)
		}
		h.expect(t, "asked for", "operation op-1")
		for name, call := range map[string]func() error{
			"start": func() error { _, err := foreign.api.StartOperation(w.ctx, start); return err },
			"get": func() error {
				_, err := foreign.api.GetOperation(w.ctx, &nstancev1.GetOperationRequest{Id: "op-1"})
				return err
			},
			"cancel": func() error {
				_, err := foreign.api.CancelOperation(w.ctx, &nstancev1.CancelOperationRequest{Id: "op-1"})
				return err
			},
		} {
			wantCode(t, call(), codes.NotFound, "NOT_FOUND")
			h.expect(t, name+" of another tenant", "")
		}
		reports(&nstancev1.MachineOperationReport{Id: "op-1", Name: "reboot", State: nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_IN_PROGRESS})
		if op, err := own.CancelOperation(w.ctx, &nstancev1.CancelOperationRequest{Id: "op-1"}); err != nil || op.GetState() != nstancev1.OperationState_OPERATION_STATE_IN_PROGRESS {
			t.Errorf("cancelled: %v, %v", op, err)
		}
		h.expect(t, "cancelled", "cancel op-1")
		reports(&nstancev1.MachineOperationReport{
			Id: "op-1", Name: "reboot", State: nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_COMPLETE, Results: map[string]string{"bootID": "b2"},
		})
		if op, err := own.GetOperation(w.ctx, &nstancev1.GetOperationRequest{Id: "op-1"}); err != nil || op.GetState() != nstancev1.OperationState_OPERATION_STATE_COMPLETE || op.GetResults()["bootID"] != "b2" {
			t.Errorf("ended: %v, %v", op, err)
		}
		_, err = own.StartOperation(w.ctx, &nstancev1.StartOperationRequest{Id: "op-2", InstanceId: h.id.String(), Name: "powerOff"})
		wantCode(t, err, codes.FailedPrecondition, "NO_HOLD")
		_, err = own.StartOperation(w.ctx, &nstancev1.StartOperationRequest{Id: "op-3", InstanceId: h.id.String(), Name: "shutdown", Deadline: start.Deadline})
		wantCode(t, err, codes.FailedPrecondition, "OPERATION_NOT_OFFERED")
		h.expect(t, "what is refused", "")
	})
}
