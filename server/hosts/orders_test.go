package hosts

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

const (
	begun  = nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_IN_PROGRESS
	isOver = nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_COMPLETE
)

// offering is the report of a host that can reboot.
func offering(operations ...*nstancev1.MachineOperationReport) *nstancev1.MachineStatus {
	return &nstancev1.MachineStatus{Executors: []*nstancev1.MachineExecutor{{Name: "paver", Operations: []string{"reboot", "restartService"}}}, Operations: operations}
}

func reported(id string, state nstancev1.MachineOperationState) *nstancev1.MachineOperationReport {
	return &nstancev1.MachineOperationReport{Id: id, Name: "reboot", State: state, Message: "as the host says"}
}

func reboot(id string) OrderRequest {
	return OrderRequest{ID: id, Name: "reboot", Params: map[string]string{"graceSeconds": "5"}, Deadline: time.Now().Add(10 * time.Minute)}
}

// ask asks for an operation, and returns its state, or the reason of a refusal.
func (l *leader) ask(id identity.ID, req OrderRequest) string {
	l.w.t.Helper()
	status, err := l.Order(l.w.t.Context(), l.row(id), req)
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
		return refused.Reason
	}
	return fmt.Sprint(status.GetState(), " ", status.GetMessage())
}

const (
	pending  = "OPERATION_STATE_PENDING "
	progress = "OPERATION_STATE_IN_PROGRESS as the host says"
	done     = "OPERATION_STATE_COMPLETE as the host says"
)

func (l *leader) expectAsk(what string, id identity.ID, req OrderRequest, want string) {
	l.w.t.Helper()
	if got := l.ask(id, req); got != want {
		l.w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// M75, M79: an operation goes to its host, again after a connect, and its report comes back; the same id is the same
// operation, for another leader too.
func TestM75_M79_AnOperationOfAHost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		l.expectAsk("without an agent", id, reboot("op-1"), "NOT_CONNECTED")
		l.connect(id)
		l.expectAsk("before the host has said what it offers", id, reboot("op-1"), "NOT_REPORTED")
		l.Status(id, offering())
		l.expectAsk("asked for", id, reboot("op-1"), pending)
		l.expectSent("asked for", "operation op-1 reboot")
		l.expectAsk("the same again", id, reboot("op-1"), pending)
		l.expectSent("the same again")
		time.Sleep(sendOrderAgain)
		synctest.Wait()
		l.Status(id, offering())
		l.expectSent("it may have been lost", "operation op-1 reboot")
		other := reboot("op-1")
		other.Params = nil
		l.expectAsk("another one of the same id", id, other, "OPERATION_EXISTS")
		l.disconnect(id)
		l.connect(id)
		l.Status(id, offering(reported("op-1", begun)))
		l.expectAsk("the host has begun", id, reboot("op-1"), progress)
		if _, err := l.CancelOrder(t.Context(), "prod", "op-1"); err != nil {
			t.Error(err)
		}
		l.Status(id, offering(reported("op-1", isOver)))
		l.expectAsk("the host is through", id, reboot("op-1"), done)
		if status, err := l.Operation("prod", "op-1"); err != nil || status.GetState() != nstancev1.OperationState_OPERATION_STATE_COMPLETE {
			t.Errorf("%v, %v", status, err)
		}
		l.agents.sent = nil
		l.disconnect(id)
		l.end()

		l = w.lead(2, id)
		defer l.end()
		if _, err := l.Operation("prod", "op-1"); code(err) != refusal.NotFound {
			t.Errorf("another leader, before the host has reported: %v", err)
		}
		l.connect(id)
		l.Status(id, offering(reported("op-1", isOver)))
		l.expectAsk("another leader", id, reboot("op-1"), done)
		l.expectSent("what is over is not asked for again")
	})
}

// M78: what nobody wants any more is said to the host, by whichever leader.
func TestM78_ACancelledOperationOfAHost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		l.connect(id)
		l.Status(id, offering(reported("of another leader", begun)))
		l.expectAsk("asked for", id, reboot("op-1"), pending)
		for _, one := range []string{"op-1", "op-1", "of another leader"} {
			if _, err := l.CancelOrder(t.Context(), "prod", one); err != nil {
				t.Errorf("cancel %s: %v", one, err)
			}
		}
		l.expectSent("cancelled", "operation op-1 reboot", "cancel op-1", "cancel of another leader")
		for _, tenant := range []string{"prod", "another"} {
			if _, err := l.CancelOrder(t.Context(), tenant, "op-2"); code(err) != refusal.NotFound {
				t.Errorf("cancel what nobody has asked for: %v", err)
			}
		}
		if _, err := l.Operation("another", "op-1"); code(err) != refusal.NotFound {
			t.Errorf("another tenant sees it: %v", err)
		}
	})
}

// S22: what is asked for is bounded.
func TestM75_S22_WhatIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id, leaving := w.newID(), w.newID()
		l := w.lead(1, id)
		defer l.end()
		l.insert(leaving, func(in *cache.Instance) { in.State = fleet.Draining })
		l.connect(id)
		l.Status(id, offering())
		for _, c := range []struct {
			want   string
			change func(*OrderRequest)
		}{
			{"INVALID_OPERATION", func(r *OrderRequest) { r.ID = "../x" }},
			{"INVALID_OPERATION", func(r *OrderRequest) { r.Name = "a b" }},
			{"INVALID_OPERATION", func(r *OrderRequest) { r.Deadline = time.Time{} }},
			{"INVALID_OPERATION", func(r *OrderRequest) { r.Deadline = time.Now() }},
			{"INVALID_OPERATION", func(r *OrderRequest) { r.Deadline = time.Now().Add(25 * time.Hour) }},
			{"INVALID_OPERATION", func(r *OrderRequest) { r.Params = map[string]string{"a": string(make([]byte, 5000))} }},
			{"OPERATION_NOT_OFFERED", func(r *OrderRequest) { r.Name = "explode" }},
		} {
			req := reboot("op-1")
			c.change(&req)
			l.expectAsk(fmt.Sprint(req.Name, req.ID), id, req, c.want)
		}
		l.expectAsk("an instance that leaves", leaving, reboot("op-1"), "INSTANCE_LEAVING")
		for i := range maxOrders {
			l.expectAsk("one of many", id, reboot(fmt.Sprint("op-", i)), pending)
		}
		l.expectAsk("too many", id, reboot("one-more"), "TOO_MANY_OPERATIONS")
		l.Status(id, offering(reported("op-3", isOver)))
		l.expectAsk("one is over", id, reboot("one-more"), pending)
	})
}
